"""Two ways to take optimiser steps: a PyTensor function each, or a loop compiled by JAX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytensor
from numpy.typing import NDArray
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor import TensorType, TensorVariable

Array = NDArray[np.floating]
BLOCK = 100  # most steps taken between two looks at the learning rate


class Loop(ABC):
    """Takes optimiser steps on fresh normals; the same seed gives the same normals to each kind.

    Parameters
    ----------
    approx
        Compiles with its backend and counts the seconds.
    z
        Symbolic normals of one step, (S, K).
    loss
        Scalar loss.
    updates
        Shared variable -> value after the step.
    draws
        S.
    rng
        Makes the normals.
    """

    def __init__(
        self,
        approx: Any,
        z: TensorVariable,
        loss: TensorVariable,
        updates: Mapping[Any, Any],
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        self.draws, self.rng = draws, rng
        self.shape = (draws, approx.group.latent_dim)
        seed = int(rng.integers(2**31))
        with approx.building():
            self.build(approx, z, loss, dict(updates), seed)

    @abstractmethod
    def build(
        self, approx: Any, z: TensorVariable, loss: TensorVariable, updates: dict, seed: int
    ) -> None:
        """Compile; ``seed`` is for random numbers of the model's own (minibatches)."""

    @abstractmethod
    def run(self, steps: int) -> Array:
        """Losses of ``steps`` steps, taken one after another; at most `BLOCK` of them."""

    def normals(self, steps: int) -> Array:
        """Normals of the next ``steps`` steps, (steps, S, K)."""
        z = self.rng.standard_normal((steps, *self.shape))
        return z.astype(pytensor.config.floatX)


class PyTensorLoop(Loop):
    """Each step is a call of one compiled function."""

    def build(
        self, approx: Any, z: TensorVariable, loss: TensorVariable, updates: dict, seed: int
    ) -> None:
        self.step = approx.compile(
            [z], loss, updates=updates, random_seed=seed, on_unused_input="ignore"
        )
        self.step.trust_input = True

    def run(self, steps: int) -> Array:
        return np.array([float(self.step(z)) for z in self.normals(steps)])


class JaxLoop(Loop):
    """All steps of a block inside one loop compiled by JAX."""

    def build(
        self, approx: Any, z: TensorVariable, loss: TensorVariable, updates: dict, seed: int
    ) -> None:
        if find_spec("jax") is None:
            raise ImportError("backend='jax' needs JAX: pip install 'trusted-posteriors[jax]'")
        if approx.has_minibatch:
            raise ValueError(
                "backend='jax' compiles the whole loop and cannot draw pm.Minibatch batches "
                "inside it: use backend='pytensor'"
            )
        import jax
        import jax.numpy as jnp

        self.state = list(updates)
        function, self.fixed = jax_function(self.state, z, [*updates.values(), loss])

        @jax.jit
        def block(carried: Any, fixed: Any, normals: Any, steps: Any) -> Any:
            def one(i: Any, inner: Any) -> Any:
                values, losses = inner
                *after, loss = function(*values, *fixed, normals[i])
                return tuple(after), losses.at[i].set(loss)

            # a number of steps known only when it runs: one compilation serves all blocks
            return jax.lax.fori_loop(0, steps, one, (carried, jnp.zeros(len(normals))))

        self._block = block

    def run(self, steps: int) -> Array:
        normals = self.normals(steps)
        room = np.zeros((BLOCK - steps, *self.shape), dtype=normals.dtype)
        carried = tuple(v.get_value(borrow=True) for v in self.state)
        fixed = tuple(v.get_value(borrow=True) for v in self.fixed)
        after, losses = self._block(carried, fixed, np.concatenate([normals, room]), steps)
        for variable, value in zip(self.state, after, strict=True):
            variable.set_value(np.array(value), borrow=True)
        return np.asarray(losses, dtype=float)[:steps]


def _fixed_shape(variable: Any) -> Any:
    """A plain variable like a shared one, of its present shape: JAX needs shapes when it traces."""
    value = variable.get_value(borrow=True)
    if not isinstance(variable.type, TensorType):
        return variable.type(name=variable.name)
    return TensorType(variable.type.dtype, shape=np.shape(value))(name=variable.name)


def jax_function(first: list[Any], z: Any, outputs: list[Any]) -> tuple[Any, list[Any]]:
    """A graph as a JAX function of the shared variables ``first``, of all others in it, and of z.

    The other shared variables are returned with it, in their order as arguments.
    """
    from pytensor.link.jax.dispatch import jax_funcify

    others = [
        v
        for v in dict.fromkeys(graph_inputs(outputs))
        if isinstance(v, SharedVariable) and v not in first
    ]
    plain = {v: _fixed_shape(v) for v in [*first, *others]}
    replaced = clone_replace(outputs, plain, rebuild_strict=False)
    graph = FunctionGraph([*plain.values(), z], replaced, clone=True)
    pytensor.compile.mode.get_mode("JAX").optimizer.rewrite(graph)
    return jax_funcify(graph), others


def jax_of_rows(z: TensorVariable, output: TensorVariable) -> Callable[[Array], list[Array]]:
    """``output`` (N,) as a function of z (at most N, K), whose type says N, compiled by JAX."""
    import jax

    function, held = jax_function([], z, [output])
    compiled = jax.jit(function)

    def call(rows: Array) -> list[Array]:
        padded = np.zeros(z.type.shape, dtype=z.dtype)
        padded[: len(rows)] = rows
        (out,) = compiled(*(v.get_value(borrow=True) for v in held), padded)
        return [np.array(out)[: len(rows)]]

    return call


LOOPS: dict[str, type[Loop]] = {"pytensor": PyTensorLoop, "jax": JaxLoop}
