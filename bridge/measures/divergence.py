"""Kullback-Leibler divergences in both directions, with the standard error of log Z included.

Notation of `bridge.evidence`, whose bridge sampling supplies log Z.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from bridge.evidence import (
    LogEvidence,
    bridge_sampling,
    bridge_with_influence,
    log_evidence,
    log_ratios,
    paired,
    standard_error,
)
from bridge.khat import CONSTANT

__all__ = ["Divergence", "Divergences", "LogEvidence", "bridge_sampling", "divergences"]
__all__ += ["kl_from_q", "kl_to_q", "log_evidence"]

DOMINATED = 20  # effective terms the variance of log ratios needs


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
    lp, lq = paired(lp_q, lq_q, "draws of q")
    return _divergence((lq - lp).reshape(1, -1), log_evidence, +1, "log p is -inf at draws of q")


def kl_to_q(lp_p: np.ndarray, lq_p: np.ndarray, log_evidence: LogEvidence) -> Divergence:
    """KL(p‖q) = E_p[log p̃ - log q] - log Z from draws of p, ``(N,)`` or ``(chains, draws)``.

    Otherwise as `kl_from_q`. Log Z from the same draws of p shares their error; as its own is
    usually far smaller the sum remains a fair standard error (`divergences` gives the joint one).
    """
    lp, lq = paired(lp_p, lq_p, "draws of p")
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
    l_p, l_q = log_ratios(lp_p, lq_p, lp_q, lq_q)
    evidence, psi_p, psi_q = bridge_with_influence(l_p, l_q, ess_p)
    forward, backward = (-l_q).reshape(1, -1), np.atleast_2d(l_p)
    kl_q = _divergence(forward, evidence, +1, "log p is -inf at draws of q")
    kl_p = _divergence(backward, evidence, -1, "log q is -inf at draws of p")
    if np.isfinite(kl_q.value):
        se = np.hypot(standard_error(forward + psi_q), standard_error(psi_p, ess_p))
        kl_q = replace(kl_q, se=float(se))
    if np.isfinite(kl_p.value):
        se = np.hypot(standard_error(backward - psi_p, ess_p), standard_error(psi_q))
        kl_p = replace(kl_p, se=float(se))
    return Divergences(evidence, kl_q, kl_p)


def _divergence(terms: np.ndarray, evidence: LogEvidence, sign: int, infinite: str) -> Divergence:
    """Mean of ``terms`` (chains, draws) + sign log Z, and whether to believe it."""
    undefined = np.isnan(terms) | (terms == -np.inf)  # -inf: a draw where its own density is 0
    if undefined.any():
        nan = f"log ratio is NaN or -inf at {undefined.sum()} of {terms.size} draws"
        return Divergence(np.nan, np.nan, False, nan)
    if np.isinf(terms).any():
        return Divergence(
            np.inf, np.nan, False, f"{infinite}: {np.isinf(terms).sum()} of {terms.size}"
        )
    value = float(terms.mean()) + sign * evidence.value
    se = float(np.hypot(standard_error(terms), evidence.se))
    reason = f"log evidence: {evidence.reason}" if evidence.reason else _domination(terms)
    return Divergence(value, se, not reason, reason)


def _domination(terms: np.ndarray) -> str | None:
    """Few draws carry the variance where (sum d^2)^2 / sum d^4 is small, d the deviations."""
    d = terms - terms.mean()
    if terms.std() < CONSTANT:
        return None
    effective = np.sum(d**2) ** 2 / np.sum(d**4)
    if effective >= DOMINATED:
        return None
    return f"{effective:.0f} of {d.size} draws carry the variance, expected at least {DOMINATED}"
