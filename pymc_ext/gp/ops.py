"""The evidence of a Gaussian process as a differentiable term of a PyTensor graph.

An Op here is what ``__props__`` says and nothing else: a `Solver`, which keeps its last solution,
and for the evidence the `Failures` it records to. Both are compared as objects, so that PyTensor
merges two nodes only where they share all that can change between calls.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cache
from typing import cast

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, grad_undefined
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op, OutputStorageType
from pytensor.tensor import TensorLike, TensorVariable

from pymc_ext.gp.errors import ConvergenceError, HyperparameterError, ImproperPosteriorError
from pymc_ext.gp.failures import Failures
from pymc_ext.gp.solver import Solver
from pymc_ext.maths.types import Array
from pymc_ext.ops import callback

Numbers = Sequence[Array]
Variables = Sequence[Variable]
KNOWN_ERRORS = (ConvergenceError, ImproperPosteriorError, HyperparameterError)


class _SolverOp(Op):
    """Inputs (y, φ, *prior inputs) of one `Solver`, which keeps its last solution."""

    __props__: tuple[str, ...] = ("solver",)

    def __init__(self, solver: Solver):
        self.solver = solver

    def _inputs(self, *inputs: TensorLike) -> list[TensorVariable]:
        _register_jax()
        return [pt.as_tensor_variable(i).astype("float64") for i in inputs]

    def do_constant_folding(self, fgraph: FunctionGraph, node: Apply) -> bool:
        """Never: errors belong to the call, not to the compilation."""
        return False

    @abstractmethod
    def pullback(
        self, inputs: Variables, outputs: Variables, cotangents: Variables
    ) -> list[Variable]:
        """Cotangents of the inputs from those of the outputs."""

    def L_op(
        self, inputs: Variables, outputs: Variables, output_grads: Variables
    ) -> list[Variable]:
        """PyTensor 2's name of `pullback`."""
        return self.pullback(inputs, outputs, output_grads)

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Everything but y is differentiable."""
        return [[i > 0] * len(node.outputs) for i in range(len(node.inputs))]


class _EvidenceOp(_SolverOp):
    """What `SiteEvidence` and its gradient share: where the failures of the solver go."""

    __props__ = ("solver", "failures")

    def __init__(self, solver: Solver, failures: Failures):
        super().__init__(solver)
        self.failures = failures

    def _reject(self, what: str, error: Exception) -> None:
        self.failures.reject(what, error, known=self.solver.has_solved)


class SiteEvidence(_EvidenceOp):
    """log p(y | φ, prior) by the solver's formula, a scalar with exact first derivatives."""

    def make_node(self, *inputs: TensorLike) -> Apply:
        return Apply(self, self._inputs(*inputs), [pt.dscalar()])

    def perform(self, node: Apply, inputs: Numbers, outputs: OutputStorageType) -> None:
        y, phi, *prior = inputs
        try:
            value = self.solver.solve(y, phi, tuple(prior)).value
        except KNOWN_ERRORS as error:
            self._reject("evidence set to -inf", error)
            value = -np.inf
        outputs[0][0] = np.array(value)

    def pullback(
        self, inputs: Variables, outputs: Variables, cotangents: Variables
    ) -> list[Variable]:
        y, *rest = inputs
        op = _gradient_of(self)
        (g,) = cast("Sequence[TensorVariable]", cotangents)
        gradients = cast("list[TensorVariable]", op(y, *rest, return_list=True))
        return [DisconnectedType()(), *(g * d for d in gradients)]


class SiteEvidenceGradient(_EvidenceOp):
    """Derivatives of `SiteEvidence` in φ and the prior's inputs; not differentiable again."""

    def make_node(self, *inputs: TensorLike) -> Apply:
        checked = self._inputs(*inputs)
        return Apply(self, checked, [i.type() for i in checked[1:]])

    def perform(self, node: Apply, inputs: Numbers, outputs: OutputStorageType) -> None:
        y, phi, *prior = inputs
        try:
            gradients = self.solver.gradient(y, phi, tuple(prior))
        except KNOWN_ERRORS as error:
            self._reject("gradient of the evidence set to 0", error)
            gradients = tuple(np.zeros_like(x) for x in (phi, *prior))
        for storage, gradient in zip(outputs, gradients, strict=True):
            storage[0] = np.asarray(gradient)

    def pullback(
        self, inputs: Variables, outputs: Variables, cotangents: Variables
    ) -> list[Variable]:
        why = "the evidence of pymc_ext.gp has exact first derivatives only"
        return [
            DisconnectedType()() if i == 0 else grad_undefined(self, i, x, why)
            for i, x in enumerate(inputs)
        ]


def _gradient_of(op: SiteEvidence) -> SiteEvidenceGradient:
    return SiteEvidenceGradient(op.solver, op.failures)


class SiteWeights(_SolverOp):
    """(w, F, G) of the posterior.

    f* has mean m* + K*ₚ w and covariance K** − K*ₚ F Fᵀ Kₚ* + K*ₚ G Gᵀ Kₚ*.
    """

    def make_node(self, *inputs: TensorLike) -> Apply:
        several = self.solver.likelihood.n_latent > 1
        matrix = pt.dtensor3 if several else pt.dmatrix
        outputs = [pt.dmatrix() if several else pt.dvector(), matrix(), matrix()]
        return Apply(self, self._inputs(*inputs), outputs)

    def perform(self, node: Apply, inputs: Numbers, outputs: OutputStorageType) -> None:
        y, phi, *prior = inputs
        weights = self.solver.posterior(y, phi, tuple(prior)).weights()
        for storage, value in zip(outputs, weights, strict=True):
            storage[0] = np.asarray(value)

    def pullback(
        self, inputs: Variables, outputs: Variables, cotangents: Variables
    ) -> list[Variable]:
        why = (
            "predictions of pymc_ext.gp are not differentiable: sample the model before adding them"
        )
        return [
            DisconnectedType()() if i == 0 else grad_undefined(self, i, x, why)
            for i, x in enumerate(inputs)
        ]


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
