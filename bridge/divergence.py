"""Evidence by bridge sampling, and Kullback-Leibler divergences in both directions.

Notation: p̃ the unnormalised target with log evidence ``c = log Z``, q a normalised density;
``l = log p̃ - log q``, ``l_p`` at draws of p and ``l_q`` at draws of q. Draws of p may be chains,
arrays ``(chains, draws)``: their autocorrelation then enters every standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import arviz as az
import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from bridge.khat import CONSTANT

if TYPE_CHECKING:
    from bridge.target import Target

__all__ = ["Divergence", "Divergences", "LogEvidence", "bridge_sampling", "divergences"]
__all__ += ["kl_from_q", "kl_to_q", "log_evidence"]

EFFECTIVE = 100  # effective terms each side of the bridge needs: relative error below 14 %
DOMINATED = 20  # effective terms the variance of log ratios needs


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


@dataclass(frozen=True)
class Divergence:
    """A Kullback-Leibler divergence in nats; ``se`` includes the standard error of log Z."""

    value: float
    se: float
    reliable: bool
    reason: str | None


class Divergences(NamedTuple):
    """What `divergences` estimates together from one pair of samples."""

    log_evidence: LogEvidence
    kl_from_q: Divergence
    kl_to_q: Divergence


def bridge_sampling(
    lp_p: np.ndarray,
    lq_p: np.ndarray,
    lp_q: np.ndarray,
    lq_q: np.ndarray,
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

    References
    ----------
    Meng and Wong (1996), Statistica Sinica 6, 831. Frühwirth-Schnatter (2004), Econometrics J. 7,
    143, doi:10.1111/j.1368-423X.2004.00125.x. Gronau et al. (2017), arXiv:1703.05984.
    """
    return _bridge(*_ratios(lp_p, lq_p, lp_q, lq_q), ess_p)[0]


