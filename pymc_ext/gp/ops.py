"""The evidence of a Gaussian process as a differentiable term of a PyTensor graph."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, grad_undefined
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.sharedvar import SharedVariable

from pymc_ext.gp.arrays import as_matrix
from pymc_ext.gp.errors import ConvergenceError, HyperparameterError, ImproperPosteriorError
from pymc_ext.gp.solver import Solver
from pymc_ext.ops import callback

logger = logging.getLogger(__name__)

FAILURES = (ConvergenceError, ImproperPosteriorError, HyperparameterError)


class _SolverOp(Op):
    """Inputs (y, φ, *prior inputs) of one `Solver`, which keeps its last solution."""

    __props__ = ("solver",)

    def __init__(self, solver: Solver):
        self.solver = solver

    def _inputs(self, *inputs: Any) -> list[Any]:
        _register_jax()
        return [pt.as_tensor_variable(i).astype("float64") for i in inputs]

    def do_constant_folding(self, fgraph: Any, node: Apply) -> bool:
        """Never: errors belong to the call, not to the compilation."""
        return False

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Everything but y is differentiable."""
        return [[i > 0] * len(node.outputs) for i in range(len(node.inputs))]


class _EvidenceOp(_SolverOp):
    """What `SiteEvidence` and its gradient do where the solver fails.

    Parameters
    ----------
    solver
    on_failure
        As of `px.gp.Approximate`.
    failures
        Where the reasons of what did not raise are kept.

    Attributes
    ----------
    data
        The inputs, by name, that `pm.set_data` may change: faults of theirs always raise.
    """

    data: Mapping[str, SharedVariable] = MappingProxyType({})

    def __init__(self, solver: Solver, on_failure: str | None, failures: list[str]):
        super().__init__(solver)
        self.on_failure, self.failures = on_failure, failures

    def _reject(self, what: str, error: Exception) -> None:
        """Keep the reason, or raise the error."""
        for name, data in self.data.items():
            as_matrix(data.get_value(borrow=True), name)
        if self.on_failure == "raise" or (self.on_failure is None and not self.solver.has_solved):
            raise error
        if not self.failures:
            logger.warning(
                "%s: %s (said once a process; its failures are in the GP's `failures`)", what, error
            )
        self.failures.append(str(error))


class SiteEvidence(_EvidenceOp):
    """log p(y | φ, prior) by the solver's formula, a scalar with exact first derivatives."""

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, self._inputs(*inputs), [pt.dscalar()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        y, phi, *prior = inputs
        try:
            value = self.solver.solve(y, phi, tuple(prior)).value
        except FAILURES as error:
            self._reject("evidence set to -inf", error)
            value = -np.inf
        outputs[0][0] = np.array(value)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        y, *rest = inputs
        gradients: Any = _gradient_of(self)(y, *rest, return_list=True)
        (g,) = cotangents
        return [DisconnectedType()(), *(g * d for d in gradients)]

    L_op: Any = pullback


class SiteEvidenceGradient(_EvidenceOp):
    """Derivatives of `SiteEvidence` in φ and the prior's inputs; not differentiable again."""

    def make_node(self, *inputs: Any) -> Apply:
        checked = self._inputs(*inputs)
        return Apply(self, checked, [i.type() for i in checked[1:]])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        y, phi, *prior = inputs
        try:
            gradients = self.solver.gradient(y, phi, tuple(prior))
        except FAILURES as error:
            self._reject("gradient of the evidence set to 0", error)
            gradients = tuple(np.zeros_like(x) for x in (phi, *prior))
        for storage, gradient in zip(outputs, gradients, strict=True):
            storage[0] = np.asarray(gradient)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        why = "the evidence of pymc_ext.gp has exact first derivatives only"
        return [
            DisconnectedType()() if i == 0 else grad_undefined(self, i, x, why)
            for i, x in enumerate(inputs)
        ]

    L_op: Any = pullback


def _gradient_of(op: SiteEvidence) -> SiteEvidenceGradient:
    gradient = SiteEvidenceGradient(op.solver, op.on_failure, op.failures)
    gradient.data = op.data
    return gradient


class SiteWeights(_SolverOp):
    """(w, F, G) of the posterior.

    f* has mean m* + K*ₚ w and covariance K** − K*ₚ F Fᵀ Kₚ* + K*ₚ G Gᵀ Kₚ*.
    """

    def make_node(self, *inputs: Any) -> Apply:
        several = self.solver.likelihood.n_latent > 1
        matrix = pt.dtensor3 if several else pt.dmatrix
        outputs = [pt.dmatrix() if several else pt.dvector(), matrix(), matrix()]
        return Apply(self, self._inputs(*inputs), outputs)

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        y, phi, *prior = inputs
        weights = self.solver.posterior(y, phi, tuple(prior)).weights()
        for storage, value in zip(outputs, weights, strict=True):
            storage[0] = np.asarray(value)

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        why = (
            "predictions of pymc_ext.gp are not differentiable: sample the model before adding them"
        )
        return [
            DisconnectedType()() if i == 0 else grad_undefined(self, i, x, why)
            for i, x in enumerate(inputs)
        ]

    L_op: Any = pullback


def _shapes(op: _SolverOp, inputs: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Shapes of the outputs from those of (y, φ, m, K, ...)."""
    if isinstance(op, SiteEvidence):
        return [()]
    if isinstance(op, SiteEvidenceGradient):
        return list(inputs[1:])
    p, L = inputs[3][0], op.solver.likelihood.n_latent
    return [(p, L), (L, p, p), (L, p, p)] if L > 1 else [(p,), (p, p), (p, p)]


@cache
def _register_jax() -> None:
    """Importing JAX takes most of a second, so this waits for the first use of an Op."""
    callback.register_jax(SiteEvidence, _shapes, _gradient_of)
    for op_type in (SiteEvidenceGradient, SiteWeights):
        callback.register_jax(op_type, _shapes)


for _op_type in (SiteEvidence, SiteEvidenceGradient, SiteWeights):
    callback.register_numba(_op_type)
