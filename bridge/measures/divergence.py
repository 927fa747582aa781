"""Kullback-Leibler divergences in both directions, with the standard error of log Z included.

Notation of `bridge.measures.evidence`, whose bridge sampling supplies log Z.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bridge.measures.evidence import LogEvidence, paired, standard_error
from bridge.measures.limits import KL_FEWEST_TERMS
from pymc_ext.maths.types import Array
from pymc_ext.options import require_type
from pymc_ext.variational.core.weights import are_constant

__all__ = ["Divergence", "kl_from_q", "kl_to_q"]


@dataclass(frozen=True)
class Divergence:
    """A Kullback-Leibler divergence in nats; ``se`` includes the standard error of log Z."""

    value: float
    se: float
    reliable: bool
    reason: str | None


def kl_from_q(lp_q: Array, lq_q: Array, log_evidence: LogEvidence) -> Divergence:
    """KL(q‖p) = E_q[log q - log p̃] + log Z from independent draws of q.

    Parameters
    ----------
    lp_q, lq_q : array (M,) or of any shape
        Log p̃ and log q (normalised) at draws of q, on one space.
    log_evidence : LogEvidence
        From other draws than these: the standard errors are added as independent.

    Returns
    -------
    Divergence
        Infinite and unreliable where log p̃ is -inf at a draw of q. Unreliable where fewer than
        20 effective draws carry the variance of the log ratios, or where log Z is.

    Raises
    ------
    ValueError
        If the shapes differ, or there are fewer than two draws.
    TypeError
        If these are no numbers, or ``log_evidence`` is not what bridge sampling gives.
    """
    lp, lq = paired(lp_q, lq_q, "draws of q")
    return _divergence((lq - lp).reshape(1, -1), log_evidence, +1, "log p is -inf at draws of q")


def kl_to_q(lp_p: Array, lq_p: Array, log_evidence: LogEvidence) -> Divergence:
    """KL(p‖q) = E_p[log p̃ - log q] - log Z from draws of p, each ``(N,)`` or ``(chains, draws)``.

    Otherwise as `kl_from_q`. Log Z from the same draws of p shares their error; as its own is
    usually far smaller the sum remains a fair standard error.
    """
    lp, lq = paired(lp_p, lq_p, "draws of p")
    return _divergence(np.atleast_2d(lp - lq), log_evidence, -1, "log q is -inf at draws of p")


def _divergence(terms: Array, evidence: LogEvidence, sign: int, infinite: str) -> Divergence:
    """Mean of ``terms`` (chains, draws) + sign log Z, and whether to believe it."""
    require_type("log_evidence", evidence, LogEvidence)
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


def _domination(terms: Array) -> str | None:
    """Few draws carry the variance where (sum d^2)^2 / sum d^4 is small, d the deviations."""
    d = terms - terms.mean()
    if are_constant(terms):
        return None
    effective = np.sum(d**2) ** 2 / np.sum(d**4)
    if effective >= KL_FEWEST_TERMS:
        return None
    return (
        f"{effective:.0f} of {d.size} draws carry the variance, expected at least {KL_FEWEST_TERMS}"
    )
