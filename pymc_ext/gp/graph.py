"""A PyMC model's hyperparameters as one flat vector, and the GP's inputs as functions of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from typing import Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.gradient import NullTypeGradError
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.gp.points import ModelVariable, Point, refuse_unknown, sources
from pymc_ext.gp.posterior import Arrays
from pymc_ext.maths.types import Array


class Process(Protocol):
    """A Gaussian process with data in a model; `px.gp.Approximate` is one."""

    @property
    def inputs(self) -> tuple[TensorVariable, ...]:
        """(y, φ, *prior inputs)."""

    def prior_graphs(self, X: TensorVariable) -> tuple[TensorVariable, ...]:
        """(φ, *prior inputs) at other rows X."""


class HyperparameterGraph:
    """θ (flat, unconstrained) ↦ (φ, prior inputs, log prior), and the pull-back of gradients.

    Parameters
    ----------
    gp
        `px.gp.Approximate` with data.
    batch
        The inputs are functions of a batch's X (b, d) too, which follows θ in every call.
    model
        The model it is in. The log prior is that of the constrained hyperparameters, without the
        log-Jacobian, as in `pm.find_MAP`.

    Raises
    ------
    ValueError
        The GP depends on a random variable that is not in the model, or the model holds the GP's
        `conditional` already.
    """

    def __init__(self, gp: Process, model: pm.Model, batch: bool = False):
        sources(gp.inputs, model)
        self.model = model
        self.names = [v.name for v in model.value_vars]
        initial = model.initial_point()
        self.start_point = {name: np.asarray(initial[name]) for name in self.names}
        X = [pt.dmatrix("X_batch")] if batch else []
        y, *inputs = (gp.inputs[0], *gp.prior_graphs(*X)) if batch else gp.inputs
        y, *inputs = model.replace_rvs_by_values([y, *inputs])
        terms = model.logp(vars=model.free_RVs, jacobian=False) if model.free_RVs else pt.zeros(())
        if model.potentials:
            terms = terms + pt.sum(model.logp(vars=model.potentials))
        outputs = [t.astype("float64") for t in (*inputs, terms)]
        outputs, theta = join_nonshared_inputs(
            point=self.start_point, outputs=outputs, inputs=model.value_vars
        )
        *inputs, log_prior = outputs
        bars = [x.type() for x in inputs]
        total = log_prior + sum(pt.sum(b * x) for b, x in zip(bars, inputs, strict=True))
        try:
            gradient = pt.grad(total, theta, disconnected_inputs="ignore")
        except NullTypeGradError as error:
            raise ValueError(
                "predictions made by `conditional` are variables of this model: fit the "
                "hyperparameters before adding them"
            ) from error
        options = {"on_unused_input": "ignore"}
        self._dtype = theta.dtype
        self._y = pm.compile([], y)
        self._forward = pm.compile([theta, *X], outputs, **options)
        self._backward = pm.compile([theta, *X, *bars], gradient, **options)

    @property
    def y(self) -> Array:
        """Observations as they are now, (n,)."""
        return np.asarray(self._y(), dtype=float)

    def forward(self, theta: Array, *X: Array) -> tuple[Arrays, float]:
        """(φ, *prior inputs) and the log prior."""
        *inputs, log_prior = self._forward(theta.astype(self._dtype), *X)
        return tuple(np.asarray(x) for x in inputs), float(log_prior)

    def backward(self, theta: Array, bars: Arrays, *X: Array) -> Array:
        """Σ barsᵀ ∂inputs/∂θ + ∂ log prior/∂θ."""
        return np.asarray(self._backward(theta.astype(self._dtype), *X, *bars), dtype=float)

    def flatten(self, point: Point) -> Array:
        """θ of a point of value variables."""
        return np.concatenate([np.ravel(point[name]) for name in self.names])

    def transformed(self, point: Point, around: dict[str, Array] | None = None) -> dict[str, Array]:
        """Value variables of constrained hyperparameters; the rest at the model's start.

        Where a support depends on other hyperparameters, these are as in the point, or as in
        ``around`` (value variables) if that is given.
        """
        refuse_unknown(point, [v.name for v in self.model.free_RVs])
        out = dict(self.start_point)
        for rv in self.model.free_RVs:  # what a support depends on comes before
            if rv.name in point:
                shape, given = tuple(rv.shape.eval()), np.asarray(point[rv.name], float)
                if given.ndim and given.shape != shape:
                    raise ValueError(f"{rv.name} must have shape {shape}, got {given.shape}")
                value = np.broadcast_to(given, shape)
                others = out if around is None else around
                out[self.model.rvs_to_values[rv].name] = self._transform(rv)(value, others)
        return out

    @cache  # noqa: B019 (one graph a GP; compiling is the cost)
    def _transform(self, rv: ModelVariable) -> Callable[[Array, dict[str, Array]], Array]:
        transform = self.model.rvs_to_transforms[rv]
        if transform is None:
            return lambda x, others: x
        x = rv.type()
        graph = self.model.replace_rvs_by_values([transform.forward(x, *rv.owner.inputs)])
        variables = [v for v in self.model.value_vars if v in set(ancestors(graph))]
        function = pm.compile([x, *variables], graph[0], on_unused_input="ignore")
        return lambda x, others: function(
            np.asarray(x, rv.dtype), *(others[v.name] for v in variables)
        )

    @cached_property
    def _values(self) -> tuple[list[str], Callable[[dict[str, Array]], list[Array]]]:
        both = [*self.model.value_vars, *self.model.unobserved_value_vars]
        variables = list(dict.fromkeys(both))
        function = self.model.compile_fn(variables, on_unused_input="ignore")
        return [v.name for v in variables], function

    def constrained(self, theta: Array) -> dict[str, Array]:
        """All values of the point, transformed and not, as `pm.find_MAP` returns them."""
        point, at = {}, 0
        for name in self.names:
            like = self.start_point[name]
            point[name] = np.reshape(theta[at : at + like.size], like.shape).astype(like.dtype)
            at += like.size
        names, function = self._values
        return dict(zip(names, function(point), strict=True))
