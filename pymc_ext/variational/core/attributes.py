"""What a fit says of q, as a file holds it beside q or beside its draws."""

from __future__ import annotations

import json
from importlib.metadata import version

from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.weights import EXACT

Notes = dict[str, str | bool | float]
UNCORRECTED = "draws of q itself are not corrected by weights"

__all__ = ["attributes_of", "notes_of", "notes_of_draws"]


def notes_of(result: FitResult) -> Notes:
    """What it says of q itself, not of a proposal beside it, as JSON holds it."""
    notes: Notes = {"method": result.method, "converged": bool(result.converged)}
    if result.fresh is None:
        return notes | {"verdict": result.verdict}
    notes |= notes_of_draws(result.fresh)
    if result.missed is not None:  # its own weights know nothing of it
        notes |= {"usable": False, "verdict": f"its draws miss {result.missed}"}
    return notes


def notes_of_draws(fresh: FreshDraws) -> Notes:
    """What fresh draws say of q."""
    kept = ("elbo", "elbo_se", "khat", "log_marginal_is", "log_marginal_is_se")
    notes: Notes = {name: float(getattr(fresh, name)) for name in kept}
    return notes | {"usable": bool(fresh.usable), "verdict": fresh.verdict}


def attributes_of(result: FitResult, options: str) -> dict[str, str | int | float]:
    """The same with what was spent, as NetCDF holds it: truth as 1 and 0; that draws are q's; and
    what is said of a proposal beside it.

    Parameters
    ----------
    result
        Of the fit.
    options
        The algorithm with its options, in words.
    """
    notes = notes_of(result)
    spent = ("density_evaluations", "gradient_evaluations", "seconds", "compile_seconds")
    found: dict[str, str | int | float] = {
        "trusted_posteriors_version": version("trusted-posteriors"),
        **{name: int(x) if isinstance(x, bool) else x for name, x in notes.items()},
        "stop_reason": result.stop_reason,
        "notes": json.dumps(result.notes, ensure_ascii=False),
        **{name: getattr(result, name) for name in spent},
    }
    if result.verdict != EXACT:
        found["verdict"] = f"{notes['verdict']}; {UNCORRECTED}"
    if result.fresh_proposal is not None:  # what approx.weighted_draws and px.diagnose weigh
        found["proposal_khat"] = float(result.fresh_proposal.khat)
        found["proposal_usable"] = int(result.fresh_proposal.usable)
        found["proposal_verdict"] = result.fresh_proposal.verdict
    if result.random_seed is not None:
        found["random_seed"] = result.random_seed
    if result.elbo is not None and result.elbo_se is not None:  # in closed form, where it is known
        found |= {"elbo": result.elbo, "elbo_se": result.elbo_se}
    if options:
        found["options"] = options
    return found
