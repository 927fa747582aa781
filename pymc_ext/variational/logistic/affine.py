"""Reads logistic likelihoods from a PyMC model and the variables their logits are affine in.

A variable belongs to the linear part β if it is free, unconstrained, its conditional log prior is
quadratic and every logit is affine in all of β jointly, given the other variables s. Affinity is
decided on the graph: f is affine in β exactly when the vector-Jacobian product wᵀ∂f/∂β does not
contain β and f has no step in β (comparison, sign, rounding: derivative zero almost everywhere);
likewise for a quadratic log prior and its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.scalar import EQ, Cast, Clip, Identity, Mul, ScalarOp, Sigmoid, Sub, Switch
from pytensor.tensor import TensorVariable
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import BernoulliRV, BinomialRV, CategoricalRV

from pymc_ext.maths.types import Array
from pymc_ext.models.discrete import about_discrete
from pymc_ext.pytensor_versions import (
    Alloc,
    Join,
    MakeVector,
    Reshape,
    Softmax,
    SpecifyShape,
    Subtensor,
)
from pymc_ext.typed_graphs import gradients
from pymc_ext.variational.logistic.graph import (
    dependencies,
    over_last_axis,
    scalar_op,
    simplified,
    steps_of,
    vjp,
)
from pymc_ext.variational.plugin.pymc_variational import MinibatchRandomVariable, get_scaling

COVERED = "Bernoulli, Binomial and Categorical with two classes"
# (a, b) -> what the block ∂²/∂a∂b of the log prior depends on
Dependencies = dict[tuple[Variable, Variable], set[Variable]]
GUARD = 1e-12  # how far from 0 and 1 a probability is kept at most: where a logit is beyond 27
STRUCTURAL = (DimShuffle, Reshape, SpecifyShape, Subtensor, Alloc)  # entries moved, not changed


class AffinityError(ValueError):
    """The model has no logistic likelihood that is affine in Gaussian-prior variables."""


@dataclass(frozen=True)
class LogisticTerm:
    """One observed variable, y_i ~ Binomial(trials_i, σ(logit_i)), as graphs of shape (n,).

    ``logit`` is in the model's value variables; ``weight`` (scalar) is ``total_size`` over n. A
    label of K classes takes ``rows`` = K rows, one-hot; the label itself where it is not valid.
    """

    name: str
    logit: TensorVariable
    observed: TensorVariable
    trials: TensorVariable
    weight: TensorVariable
    rows: int = 1


def _constant(variable: Variable) -> Array | None:
    """Its value; None if it is none that is known."""
    while variable.owner is not None and isinstance(variable.owner.op, STRUCTURAL):
        variable = variable.owner.inputs[0]
    return np.asarray(variable.data, float) if isinstance(variable, Constant) else None


def _is_close(variable: Variable, number: float, tolerance: float = 0) -> bool:
    """Whether it is a constant that is nowhere farther from a number."""
    value = _constant(variable)
    return value is not None and bool(np.all(np.abs(value - number) <= tolerance))


def _guarded(node: Apply, scalar: ScalarOp | None) -> Variable | None:
    """p of ``switch(eq(p, 0), 1e-16, p)``, the same at 1, or ``clip(p, 1e-16, 1 - 1e-16)``.

    These only keep p from what σ is rounded to where its logit is large. None of another node.
    """
    if isinstance(scalar, Clip):
        p, low, high = node.inputs
        return p if _is_close(low, 0, GUARD) and _is_close(high, 1, GUARD) else None
    if not isinstance(scalar, Switch):
        return None
    condition, instead, p = node.inputs
    if not isinstance(scalar_op(condition), EQ):
        return None
    rest = [x for x in condition.owner.inputs if x is not p]
    if len(rest) != 1:
        return None
    edges = (edge for edge in (0, 1) if _is_close(rest[0], edge))
    return p if any(_is_close(instead, edge, GUARD) for edge in edges) else None


def _logit(p: Variable) -> TensorVariable | None:
    """x with p = σ(x), None if the graph of p does not end in a logistic function."""
    if p.owner is None:
        return None
    node, scalar = p.owner, scalar_op(p)
    if isinstance(scalar, Sigmoid):
        return node.inputs[0]
    if isinstance(scalar, Identity):
        return _logit(node.inputs[0])
    if (inner := _guarded(node, scalar)) is not None:
        return _logit(inner)
    if isinstance(scalar, Mul):
        rest = [x for x in node.inputs if not _is_close(x, 1)]
        return _logit(rest[0]) if len(rest) == 1 else None
    if isinstance(scalar, Sub) and _is_close(node.inputs[0], 1):
        x = _logit(node.inputs[1])
        return None if x is None else -x
    if isinstance(node.op, STRUCTURAL):
        x = _logit(node.inputs[0])
        if x is None:
            return None
        return cast("TensorVariable", node.op(x, *node.inputs[1:]))
    return None


def _categorical_logit(p: TensorVariable, name: str) -> TensorVariable | None:
    (p,) = simplified([p])
    classes = p.type.shape[-1]
    if classes is not None and classes != 2:
        raise AffinityError(
            f"{name!r} is Categorical with {classes} classes; this family covers {COVERED}"
        )
    if p.owner is not None and isinstance(p.owner.op, Softmax):
        if not over_last_axis(p.owner.op.axis, p.type.ndim):
            raise AffinityError(f"the softmax of {name!r} must run over the last axis, axis=-1")
        z = p.owner.inputs[0]
        return z[..., 1] - z[..., 0]
    if p.owner is None or not isinstance(p.owner.op, Join | MakeVector):
        return None
    first, second = p.owner.inputs[-2:]
    if isinstance(p.owner.op, Join):  # each is one entry of the last axis
        first, second = first[..., 0], second[..., 0]
    x, complement = (_logit(simplified([q])[0]) for q in (second, first))
    return x if complement is None else (-complement if x is None else x)


def observed_values(model: pm.Model, rv: TensorVariable) -> TensorVariable:
    """The observed data as they were given: PyMC casts ``pm.Data`` to integers, 0.5 to 0."""
    value = pt.as_tensor(model.rvs_to_values[rv])
    while isinstance(scalar_op(value), Cast):
        value = value.owner.inputs[0]
    return value


def _term(model: pm.Model, rv: TensorVariable) -> LogisticTerm:
    name, value = str(rv.name), observed_values(model, rv)
    node, weight = rv.owner, pt.constant(1.0)
    if isinstance(node.op, MinibatchRandomVariable):
        weight = get_scaling(node.inputs[1:], value.shape)
        node = node.inputs[0].owner
    if not isinstance(node.op, BernoulliRV | BinomialRV | CategoricalRV):
        kind = getattr(node.op, "_print_name", (str(node.op),))[0]
        raise AffinityError(f"{name!r} is observed with {kind}; this family covers {COVERED}")
    *first, p = model.replace_rvs_by_values(list(node.op.dist_params(node)))
    x = (
        _categorical_logit(p, name)
        if isinstance(node.op, CategoricalRV)
        else _logit(simplified([p])[0])
    )
    if x is None:
        raise AffinityError(
            f"the probability of {name!r} is not the logistic function of a graph: write "
            "logit_p=..., or p=pm.math.sigmoid(...), neither clipped nor switched but where it is "
            f"within {GUARD:g} of 0 and 1"
        )
    zeros = pt.zeros(value.shape)
    trials = first[0] if isinstance(node.op, BinomialRV) else pt.constant(1.0)
    return LogisticTerm(name, (x + zeros).ravel(), value.ravel(), (trials + zeros).ravel(), weight)


def logistic_terms(model: pm.Model) -> list[LogisticTerm]:
    """The model's observed variables as logistic likelihoods.

    Raises
    ------
    AffinityError
        The model has none, another kind of likelihood, or a Potential.
    """
    if not model.observed_RVs:
        raise AffinityError(f"the model has no observed variable; this family covers {COVERED}")
    refuse_other_densities(model)
    return [_term(model, rv) for rv in model.observed_RVs]


def refuse_other_densities(model: pm.Model) -> None:
    """Raise AffinityError for Potentials and discrete unobserved variables."""
    if model.potentials:
        names = [potential.name for potential in model.potentials]
        raise AffinityError(f"the model has Potentials {names}, which this family does not cover")
    discrete = about_discrete(model)
    if discrete is not None:
        raise AffinityError(discrete)


@dataclass(frozen=True)
class AffineSplit:
    """Which free variables are the linear part β of ``terms``, and which are given (s); ``why`` by
    name."""

    terms: Sequence[LogisticTerm]
    linear: list[TensorVariable]
    given: list[TensorVariable]
    why: dict[str, str]


def split_affine(model: pm.Model, terms: Sequence[LogisticTerm]) -> AffineSplit:
    """Largest variables first, every free variable that can join the linear part joins it.

    Raises
    ------
    AffinityError
        No variable is left for the linear part, or a prior is flat.
    """
    _refuse_flat(model)
    values = {rv: model.rvs_to_values[rv] for rv in model.free_RVs}
    everything = list(values.values())
    logits: dict[Variable, set[Variable]] = {v: set() for v in everything}
    for term in terms:
        steps = steps_of(term.logit, everything)
        for v, g in zip(everything, vjp(term.logit, everything), strict=True):
            logits[v] |= dependencies(g, everything) | (steps & {v})
    candidates = [rv for rv in values if model.rvs_to_transforms[rv] is None]
    priors = _prior_dependencies(model, [values[rv] for rv in candidates], everything)
    point = model.initial_point()
    candidates.sort(key=lambda rv: -np.size(point[values[rv].name]))
    linear: list[TensorVariable] = []
    why = {rv.name: "its support is not the real line" for rv in values if rv not in candidates}
    for rv in candidates:
        reason = _obstacle(rv, linear, values, logits, priors)
        if reason is None:
            linear.append(rv)
        else:
            why[rv.name] = reason
    if not linear:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in why.items())
        raise AffinityError(f"no logit is affine in a variable with a Gaussian prior ({reasons})")
    order = [rv for rv in model.free_RVs if rv in linear]
    return AffineSplit(terms, order, [rv for rv in values if rv not in linear], why)


def _obstacle(
    rv: TensorVariable,
    linear: Sequence[TensorVariable],
    values: Mapping[TensorVariable, TensorVariable],
    logits: Mapping[Variable, set[Variable]],
    priors: Dependencies,
) -> str | None:
    """Why ``rv`` cannot join ``linear``, None if it can."""
    block = [*linear, rv]
    inside = {values[b] for b in block}
    for b in block:
        if clash := logits[values[b]] & inside:
            names = sorted(str(v.name) for v in clash)
            return f"the logit is not affine in {b.name} (its slope depends on {names})"
    for a in block:
        for b in block:
            if priors[values[a], values[b]] & inside:
                names = sorted({str(a.name), str(b.name)})
                return f"the prior of {names} is not Gaussian given the rest"
    return None


def _prior_dependencies(
    model: pm.Model, candidates: list[TensorVariable], everything: list[TensorVariable]
) -> Dependencies:
    """Variables on which each block of the log prior's Hessian depends, steps included."""
    if not candidates:
        return {}
    slopes = gradients(model.varlogp, candidates)
    (logp,) = simplified([model.varlogp])
    steps = steps_of(logp, candidates)  # a density with an edge, such as a uniform one
    table: Dependencies = {}
    for a, g in zip(candidates, slopes, strict=True):
        corners = steps_of(simplified([g])[0], candidates)  # a kink, as in the Laplace density
        for b, h in zip(candidates, vjp(g, candidates), strict=True):
            table[a, b] = dependencies(h, everything) | corners | (steps & {a})
    return table


def _refuse_flat(model: pm.Model) -> None:
    for rv in model.free_RVs:
        kind = getattr(rv.owner.op, "_print_name", ("",))[0]
        if kind in ("Flat", "HalfFlat"):
            raise AffinityError(
                f"{rv.name!r} has an improper {kind} prior: the ELBO needs a proper one (its KL "
                "term is infinite); give it a wide Normal"
            )
