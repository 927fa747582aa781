"""Formulas for the log marginal likelihood, all of one shape.

.. math:: L = \\log\\int p(f)\\prod_i t_i(f_i)\\,df + \\sum_i c_i(\\mu_i, v_i, d_i, \\nu_i, \\tau_i)

with the sites t of `sites.GaussianSites`, the posterior marginals N(μ_i, v_i) of the projected
latents and the residual variances d_i (zero in the full model). A formula is its correction c.
The log normalisers of all likelihoods are included: L estimates log p(y). Both terms hold
log t_i(μ_i) = ν_i μ_i − τ_i μ_i²/2, of any size and with opposite signs: it is left out of either,
and ν − τμ = α comes from the posterior, which has it without cancellation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_ext.gp.errors import ImproperPosteriorError
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters, Tilted
from pymc_ext.gp.posterior import Posterior
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.maths.types import Array

# V, in squared widths of p(y|f), below which ℓ's third order is enough. There its curvature is off
# by 1e-5 and that of the differences, which round, by 6e-7; at a tenth by 1e-6 and 6e-5
NARROW = 1e-6


@dataclass(frozen=True)
class Correction:
    """Σ c_i + log t_i(μ_i), which goes with ``centred_log_normaliser``, and Σ c_i's derivatives.

    In marginals and sites (n,) or (n, L), in likelihood parameters (P,).
    """

    value: float
    mean: Array
    variance: Array
    residual: Array
    linear: Array
    precision: Array
    parameters: Array


Formula = Callable[..., Correction]


def elbo(
    post: Posterior, sites: GaussianSites, lik: Likelihood, y: Array, phi: Parameters
) -> Correction:
    """The evidence lower bound: E_q log p(y|f) − KL(q‖p), as −KL = log Z_sites − E_q log t."""
    tau, mu, v = sites.precision, post.mean, post.variance
    e = lik.expectations(mu, v + post.residual, y, phi)
    d1, d2 = e.derivatives[:2]
    return Correction(
        value=float(np.sum(e.value) + 0.5 * np.sum(tau * v)),
        mean=d1 - post.alpha,
        variance=0.5 * (d2 + tau),
        residual=0.5 * d2,
        linear=-mu,
        precision=0.5 * (mu**2 + v),
        parameters=e.parameters[:, 0].sum(axis=1),
    )


def laplace(
    post: Posterior, sites: GaussianSites, lik: Likelihood, y: Array, phi: Parameters
) -> Correction:
    """Laplace's approximation around the posterior mean of the sites, R&W (3.32).

    Sparse: of the projected process f = g, whose residual variance it leaves out.
    """
    mu = post.mean
    zero = np.zeros_like(mu)
    return Correction(
        value=float(np.sum(lik.log_prob(mu, y, phi))),
        mean=lik.derivatives(mu, y, phi)[0] - post.alpha,
        variance=zero,
        residual=zero,
        linear=-mu,
        precision=0.5 * mu**2,
        parameters=lik.parameter_derivatives(mu, y, phi)[:, 0].sum(axis=1),
    )


def cavities(post: Posterior, sites: GaussianSites, power: float) -> tuple[Array, Array, Array]:
    """Mean and variance of q without t^power, and k = 1 − power τ v (> 0 iff it is proper)."""
    k = 1 - power * sites.precision * post.variance
    v_c = post.variance / k
    return post.mean - power * v_c * post.alpha, v_c, k


def tilted_slopes(
    lik: Likelihood, m: Array, V: Array, y: Array, phi: Parameters, power: float
) -> tuple[Tilted, Array, Array]:
    """Tilted moments under N(m, V), and log Ẑ's first two derivatives in m."""
    t = lik.tilted(m, V, y, phi, power)
    slope, curvature = (t.mean - m) / V, (t.variance - V) / V**2
    narrow = V < NARROW * lik.scale(y, phi)[1] ** 2
    if narrow.any():  # both differences are rounding there
        first, second, third = lik.derivatives(m, y, phi)
        widened = 1 - power * V * second
        expanded = power * (first / widened + 0.5 * V * third / widened**2)
        slope = np.where(narrow, expanded, slope)
        curvature = np.where(narrow, power * second / widened, curvature)
    return t, slope, curvature


def expectation_propagation(
    post: Posterior,
    sites: GaussianSites,
    lik: Likelihood,
    y: Array,
    phi: Parameters,
    power: float = 1.0,
) -> Correction:
    r"""The (power) EP energy at any sites, R&W (3.65), Li et al. (13).

    .. math:: c_i = \frac1a\left[\log\int N(f; \text{cavity}) p(y_i|f)^a df
              - \log\int N(g; \text{cavity}) t_i(g)^a dg\right]
    """
    a, pull = power, post.alpha
    m_c, v_c, k = cavities(post, sites, a)
    if np.any(k <= 0):
        raise ImproperPosteriorError(
            f"{int(np.sum(k <= 0))} cavities have no positive variance at these sites: the EP "
            "energy is undefined; use learning='elbo' or a smaller power"
        )
    V = v_c + post.residual
    t, g1, curvature = tilted_slopes(lik, m_c, V, y, phi, a)
    g2 = 0.5 * (g1**2 + curvature)  # ∂ log Ẑ/∂V
    log_Z_t = 0.5 * (np.log(k) - a**2 * v_c * pull**2)  # of (t/t(μ))^a
    return Correction(
        value=float(np.sum(t.log_normaliser - log_Z_t) / a),
        mean=(g1 / a - pull) / k,
        variance=(-g1 * pull + g2 / a + 0.5 * a * pull**2) / k**2 + 0.5 * sites.precision / k,
        residual=g2 / a,
        linear=-g1 * v_c - m_c,
        precision=g1 * v_c * m_c + g2 * v_c**2 + 0.5 * (v_c + m_c**2),
        parameters=t.parameters.sum(axis=1),
    )


def exact_under_sites(
    post: Posterior, sites: GaussianSites, lik: Likelihood, y: Array, phi: Parameters
) -> Correction:
    """The exact evidence of the model with likelihood N(ν/τ | f, 1/τ), all τ > 0.

    Sparse: Titsias' collapsed bound, −½ Σ τ_i d_i.
    """
    nu, tau, d = sites.linear, sites.precision, post.residual
    if np.any(tau <= 0):
        raise ImproperPosteriorError(
            "sites with precision <= 0 are no Gaussian likelihood: learning='sites' needs Matching"
        )
    log_likelihood = 0.5 * (np.log(tau / (2 * np.pi)) - post.alpha**2 / tau)  # ν/τ − μ = α/τ
    return Correction(
        value=float(np.sum(log_likelihood - 0.5 * tau * d)),
        mean=np.zeros_like(nu),
        variance=np.zeros_like(nu),
        residual=-0.5 * tau,
        linear=-nu / tau,
        precision=0.5 * ((nu / tau) ** 2 + 1 / tau - d),
        parameters=np.zeros(len(lik.names)),
    )


FORMULAS: dict[str, Formula] = {
    "laplace": laplace,
    "ep": expectation_propagation,
    "elbo": elbo,
    "sites": exact_under_sites,
}
