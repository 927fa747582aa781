"""log q of Gaussians and their mixtures, which several sources hand over by their parameters."""

from __future__ import annotations

import numpy as np

from bridge.methods.method import LogDensity
from pymc_ext.maths.types import Array

__all__ = ["gaussian_mixture_log_q"]


def gaussian_mixture_log_q(weight: Array, mean: Array, cov: Array) -> LogDensity:
    """log Σ_k w_k N(θ; m_k, S_k) as a function of θ.

    Parameters
    ----------
    weight, mean, cov
        w (K,), m (K, D) and S (K, D, D), unconstrained space.

    Returns
    -------
    callable
        (N, D) -> (N,)
    """
    from scipy.special import logsumexp
    from scipy.stats import multivariate_normal  # half a second to import

    components = [
        multivariate_normal(m, S, allow_singular=False) for m, S in zip(mean, cov, strict=True)
    ]
    log_weight = np.log(weight)

    def log_q(theta: Array) -> Array:
        logs = np.stack([np.atleast_1d(c.logpdf(theta)) for c in components])
        return logsumexp(logs + log_weight[:, None], axis=0)

    return log_q
