"""The points users pass: hyperparameters by name, and what a model's graphs are there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pymc as pm
from pymc.gp.util import replace_with_values
from pytensor.graph.traversal import ancestors


def context(model: pm.Model | None) -> pm.Model:
    """The model given, or that of the context; TypeError without either."""
    try:
        return pm.modelcontext(model)
    except TypeError as error:
        raise TypeError("no model: pass model=, or call inside `with model:`") from error


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """ValueError that says which names are not among the known ones."""
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(
            f"no hyperparameter is called {', '.join(unknown)}; the model has "
            f"{', '.join(sorted(known))}"
        )


def numbers_at(
    outputs: list[Any], point: dict[str, Any] | None, model: pm.Model
) -> list[np.ndarray]:
    """The outputs at a point of constrained hyperparameters.

    Raises
    ------
    ValueError
        The point lacks a hyperparameter that the outputs depend on, has one that the model does
        not know, or one of another shape or outside its support.
    """
    values = {} if point is None else point
    known = [v.name for v in (*model.unobserved_value_vars, *model.value_vars)]
    refuse_unknown(values, known)
    above = set(ancestors(outputs))
    needed = [rv for rv in model.free_RVs if rv in above]
    missing = [rv.name for rv in needed if rv.name not in values]
    if missing:
        raise ValueError(
            f"point lacks {', '.join(missing)}: pass fit.point, what pm.find_MAP returned, or "
            f"numbers by name, got {sorted(values) or point}"
        )
    for rv in needed:
        if np.ndim(values[rv.name]) != rv.ndim:
            got = np.shape(values[rv.name])
            raise ValueError(f"{rv.name} of point must have {rv.ndim} axes, got shape {got}")
    changed = [(rv, t) for rv in needed if (t := model.rvs_to_transforms[rv]) is not None]
    unconstrained = [t.forward(rv, *rv.owner.inputs) for rv, t in changed]
    numbers = replace_with_values([*outputs, *unconstrained], replacements=values, model=model)
    for (rv, _), value in zip(changed, numbers[len(outputs) :], strict=True):
        if not np.isfinite(value).all():
            raise ValueError(
                f"{rv.name} of point must lie inside its support, got {values[rv.name]}"
            )
    return numbers[: len(outputs)]
