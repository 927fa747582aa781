"""What a user must be told of a fit, in sentences."""

from __future__ import annotations

from pymc_ext.variational.core.result import FreshDraws


def notes_on(fresh: FreshDraws, advice: str, proposal: FreshDraws | None = None) -> tuple[str, ...]:
    """Says so where q has draws outside the support, or where weights cannot repair it.

    Weights are the proposal's where there is one, whose tails reach where numbers overflow: that it
    has draws there says nothing of the posterior.
    """
    notes: tuple[str, ...] = ()
    if fresh.outside:
        notes += (
            f"{fresh.outside} of {fresh.draws} draws of q have no density (log p̃ is −∞ or "
            "undefined there), so that the ELBO is −∞: the posterior has hard edges on the "
            "unconstrained space; give bounds to the parameters that have them",
        )
    judged = proposal or fresh
    if not judged.usable:
        notes += (judged.verdict if judged.infinite else f"{judged.verdict}: {advice}",)
    return notes
