"""PyTensor Ops that call a compiled Stan program.

``theta`` is unconstrained with shape (..., D); every Op works on all leading indices in one call.
The program's C++ runs with its own thread-local state, so Ops may be called from several threads.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import grad_undefined
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor import TensorVariable

from pymc_ext.density.differences import STEP
from pymc_ext.pytensor_versions import _vectorize_node, register_specialize
from stan_models.types import Array

if TYPE_CHECKING:
    from stan_models import StanDensity

Shapes = Sequence[Sequence[TensorVariable]]  # of the outputs


class StanOp(Op):
    """Base: an Op of ``theta`` that needs no more than ``compute`` and the output types."""

    def __init__(self, density: StanDensity) -> None:
        self.density = density

    def __str__(self) -> str:
        return f"{type(self).__name__}{{{self.density.program.name}}}"

    def do_constant_folding(self, fgraph: FunctionGraph, node: Apply) -> bool:
        return False  # a constant theta must not run Stan while a graph is rewritten

    def compute(self, *inputs: Array) -> Sequence[Array]:
        """The outputs as arrays."""
        raise TypeError(f"{type(self).__name__} has no computation of its own")

    def perform(
        self, node: Apply, inputs: Sequence[Array], outputs: Sequence[list[Array | None]]
    ) -> None:
        for storage, value in zip(outputs, self.compute(*inputs), strict=True):
            storage[0] = value


class StanLogDensity(StanOp):
    """log p̃(θ), Jacobian and constants included, and its gradient: (..., D) -> (...), (..., D).

    Where the program rejects θ the density is -inf and the gradient NaN.
    """

    def make_node(self, *inputs: Variable) -> Apply:
        theta = _points(*inputs)
        batch = theta.type.shape[:-1]
        gradient = pt.tensor("gradient", dtype="float64", shape=theta.type.shape)
        return Apply(self, [theta], [pt.tensor("lp", dtype="float64", shape=batch), gradient])

    def infer_shape(self, *args: Any) -> Shapes:
        (shape,) = args[-1]  # (fgraph, node, shapes) in PyTensor 2, (node, shapes) in 3
        return [shape[:-1], shape]

    def compute(self, *inputs: Array) -> Sequence[Array]:
        return log_density_gradient(self.density, inputs[0])

    def pullback(
        self,
        inputs: Sequence[TensorVariable],
        outputs: Sequence[TensorVariable],
        cotangents: Sequence[TensorVariable],
    ) -> list[Variable]:
        """Cotangents of (lp, gradient) to that of θ; the second needs the Hessian."""
        g_lp, g_gradient = cotangents
        total = pt.zeros_like(inputs[0])
        if not _disconnected(g_lp):
            total += g_lp[..., None] * outputs[1]
        if not _disconnected(g_gradient):
            total += StanHessianProduct(self.density)(inputs[0], g_gradient)
        return [total]

    L_op: Any = pullback  # its name in PyTensor 2

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True, True]]


class StanLogDensityAlone(StanOp):
    """log p̃(θ) without its gradient, (..., D) -> (...): several times cheaper where Stan solves
    an ODE or runs a filter. Graphs get it by :func:`leave_out_gradient`."""

    def make_node(self, *inputs: Variable) -> Apply:
        theta = _points(*inputs)
        return Apply(self, [theta], [pt.tensor("lp", dtype="float64", shape=theta.type.shape[:-1])])

    def infer_shape(self, *args: Any) -> Shapes:
        return [args[-1][0][:-1]]

    def compute(self, *inputs: Array) -> Sequence[Array]:
        return [log_density(self.density, inputs[0])]

    def pullback(
        self,
        inputs: Sequence[TensorVariable],
        outputs: Sequence[TensorVariable],
        cotangents: Sequence[TensorVariable],
    ) -> list[Variable]:
        """Cotangent of lp to that of θ."""
        _, gradient = cast("list[TensorVariable]", StanLogDensity(self.density)(inputs[0]))
        return [cotangents[0][..., None] * gradient]

    L_op: Any = pullback


@register_specialize
@node_rewriter([StanLogDensity])
def leave_out_gradient(fgraph: FunctionGraph, node: Apply) -> dict[Variable, Variable] | None:
    """The density alone where a compiled function does not use the gradient."""
    lp, gradient = node.outputs
    if fgraph.clients[gradient]:
        return None
    (alone,) = StanLogDensityAlone(node.op.density).make_node(*node.inputs).outputs
    return {lp: alone}


class StanHessianProduct(StanOp):
    """∇² log p̃(θ) v by fourth-order differences of exact gradients: (..., D) twice -> (..., D).

    Truncation and rounding together are of the order 1e-12 of the largest entry.
    """

    def make_node(self, *inputs: Variable) -> Apply:
        theta, v = pt.broadcast_arrays(*map(_points, inputs))
        return Apply(self, [theta, v], [pt.tensor("Hv", dtype="float64", shape=v.type.shape)])

    def infer_shape(self, *args: Any) -> Shapes:
        return [args[-1][0]]

    def compute(self, *inputs: Array) -> Sequence[Array]:
        return [hessian_product(self.density, *inputs)]

    def pullback(
        self,
        inputs: Sequence[TensorVariable],
        outputs: Sequence[TensorVariable],
        cotangents: Sequence[TensorVariable],
    ) -> list[Variable]:
        """None: Stan's third derivatives are not computed."""
        return [grad_undefined(self, i, x, "no third derivatives") for i, x in enumerate(inputs)]

    L_op: Any = pullback