def log_evidence(
    target: Target, reference_theta: np.ndarray, random_seed: int = 1, swap: bool = True
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

    References
    ----------
    Meng and Schilling (2002), JCGS 11, 552, doi:10.1198/106186002457.
    Overstall and Forster (2010), CSDA 54, 3269. Gronau et al. (2017), arXiv:1703.05984.
    """
    theta = _check_reference(reference_theta, target.dimension)
    half = theta.shape[1] // 2
    rng = np.random.default_rng(random_seed)
    first = _warped(target, theta[:, :half], theta[:, half:], rng)
    if not swap:
        return first
    return _average(first, _warped(target, theta[:, half:], theta[:, :half], rng))


def kl_from_q(lp_q: np.ndarray, lq_q: np.ndarray, log_evidence: LogEvidence) -> Divergence:
    """KL(q‖p) = E_q[log q - log p̃] + log Z from independent draws of q.

    Parameters
    ----------
    lp_q, lq_q : array
        Log p̃ and log q (normalised) at draws of q.
    log_evidence : LogEvidence
        From other draws than these: the standard errors are added as independent.

    Returns
    -------
    Divergence
        Infinite and unreliable where log p̃ is -inf at a draw of q. Unreliable where fewer than
        20 effective draws carry the variance of the log ratios, or where log Z is.
    """
    lp, lq = _pair(lp_q, lq_q, "draws of q")
    return _divergence((lq - lp).reshape(1, -1), log_evidence, +1, "log p is -inf at draws of q")


def kl_to_q(lp_p: np.ndarray, lq_p: np.ndarray, log_evidence: LogEvidence) -> Divergence:
    """KL(p‖q) = E_p[log p̃ - log q] - log Z from draws of p, ``(N,)`` or ``(chains, draws)``.

    Otherwise as `kl_from_q`. Log Z from the same draws of p shares their error; as its own is
    usually far smaller the sum remains a fair standard error (`divergences` gives the joint one).
    """
    lp, lq = _pair(lp_p, lq_p, "draws of p")
    return _divergence(np.atleast_2d(lp - lq), log_evidence, -1, "log q is -inf at draws of p")


def divergences(
    lp_p: np.ndarray,
    lq_p: np.ndarray,
    lp_q: np.ndarray,
    lq_q: np.ndarray,
    ess_p: float | None = None,
) -> Divergences:
    """Log Z and both divergences from the same two samples, with joint standard errors.

    Arguments as `bridge_sampling`. Errors of log Z and of the mean log ratio largely cancel when
    q is close to p; the standard errors here are those of the sum (delta method on both samples).
    """
    l_p, l_q = _ratios(lp_p, lq_p, lp_q, lq_q)
    evidence, psi_p, psi_q = _bridge(l_p, l_q, ess_p)
    forward, backward = (-l_q).reshape(1, -1), np.atleast_2d(l_p)
    kl_q = _divergence(forward, evidence, +1, "log p is -inf at draws of q")
    kl_p = _divergence(backward, evidence, -1, "log q is -inf at draws of p")
    if np.isfinite(kl_q.value):
        kl_q = _with_se(kl_q, _se(forward + psi_q), _se(psi_p, ess_p))
    if np.isfinite(kl_p.value):
        kl_p = _with_se(kl_p, _se(backward - psi_p, ess_p), _se(psi_q))
    return Divergences(evidence, kl_q, kl_p)


def _bridge(
    l_p: np.ndarray, l_q: np.ndarray, ess_p: float | None
) -> tuple[LogEvidence, np.ndarray, np.ndarray]:
    """Log Z, and the influence of every draw of p (chains, draws) and q (1, M) on it."""
    l_p, l_q = np.atleast_2d(l_p), l_q.reshape(1, -1)
    problem = _unusable(l_p, l_q)
    if problem:
        nothing = LogEvidence(np.nan, np.nan, False, problem, 0, np.nan, np.nan)
        return nothing, np.full(l_p.shape, np.nan), np.full(l_q.shape, np.nan)
    n_p = _effective_size(expit(l_p - np.median(l_q))) if ess_p is None else float(ess_p)
    log_odds = np.log(n_p / l_q.size)
    c, iterations = _root(l_p, l_q, log_odds, n_p)
    h_p = expit(c - l_p - log_odds)  # s_q q / (s_p p + s_q q) at draws of p
    h_q = expit(l_q - c + log_odds)  # s_p p / (s_p p + s_q q) at draws of q
    psi_p, psi_q = 1 - h_p / h_p.mean(), h_q / h_q.mean() - 1
    se = float(np.hypot(_se(psi_p, ess_p), _se(psi_q)))
    efficiency = min(_effective_size(psi_p) if ess_p is None else float(ess_p), l_p.size) / l_p.size
    effective_p, effective_q = _kish(h_p) * efficiency, _kish(h_q)
    reason = _overlap(effective_p, effective_q)
    evidence = LogEvidence(c, se, not reason, reason, iterations, effective_p, effective_q)
    return evidence, psi_p, psi_q


def _root(l_p: np.ndarray, l_q: np.ndarray, log_odds: float, n_p: float) -> tuple[float, int]:
    """Root c of n_q mean_q[h_q] = n_p mean_p[h_p], whose difference decreases in c."""
    finite = np.concatenate([l[np.isfinite(l)] for l in (l_p, l_q)])  # noqa: E741
    spread = 1 + abs(log_odds) + np.log(l_p.size * l_q.size)
    low, high = finite.min() - spread, finite.max() + spread

    def excess(c: float) -> float:
        return l_q.size * expit(l_q - c + log_odds).mean() - n_p * expit(c - l_p - log_odds).mean()

    c, result = brentq(excess, low, high, xtol=1e-12, full_output=True)
    return float(c), int(result.iterations)


def _warped(
    target: Target, fit: np.ndarray, draws: np.ndarray, rng: np.random.Generator
) -> LogEvidence:
    """Log Z by Warp-III bridge sampling: moments from ``fit``, bridge with ``draws``."""
    flat = fit.reshape(-1, fit.shape[-1])
    mean = flat.mean(axis=0)
    L = np.linalg.cholesky(np.atleast_2d(np.cov(flat, rowvar=False)))
    z_p = np.linalg.solve(L, (draws.reshape(-1, flat.shape[1]) - mean).T).T
    z_q = rng.standard_normal(z_p.shape)
    constant = np.log(np.diag(L)).sum() - np.log(2)

    def log_p(z: np.ndarray) -> np.ndarray:
        step = z @ L.T
        return np.logaddexp(target.log_density(mean + step), target.log_density(mean - step))

    def log_q(z: np.ndarray) -> np.ndarray:
        return -0.5 * np.sum(z**2, axis=1) - 0.5 * z.shape[1] * np.log(2 * np.pi)

    chains = draws.shape[:2]
    lp_p, lq_p = (log_p(z_p) + constant).reshape(chains), log_q(z_p).reshape(chains)
    return bridge_sampling(lp_p, lq_p, log_p(z_q) + constant, log_q(z_q))


def _average(a: LogEvidence, b: LogEvidence) -> LogEvidence:
    value, se = (a.value + b.value) / 2, float(np.hypot(a.se, b.se) / 2)
    reason = a.reason or b.reason
    if not reason and abs(a.value - b.value) > 4 * 2 * se:
        reason = f"the two halves of the draws disagree: {a.value:.4f} and {b.value:.4f}"
    effective_p = min(a.effective_p, b.effective_p)
    effective_q = min(a.effective_q, b.effective_q)
    iterations = a.iterations + b.iterations
    return LogEvidence(value, se, not reason, reason, iterations, effective_p, effective_q)


def _divergence(terms: np.ndarray, evidence: LogEvidence, sign: int, infinite: str) -> Divergence:
    """Mean of ``terms`` (chains, draws) + sign log Z, and whether to believe it."""
    if np.isnan(terms).any():
        reason = f"log ratio is NaN at {np.isnan(terms).sum()} of {terms.size} draws"
        return Divergence(np.nan, np.nan, False, reason)
    if np.isinf(terms).any():
        reason = f"{infinite}: {np.isinf(terms).sum()} of {terms.size}"
        return Divergence(np.inf, np.nan, False, reason)
    value = float(terms.mean()) + sign * evidence.value
    se = float(np.hypot(_se(terms), evidence.se))
    reason = f"log evidence: {evidence.reason}" if evidence.reason else _domination(terms)
    return Divergence(value, se, not reason, reason)


def _with_se(divergence: Divergence, *parts: float) -> Divergence:
    return Divergence(
        divergence.value, float(np.hypot(*parts)), divergence.reliable, divergence.reason
    )


def _se(terms: np.ndarray, ess: float | None = None) -> float:
    """Standard error of the mean of (chains, draws) terms."""
    size = _effective_size(terms) if ess is None else ess
    return float(terms.std(ddof=1) / np.sqrt(size))


def _effective_size(terms: np.ndarray) -> float:
    """Effective sample size of chains of terms; their number for one row (independent draws)."""
    if terms.shape[0] == 1 or terms.std() < CONSTANT:
        return float(terms.size)
    return float(az.ess(terms, method="mean"))


def _kish(h: np.ndarray) -> float:
    return float(h.sum() ** 2 / np.sum(h**2))


def _overlap(effective_p: float, effective_q: float) -> str | None:
    if min(effective_p, effective_q) >= EFFECTIVE:
        return None
    return (
        f"poor overlap: {effective_p:.0f} effective terms from p and {effective_q:.0f} from q, "
        f"expected at least {EFFECTIVE} of each"
    )


def _domination(terms: np.ndarray) -> str | None:
    """Few draws carry the variance where (sum d^2)^2 / sum d^4 is small, d the deviations."""
    d = terms - terms.mean()
    if terms.std() < CONSTANT:
        return None
    effective = np.sum(d**2) ** 2 / np.sum(d**4)
    if effective >= DOMINATED:
        return None
    return f"{effective:.0f} of {d.size} draws carry the variance, expected at least {DOMINATED}"


def _unusable(l_p: np.ndarray, l_q: np.ndarray) -> str | None:
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


def _ratios(
    lp_p: np.ndarray, lq_p: np.ndarray, lp_q: np.ndarray, lq_q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    lp_p, lq_p = _pair(lp_p, lq_p, "draws of p")
    lp_q, lq_q = _pair(lp_q, lq_q, "draws of q")
    if lp_p.ndim > 2:
        raise ValueError(f"lp_p must be (N,) or (chains, draws), got {lp_p.shape}")
    return lp_p - lq_p, lp_q - lq_q


def _pair(lp: np.ndarray, lq: np.ndarray, where: str) -> tuple[np.ndarray, np.ndarray]:
    lp, lq = np.asarray(lp, dtype=float), np.asarray(lq, dtype=float)
    if lp.shape != lq.shape or lp.ndim == 0 or lp.size < 2:
        raise ValueError(
            f"log p and log q at {where} must have one shape and at least two entries, "
            f"got {lp.shape} and {lq.shape}"
        )
    return lp, lq


def _check_reference(theta: np.ndarray, dimension: int) -> np.ndarray:
    theta = np.asarray(theta, dtype=float)
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
