"""The truth to compare with: exact sampling of the latents, and of the log evidence.

Notation: prior N(m, K) over the n latents, C independent chains at once, arrays (C, n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from pymc_ext.gp.covariance import ASYMMETRY
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.maths.types import Array
from pymc_ext.seeds import check_seed

INDEFINITE = 1e-8  # of the largest eigenvalue: rounding leaves n 2e-16 of it below 0
MAX_SHRINKS = 200  # of a bracket that halves on average: 2π 2⁻²⁰⁰ is below any rounding
LogLikelihood = Callable[[Array], Array]


@dataclass(frozen=True)
class AnnealedEvidence:
    """Estimates of log p(y) by annealed importance sampling.

    Parameters
    ----------
    log_estimates
        One unbiased estimate of p(y) a chain, as logarithms, (C,).
    log_mean
        log of their mean (unbiased for p(y)).
    geometric_mean
        Mean of the logarithms, the published convention (biased low).
    standard_error
        Of ``geometric_mean`` over the chains.
    latents
        Last states, draws of about p(f | y), (C, n).
    """

    log_estimates: Array
    log_mean: float
    geometric_mean: float
    standard_error: float
    latents: Array = field(repr=False)


def elliptical_slice_step(
    f: Array,
    centred_prior: Array,
    mean: Array,
    log_likelihood: LogLikelihood,
    current: Array,
    rng: np.random.Generator,
) -> tuple[Array, Array]:
    """One update of every chain that leaves prior × likelihood invariant.

    Parameters
    ----------
    f : (C, n)
        States.
    centred_prior : (C, n)
        Fresh draws of N(0, K).
    mean : (n,)
    log_likelihood
        (c, n) to (c,).
    current : (C,)
        Its values at ``f``.

    Returns
    -------
    f, log_likelihood
        New states and their values.

    References
    ----------
    Murray, Adams & MacKay (2010), Elliptical slice sampling, arXiv:1001.0175.
    """
    C = len(f)
    threshold = current + np.log(rng.random(C))
    angle = rng.uniform(0, 2 * np.pi, C)
    low, high = angle - 2 * np.pi, angle.copy()
    out, value, todo = f.copy(), current.copy(), np.arange(C)
    for _ in range(MAX_SHRINKS):
        a = angle[todo, None]
        trial = mean + (f[todo] - mean) * np.cos(a) + centred_prior[todo] * np.sin(a)
        got = log_likelihood(trial)
        accepted = got > threshold[todo]
        out[todo[accepted]], value[todo[accepted]] = trial[accepted], got[accepted]
        todo = todo[~accepted]
        if not todo.size:
            return out, value
        negative = angle[todo] < 0
        low[todo[negative]], high[todo[~negative]] = angle[todo[negative]], angle[todo[~negative]]
        angle[todo] = rng.uniform(low[todo], high[todo])
    return out, value  # the bracket has shrunk to the present state: it stays


def annealed_evidence(
    mean: Array | float,
    K: Array,
    likelihood: Likelihood,
    y: Array,
    phi: Parameters | None = None,
    steps: int = 8000,
    chains: int = 3,
    random_seed: int = 0,
) -> AnnealedEvidence:
    r"""log p(y) by annealed importance sampling with elliptical slice transitions.

    .. math:: \log p(y) \approx \sum_{t=1}^T (\tau_t - \tau_{t-1}) \log p(y \mid f_t), \quad
              \tau_t = (t/T)^4, \quad f_t \sim p(f) p(y \mid f)^{\tau_{t-1}}

    Parameters
    ----------
    mean : (n,) array or number
    K : (n, n) array
    likelihood, y, phi
        Factorising likelihood of one latent, observations (n,), its parameters (P,) in the order
        of ``likelihood.names``.
    steps, chains
        T and the number of independent repetitions; the defaults are Li, John & Solin's.
    random_seed
        Seed.

    Raises
    ------
    ValueError
        If shapes disagree, the likelihood has several latents, or its parameters are missing or
        out of range.

    Examples
    --------
    >>> import numpy as np, pymc_ext as px
    >>> found = px.gp.annealed_evidence(0.0, np.eye(1), px.gp.BernoulliProbit(), [1.0], steps=2000)
    >>> bool(abs(found.log_mean - np.log(0.5)) < 0.2)
    True

    References
    ----------
    Neal (2001), arXiv:physics/9803008. Kuss & Rasmussen (2005). Li, John & Solin (2023), app. B.
    """
    if steps < 1 or chains < 1:
        raise ValueError(f"steps and chains must be >= 1, got {steps} and {chains}")
    mean, y, phi = _checked(likelihood, mean, K, y, phi)
    check_seed(random_seed)
    rng, root = np.random.default_rng(random_seed), prior_root(K)
    tau = (np.arange(steps + 1) / steps) ** 4

    def log_p(f: Array) -> Array:
        return likelihood.log_prob(f, y, phi).sum(axis=-1)

    f: Array = mean + rng.standard_normal((chains, len(mean))) @ root.T
    plain = log_p(f)
    total = tau[1] * plain
    for t in range(1, steps):
        power = float(tau[t])

        def tempered_log_p(x: Array, power: float = power) -> Array:
            return power * log_p(x)

        nu = rng.standard_normal(f.shape) @ root.T
        f, tempered = elliptical_slice_step(f, nu, mean, tempered_log_p, power * plain, rng)
        plain = tempered / power
        total += (tau[t + 1] - power) * plain
    return AnnealedEvidence(
        log_estimates=total,
        log_mean=float(logsumexp(total) - np.log(chains)),
        geometric_mean=float(total.mean()),
        standard_error=float(total.std(ddof=1) / np.sqrt(chains)) if chains > 1 else np.inf,
        latents=f,
    )


def sample_latents(
    mean: Array | float,
    K: Array,
    likelihood: Likelihood,
    y: Array,
    phi: Parameters | None = None,
    draws: int = 1000,
    tune: int = 200,
    thin: int = 1,
    chains: int = 4,
    start: Array | None = None,
    random_seed: int = 0,
) -> Array:
    """Draws of p(f | y) at given hyperparameters by elliptical slice sampling.

    Parameters
    ----------
    mean, K, likelihood, y, phi
        As in `annealed_evidence`.
    draws, tune, thin, chains
        Kept draws a chain, dropped ones before, steps between kept draws, chains.
    start : (chains, n) array, optional
        First states; draws of the prior if missing.

    Returns
    -------
    (chains, draws, n) array

    Raises
    ------
    ValueError
        As `annealed_evidence`.

    Examples
    --------
    >>> import numpy as np, pymc_ext as px
    >>> f = px.gp.sample_latents(0.0, np.eye(2), px.gp.BernoulliProbit(), [1.0, 0.0], draws=500)
    >>> bool(f[..., 0].mean() > 0.3 > f[..., 1].mean())
    True
    """
    sizes = {"draws": draws, "thin": thin, "chains": chains, "tune + 1": tune + 1}
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be >= 1, got {size}")
    mean, y, phi = _checked(likelihood, mean, K, y, phi)
    check_seed(random_seed)
    rng, root = np.random.default_rng(random_seed), prior_root(K)

    def log_p(f: Array) -> Array:
        return likelihood.log_prob(f, y, phi).sum(axis=-1)

    f: Array = mean + rng.standard_normal((chains, len(mean))) @ root.T
    if start is not None:
        if np.shape(start) != f.shape:
            raise ValueError(
                f"start must have shape (chains, n) = {f.shape}, got {np.shape(start)}"
            )
        f = np.asarray(start, dtype=float)
    value, kept = log_p(f), np.empty((chains, draws, len(mean)))
    for i in range(tune + draws * thin):
        nu = rng.standard_normal(f.shape) @ root.T
        f, value = elliptical_slice_step(f, nu, mean, log_p, value, rng)
        if i >= tune and (i - tune + 1) % thin == 0:
            kept[:, (i - tune) // thin] = f
    return kept


def _checked(
    likelihood: Likelihood,
    mean: Array | float,
    K: Array,
    y: Array,
    phi: Parameters | None,
) -> tuple[Array, Array, Parameters]:
    if likelihood.n_latent > 1:
        raise ValueError(
            f"sampling needs a likelihood of one latent, got {likelihood} of {likelihood.n_latent}"
        )
    y, values = likelihood.check(y), np.empty(0) if phi is None else np.asarray(phi, dtype=float)
    if values.shape != (len(likelihood.names),):
        got = "none" if phi is None else f"shape {values.shape}"
        names = ", ".join(likelihood.names) or "none"
        raise ValueError(
            f"phi must hold the parameters of {type(likelihood).__name__} ({names}) as an array "
            f"({len(likelihood.names)},), got {got}"
        )
    likelihood.check_parameters(values)
    if np.shape(K) != (len(y), len(y)) or np.shape(mean) not in ((), y.shape):
        raise ValueError(
            f"K must be ({len(y)}, {len(y)}) and mean ({len(y)},) or a number as y has {len(y)} "
            f"entries, got {np.shape(K)} and {np.shape(mean)}"
        )
    return np.broadcast_to(np.asarray(mean, float), y.shape), y, values


def prior_root(K: Array) -> Array:
    """A with A Aᵀ = K, by eigenvalues as K may be singular."""
    K = np.asarray(K, dtype=float)
    if not (np.isfinite(K).all() and np.allclose(K, K.T, rtol=ASYMMETRY, atol=ASYMMETRY)):
        raise ValueError("K must be finite and symmetric: check the covariance function")
    values, vectors = np.linalg.eigh(K)
    if values[0] < -INDEFINITE * values[-1]:
        raise ValueError(f"K is not positive definite: smallest eigenvalue {values[0]:.3g}")
    return vectors * np.sqrt(np.maximum(values, 0.0))
