"""Evidence by bridge sampling (Meng and Wong's optimal bridge).

Notation: p̃ the unnormalised target with log evidence ``c = log Z``, q a normalised density;
``l = log p̃ - log q``, ``l_p`` at draws of p and ``l_q`` at draws of q. Draws of p may be chains,
arrays ``(chains, draws)``: their autocorrelation then enters every standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import arviz as az
import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from bridge.measures.limits import BRIDGE_FEWEST_TERMS
from bridge.targets.target import Target
from pymc_ext.maths.types import Array
from pymc_ext.options import as_numbers
from pymc_ext.variational.core.weights import are_constant

__all__ = ["LogEvidence", "bridge_sampling", "log_evidence", "paired", "standard_error"]

STREAM = 0xB41D6E  # a stream of its own: the reference draws may stem from the same small seed


@dataclass(frozen=True)
class LogEvidence:
    """Log Z with its standard error.

    Attributes
    ----------
    value, se : float
        Log Z and the standard error of log Z; NaN where ``reason`` says there is none.
    reliable : bool
        Both densities overlap enough for value and se to mean something.
    reason : str or None
        Why not.
    iterations : int
        Iterations of the root finder.
    effective_p, effective_q : float
        Effective number of terms from the draws of p and of q: ``(sum h)^2 / sum h^2``, times
        the efficiency of the draws. Near the numbers of draws where q is close to p, a handful
        where the densities hardly overlap.
    """

    value: float
    se: float
    reliable: bool
    reason: str | None
    iterations: int
    effective_p: float
    effective_q: float


def bridge_sampling(
    lp_p: Array,
    lq_p: Array,
    lp_q: Array,
    lq_q: Array,
    ess_p: float | None = None,
) -> LogEvidence:
    r"""Log evidence by optimal bridge sampling between draws of p and draws of q.

    The fixed point r = Z of Meng and Wong's iteration

    .. math:: r = \frac{N_q^{-1} \sum_{q} e^{l} / (s_p e^{l} + s_q r)}
                       {N_p^{-1} \sum_{p} 1 / (s_p e^{l} + s_q r)},
              \quad s_p = n_p / (n_p + n_q),

    is the only root of a decreasing function of log r, and is found by bracketing, which
    converges where the iteration crawls. ``n_p`` is the effective sample size of the draws of p.
    The standard error of log Z is the relative root mean squared error of Frühwirth-Schnatter,
    with the autocorrelation of the terms from p taken from their chains.

    Parameters
    ----------
    lp_p, lq_p : array (N,) or (chains, draws)
        Log p̃ and log q at draws of p, on one space.
    lp_q, lq_q : array (M,) or of any shape
        Log p̃ and log q at independent draws of q.
    ess_p : float, optional
        Effective sample size of the draws of p. By default the number of draws if the arrays
        are 1-D, and from the chains (ArviZ) if they are 2-D.

    Returns
    -------
    LogEvidence
        log of Z_p / Z_q, so log Z if log q is normalised. ``reliable`` is false where one side
        of the bridge has fewer than 100 effective terms, or where a density is NaN.

    Raises
    ------
    ValueError
        If shapes disagree or an array is empty.
    TypeError
        If they are no numbers.

    References
    ----------
    Meng and Wong (1996), Statistica Sinica 6, 831. Frühwirth-Schnatter (2004), Econometrics J. 7,
    143, doi:10.1111/j.1368-423X.2004.00125.x. Gronau et al. (2017), arXiv:1703.05984.
    """
    l_p, l_q = _log_ratios(lp_p, lq_p, lp_q, lq_q)
    l_p, l_q = np.atleast_2d(l_p), l_q.reshape(1, -1)
    problem = _unusable(l_p, l_q)
    if problem:
        return LogEvidence(np.nan, np.nan, False, problem, 0, np.nan, np.nan)
    n_p = _effective_size(expit(l_p - np.median(l_q))) if ess_p is None else float(ess_p)
    log_odds = np.log(n_p / l_q.size)
    c, iterations = _root(l_p, l_q, log_odds, n_p)
    h_p = expit(c - l_p - log_odds)  # s_q q / (s_p p + s_q q) at draws of p
    h_q = expit(l_q - c + log_odds)  # s_p p / (s_p p + s_q q) at draws of q
    # the influence of every draw on log Z
    psi_p, psi_q = 1 - h_p / np.mean(h_p), h_q / h_q.mean() - 1
    se = float(np.hypot(standard_error(psi_p, ess_p), standard_error(psi_q)))
    efficiency = min(_effective_size(psi_p) if ess_p is None else float(ess_p), l_p.size) / l_p.size
    effective_p, effective_q = _kish(h_p) * efficiency, _kish(h_q)
    reason = _overlap(effective_p, effective_q)
    return LogEvidence(c, se, not reason, reason, iterations, effective_p, effective_q)


def log_evidence(
    target: Target, reference_theta: Array, random_seed: int = 1, swap: bool = True
) -> LogEvidence:
    """Log evidence of a target from posterior draws, by a warp to a standard normal.

    Half of every chain fits mean m and Cholesky factor L; the other half z = L^-1 (theta - m) is
    bridged with as many standard normal draws, on the symmetrised density
    ``(p̃(m + L z) + p̃(m - L z)) |L| / 2`` (Warp-III): location, scale and skewness of the
    posterior are matched. With ``swap`` the halves change roles and the estimates are averaged.

    Parameters
    ----------
    target : Target
        The posterior on R^D.
    reference_theta : array (chains, draws, D)
        Draws of the posterior, unconstrained space.

    Returns
    -------
    LogEvidence
        Also unreliable where the two halves disagree by more than 4 standard errors.

    Raises
    ------
    ValueError
        If the draws have another shape, are too few for the covariance, or are not finite.
    TypeError
        If the draws are no numbers, or ``target`` has no density.

    References
    ----------
    Meng and Schilling (2002), JCGS 11, 552, doi:10.1198/106186002457.
    Overstall and Forster (2010), CSDA 54, 3269. Gronau et al. (2017), arXiv:1703.05984.
    """
    missing = [name for name in ("dimension", "log_density") if not hasattr(target, name)]
    if missing:
        raise TypeError(
            f"target must be a target, got {type(target).__name__} without {', '.join(missing)}: "
            "make one by bridge.pymc_target(model) or bridge.stan_target(program.density(data))"
        )
    theta = _check_reference(reference_theta, target.dimension)
    half = theta.shape[1] // 2
    rng = np.random.default_rng([random_seed, STREAM])
    first = _warped(target, theta[:, :half], theta[:, half:], rng)
    if not swap:
        return first
    return _average(first, _warped(target, theta[:, half:], theta[:, :half], rng))


def _root(l_p: Array, l_q: Array, log_odds: float, n_p: float) -> tuple[float, int]:
    """Root c of n_q mean_q[h_q] = n_p mean_p[h_p], whose difference decreases in c."""
    finite = np.concatenate([l[np.isfinite(l)] for l in (l_p, l_q)])  # noqa: E741
    spread = 1 + abs(log_odds) + np.log(l_p.size * l_q.size)
    low, high = finite.min() - spread, finite.max() + spread

    def excess(c: float) -> float:
        return l_q.size * expit(l_q - c + log_odds).mean() - n_p * expit(c - l_p - log_odds).mean()

    c, result = brentq(excess, low, high, xtol=1e-12, full_output=True)
    return float(c), int(result.iterations)


def _warped(target: Target, fit: Array, draws: Array, rng: np.random.Generator) -> LogEvidence:
    """Log Z by Warp-III bridge sampling: moments from ``fit``, bridge with ``draws``."""
    flat = fit.reshape(-1, fit.shape[-1])
    mean, L = flat.mean(axis=0), _cholesky(np.atleast_2d(np.cov(flat, rowvar=False)))
    z_p = np.linalg.solve(L, (draws.reshape(-1, flat.shape[1]) - mean).T).T
    z_q = np.asarray(rng.standard_normal(z_p.shape))
    constant = np.log(np.diag(L)).sum() - np.log(2)

    def log_p(z: Array) -> Array:
        step = z @ L.T
        return np.logaddexp(target.log_density(mean + step), target.log_density(mean - step))

    def log_q(z: Array) -> Array:
        return -0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * np.log(2 * np.pi)

    chains = draws.shape[:2]
    lp_p, lq_p = (log_p(z_p) + constant).reshape(chains), log_q(z_p).reshape(chains)
    return bridge_sampling(lp_p, lq_p, log_p(z_q) + constant, log_q(z_q))


def _cholesky(cov: Array) -> Array:
    try:
        return np.linalg.cholesky(cov)
    except np.linalg.LinAlgError:
        raise ValueError(
            "covariance of the reference draws is singular: a coordinate is constant or a linear "
            "combination of others, expected draws that vary in every direction"
        ) from None


def _average(a: LogEvidence, b: LogEvidence) -> LogEvidence:
    value, se = (a.value + b.value) / 2, float(np.hypot(a.se, b.se) / 2)
    reason = a.reason or b.reason
    if reason is None and abs(a.value - b.value) > 4 * 2 * se:
        reason = f"the two halves of the draws disagree: {a.value:.4f} and {b.value:.4f}"
    effective_p = min(a.effective_p, b.effective_p)
    effective_q = min(a.effective_q, b.effective_q)
    iterations = a.iterations + b.iterations
    return LogEvidence(value, se, not reason, reason, iterations, effective_p, effective_q)


def standard_error(terms: Array, ess: float | None = None) -> float:
    """Standard error of the mean of (chains, draws) terms."""
    size = _effective_size(terms) if ess is None else ess
    return float(terms.std(ddof=1) / np.sqrt(size))


def _effective_size(terms: Array) -> float:
    """Effective sample size of chains of terms; their number for one row (independent draws)."""
    if terms.shape[0] == 1 or are_constant(terms):
        return float(terms.size)
    if terms.shape[1] < 4:
        raise ValueError(f"chains must have at least 4 draws each, got {terms.shape[1]}")
    return float(az.ess(terms, method="mean"))


def _kish(h: Array) -> float:
    return float(h.sum() ** 2 / np.sum(h**2))


def _overlap(effective_p: float, effective_q: float) -> str | None:
    if min(effective_p, effective_q) >= BRIDGE_FEWEST_TERMS:
        return None
    return (
        f"poor overlap: {effective_p:.0f} effective terms from p and {effective_q:.0f} from q, "
        f"expected at least {BRIDGE_FEWEST_TERMS} of each"
    )


def _unusable(l_p: Array, l_q: Array) -> str | None:
    for label, bad in (
        ("log ratio is NaN at draws of p", np.isnan(l_p)),
        ("log p is -inf at draws of p", l_p == -np.inf),
        ("log ratio is NaN at draws of q", np.isnan(l_q)),
        ("log q is -inf at draws of q", l_q == np.inf),
    ):
        if bad.any():
            return f"{label}: {bad.sum()} of {bad.size}"
    if not (np.isfinite(l_p).any() and np.isfinite(l_q).any()):
        return "the densities do not overlap: no draw of one lies in the support of the other"
    return None


def _log_ratios(lp_p: Array, lq_p: Array, lp_q: Array, lq_q: Array) -> tuple[Array, Array]:
    lp_p, lq_p = paired(lp_p, lq_p, "draws of p")
    lp_q, lq_q = paired(lp_q, lq_q, "draws of q")
    if lp_p.ndim > 2:
        raise ValueError(f"lp_p must be (N,) or (chains, draws), got {lp_p.shape}")
    return lp_p - lq_p, lp_q - lq_q


def paired(lp: Array, lq: Array, where: str) -> tuple[Array, Array]:
    lp = as_numbers(f"log p at {where}", lp)
    lq = as_numbers(f"log q at {where}", lq)
    if lp.shape != lq.shape or lp.ndim == 0 or lp.size < 2:
        raise ValueError(
            f"log p and log q at {where} must have one shape and at least two entries, "
            f"got {lp.shape} and {lq.shape}"
        )
    return lp, lq


def _check_reference(theta: Array, dimension: int) -> Array:
    theta = as_numbers("reference_theta", theta)
    if theta.ndim != 3 or theta.shape[2] != dimension:
        raise ValueError(f"reference draws must be (chains, draws, {dimension}), got {theta.shape}")
    if theta.shape[0] * theta.shape[1] < 4 * (dimension + 1):
        raise ValueError(
            f"reference draws must number at least {4 * (dimension + 1)} for a covariance in "
            f"{dimension} dimensions, got {theta.shape[0] * theta.shape[1]}"
        )
    if not np.isfinite(theta).all():
        raise ValueError("reference draws must be finite")
    return theta
