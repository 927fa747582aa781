"""The points users pass: hyperparameters by name, and what a model's graphs are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.maths.types import Array
from pymc_ext.pytensor_versions import RandomType

Value = float | Sequence[float] | Array
Point = Mapping[str, Value]  # hyperparameters by name
ModelVariable = Any  # of a PyMC model: it has a name for sure, which PyTensor's type denies
# Relative error of a vector transformed and back, in single precision too: 2e-6 of a simplex of 10
# there (3e-5 of sparse ones of 100, which are refused); one that sums to 1.001 has 1e-3
ROUND_TRIP = 1e-5


def refuse_unknown(names: Iterable[str], known: Iterable[str]) -> None:
    """ValueError that says which names are not among the known ones."""
    if unknown := sorted(set(names) - set(known)):
        raise ValueError(
            f"no hyperparameter is called {', '.join(unknown)}; the model has "
            f"{', '.join(sorted(set(known)))}"
        )


def sources(
    outputs: Iterable[Variable], model: pm.Model, given: Iterable[ModelVariable] = ()
) -> list[ModelVariable]:
    """The model's random variables, and the variables given, that the outputs are functions of.

    Raises
    ------
    ValueError
        The outputs depend on a random variable that is not in the model: it would be drawn.
    """
    stops = {*model.basic_RVs, *given}
    above = list(ancestors(outputs, blockers=stops))
    foreign = {v.name or f"an unnamed {v.owner.op}" for v in above if v not in stops and _drawn(v)}
    if foreign:
        raise ValueError(
            f"the GP depends on {', '.join(sorted(foreign))}, not random in this model: it belongs "
            "to another one; pass model= the model the GP was built in, not a copy of it"
        )
    return [v for v in above if v in stops]


def refuse_other_observations(observed: ModelVariable, model: pm.Model) -> None:
    """ValueError unless ``observed`` is all of the model's data that inform free variables."""
    if observed not in model.observed_RVs:
        raise ValueError(
            f"{observed.name} of the GP is no observed variable of this model: pass model= the "
            "model the GP was built in, not a copy of it"
        )
    free = set(model.free_RVs)
    others = [rv for rv in model.observed_RVs if rv is not observed]
    if informed := [rv.name for rv in others if not free.isdisjoint(ancestors([rv]))]:
        raise ValueError(
            f"the model observes {', '.join(informed)} besides {observed.name} of this GP, which "
            "fit_hyperparameters would leave out: use pm.find_MAP, pm.fit or pm.sample, which "
            "include all observed variables"
        )


def _drawn(v: Variable) -> bool:
    """Whether evaluating v draws random numbers."""
    takes = () if v.owner is None else v.owner.inputs
    return not isinstance(v.type, RandomType) and any(isinstance(i.type, RandomType) for i in takes)


def function_of(
    outputs: list[TensorVariable],
    given: Iterable[ModelVariable],
    model: pm.Model,
    what: str,
    lacking: Callable[[str], str],
    edges: bool = False,
) -> Callable[[Point], list[Array]]:
    """The outputs at values, by name, of the variables given; observed ones are as observed.

    The function raises ValueError where a value lies outside its support, or at its edge unless
    ``edges``; ``what`` says whose value it is.

    Raises
    ------
    ValueError
        The outputs depend on free variables that are not given (``lacking`` makes the message of
        their names), or on a random variable that is not in the model.
    """
    given = list(given)
    changed = [(rv, t) for rv in given if (t := model.rvs_to_transforms.get(rv)) is not None]
    there_and_back = []
    for rv, t in changed:
        unconstrained = t.forward(rv, *rv.owner.inputs)
        there_and_back += [unconstrained, t.backward(unconstrained, *rv.owner.inputs)]
    found = set(sources([*outputs, *there_and_back], model, given))
    if missing := [rv.name for rv in model.free_RVs if rv in found and rv not in set(given)]:
        raise ValueError(lacking(", ".join(missing)))
    data = {rv.name: model.rvs_to_values[rv].eval() for rv in model.observed_RVs if rv in found}
    inputs = list(found)
    options = {"allow_input_downcast": True, "on_unused_input": "ignore"}
    support = pm.compile(inputs, there_and_back, **options)
    function = pm.compile(inputs, outputs, **options)

    def at(values: Point) -> list[Array]:
        numbers = [{**values, **data}[v.name] for v in inputs]
        checks = support(*numbers)
        for (rv, _), there, back in zip(changed, checks[::2], checks[1::2], strict=True):
            got = values[rv.name]
            inside = ~np.isnan(there) if edges else np.isfinite(there)
            if there.size != back.size:  # outside a simplex it has numbers, but not its own
                inside = np.abs(back - got) <= ROUND_TRIP * np.max(np.abs(got))
            if not inside.all():
                raise ValueError(f"{rv.name} of {what} must lie inside its support, got {got}")
        return function(*numbers)

    return at


def numbers_at(outputs: list[TensorVariable], point: Point | None, model: pm.Model) -> list[Array]:
    """The outputs at a point of constrained hyperparameters.

    Raises
    ------
    ValueError
        The point lacks a hyperparameter that the outputs depend on, has one that the model does
        not know, or one of another shape or outside its support; or the outputs depend on a
        random variable that is not in the model.
    """
    values = {} if point is None else point
    sources(outputs, model)  # of a copied model the names below would be strange, too
    known = [v.name for v in (*model.unobserved_value_vars, *model.value_vars)]
    refuse_unknown(values, known)
    above = set(ancestors(outputs))
    given = [v for v in model.unobserved_RVs if v in above and v.name in values]
    for rv in model.free_RVs:
        if rv not in given:
            continue
        if np.asarray(values[rv.name]).dtype.kind not in "biuf":
            raise ValueError(f"{rv.name} of point must hold numbers, got {values[rv.name]!r}")
        if np.ndim(values[rv.name]) != rv.ndim:
            got = np.shape(values[rv.name])
            raise ValueError(f"{rv.name} of point must have {rv.ndim} axes, got shape {got}")

    def lacking(names: str) -> str:
        return (
            f"point lacks {names}: pass fit.point, what pm.find_MAP returned, or numbers by name, "
            f"got {sorted(values) or point}"
        )

    return function_of(outputs, given, model, "point", lacking)(values)
