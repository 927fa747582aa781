"""Two ways to take optimiser steps: a PyTensor function each, or a loop compiled by JAX."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytensor
from numpy.typing import NDArray
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor import TensorVariable

Array = NDArray[np.floating]
BLOCK = 100  # most steps taken between two looks at the learning rate


class PyTensorLoop:
    """Each step is a call of one compiled function.

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
        self.step = approx.compile(
            [z], loss, updates=dict(updates), random_seed=seed, on_unused_input="ignore"
        )
        self.step.trust_input = True

    def run(self, steps: int) -> Array:
        """Losses of ``steps`` steps, taken one after another."""
        z = self.rng.standard_normal((steps, *self.shape)).astype(pytensor.config.floatX)
        return np.array([float(self.step(row)) for row in z])

    def copy(self, sources: Mapping[Any, Any]) -> None:
        """Give each variable the value of its source."""
        for target, source in sources.items():
            target.set_value(source.get_value())


class JaxLoop:
    """All steps of a block inside one ``jax.lax.scan``; arguments as :class:`PyTensorLoop`."""

    def __init__(
        self,
        approx: Any,
        z: TensorVariable,
        loss: TensorVariable,
        updates: Mapping[Any, Any],
        draws: int,
        rng: np.random.Generator,
    ) -> None:
        if find_spec("jax") is None:
            raise ImportError("backend='jax' needs JAX: pip install 'trusted-posteriors[jax]'")
        if approx.has_minibatch:
            raise ValueError(
                "backend='jax' compiles the whole loop and cannot draw pm.Minibatch batches "
                "inside it: use backend='pytensor'"
            )
        self.draws, self.rng = draws, rng
        self.shape = (draws, approx.group.latent_dim)
        with approx.building():
            self._build(z, loss, dict(updates))

    def _build(self, z: TensorVariable, loss: TensorVariable, updates: dict[Any, Any]) -> None:
        import jax
        import jax.numpy as jnp

        self.state, outputs = list(updates), [*updates.values(), loss]
        self.fixed = [
            v
            for v in dict.fromkeys(graph_inputs(outputs))
            if isinstance(v, SharedVariable) and v not in updates
        ]
        plain = {v: v.type(name=v.name) for v in [*self.state, *self.fixed]}
        function = jax_function([*plain.values(), z], clone_replace(outputs, plain))

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
        """Losses of ``steps`` steps; the shared variables are read before and written after."""
        normals = self.rng.standard_normal((steps, *self.shape)).astype(pytensor.config.floatX)
        room = np.zeros((max(BLOCK - steps, 0), *self.shape), dtype=normals.dtype)
        carried = tuple(v.get_value(borrow=True) for v in self.state)
        fixed = tuple(v.get_value(borrow=True) for v in self.fixed)
        after, losses = self._block(carried, fixed, np.concatenate([normals, room]), steps)
        for variable, value in zip(self.state, after, strict=True):
            variable.set_value(np.array(value), borrow=True)
        return np.asarray(losses, dtype=float)[:steps]

    def copy(self, sources: Mapping[Any, Any]) -> None:
        """Give each variable the value of its source."""
        for target, source in sources.items():
            target.set_value(source.get_value())


def jax_function(inputs: list[Any], outputs: list[Any]) -> Any:
    """A PyTensor graph as a JAX function of its inputs."""
    from pytensor.link.jax.dispatch import jax_funcify

    graph = FunctionGraph(inputs, outputs, clone=True)
    pytensor.compile.mode.get_mode("JAX").optimizer.rewrite(graph)
    return jax_funcify(graph)


LOOPS = {"pytensor": PyTensorLoop, "jax": JaxLoop}