class StanConstrain(StanOp):
    """Parameters by name on the constrained space: (..., D) -> (..., *shape) each.

    Transformed parameters come along, and, where ``random_seed`` is given, generated quantities.
    Their random numbers are seeded by θ and ``random_seed``: the same θ gives the same numbers
    whatever else is computed, different θ give independent ones.
    """

    def __init__(self, density: StanDensity, random_seed: int | None = None) -> None:
        super().__init__(density)
        self.random_seed = random_seed
        which = True, random_seed is not None
        blank = density.by_name(np.zeros((1, density.count(*which))), *which)
        self.shapes = {name: value.shape[1:] for name, value in blank.items()}
        self.dtypes = {name: str(value.dtype) for name, value in blank.items()}

    def make_node(self, *inputs: Variable) -> Apply:
        theta = _points(*inputs)
        batch = theta.type.shape[:-1]
        outputs = [
            pt.tensor(name, dtype=self.dtypes[name], shape=(*batch, *shape))
            for name, shape in self.shapes.items()
        ]
        return Apply(self, [theta], outputs)

    def infer_shape(self, *args: Any) -> Shapes:
        (theta,) = args[-1]
        return [(*theta[:-1], *map(pt.constant, shape)) for shape in self.shapes.values()]

    def compute(self, *inputs: Array) -> Sequence[Array]:
        theta = inputs[0]
        rows = theta.reshape(-1, theta.shape[-1])
        if self.random_seed is None:
            found = self._constrain(rows)
        else:
            each = [self._constrain(row) for row in rows]
            found = {k: np.concatenate([one[k] for one in each]) for k in self.shapes}
        return [found[k].reshape((*theta.shape[:-1], *s)) for k, s in self.shapes.items()]

    def pullback(
        self,
        inputs: Sequence[TensorVariable],
        outputs: Sequence[TensorVariable],
        cotangents: Sequence[TensorVariable],
    ) -> list[Variable]:
        """None: what is computed from the constrained values is for reading, not for fitting."""
        return [grad_undefined(self, 0, inputs[0], "constrained values carry no gradient")]

    L_op: Any = pullback

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        return [[True] * len(self.shapes)]

    def _constrain(self, theta: Array) -> dict[str, Array]:
        if self.random_seed is None:
            return self.density.constrain(theta)
        key = hashlib.blake2b(theta.tobytes(), digest_size=4, salt=_salt(self.random_seed))
        seed = int.from_bytes(key.digest(), "little")
        return self.density.constrain(theta, generated=True, random_seed=seed)


def log_density(density: StanDensity, theta: Array) -> Array:
    """``density.log_density`` for any number of leading axes."""
    lp: Array = density.log_density(theta.reshape(-1, theta.shape[-1]))
    return lp.reshape(theta.shape[:-1])


def log_density_gradient(density: StanDensity, theta: Array) -> tuple[Array, Array]:
    """``density.log_density_gradient`` for any number of leading axes."""
    lp, gradient = density.log_density_gradient(theta.reshape(-1, theta.shape[-1]))
    return lp.reshape(theta.shape[:-1]), gradient.reshape(theta.shape)


def hessian_product(density: StanDensity, theta: Array, v: Array) -> Array:
    """∇² log p̃(θ) v, (..., D), from the gradients at θ ± h v and θ ± 2h v.

    No coordinate moves further than its own size: one of 1e5 beside the log of a scale must not
    make the latter overflow.
    """
    length, inf = np.abs(v), np.full(v.shape, np.inf)
    reach = np.divide(np.maximum(1.0, np.abs(theta)), length, out=inf, where=length > 0)
    h = reach.min(-1, keepdims=True)
    h = STEP * np.where(np.isfinite(h), h, 1.0)
    steps = np.array([-2.0, -1.0, 1.0, 2.0]).reshape(4, *[1] * theta.ndim)
    _, g = log_density_gradient(density, theta + steps * h * v)
    return (g[0] - g[3] + 8.0 * (g[2] - g[1])) / (12.0 * h)


@_vectorize_node.register(StanOp)
def _vectorize(op: StanOp, node: Apply, *batched: TensorVariable) -> Apply:
    return op.make_node(*batched)


def _points(variable: Variable) -> TensorVariable:
    theta = pt.as_tensor_variable(variable)
    if theta.type.ndim == 0:
        raise ValueError("theta must have shape (..., D), got a scalar")
    return theta.astype("float64")


def _disconnected(cotangent: Variable) -> bool:
    from pytensor.gradient import DisconnectedType

    return isinstance(cotangent.type, DisconnectedType)


def _salt(random_seed: int) -> bytes:
    return random_seed.to_bytes(16, "little")
