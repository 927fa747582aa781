"""Whole blocks of optimiser steps inside one loop that JAX compiles, for PyMC models it can trace.

The loss of the model and the flow, and the optimiser's step, are one PyTensor graph, which JAX
compiles. Draws, schedule and average are those of :class:`.loops.DensityLoop`.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy, deepcopy
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.gradient import disconnected_grad
from pytensor.tensor import TensorVariable

from pymc_ext.density import CountedDensity
from pymc_ext.density.counted import noise_of
from pymc_ext.density.model import PyMCDensity
from pymc_ext.jax_graphs import jax_function
from pymc_ext.maths.adam import ADAM, RMSPROP, adam_step, corrected
from pymc_ext.maths.flow_kernels import LONGEST, MEMORY
from pymc_ext.maths.types import Array
from pymc_ext.typed_graphs import gradients, replaced
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.graph import FlowGraph
from pymc_ext.variational.bernstein.training.loops import BLOCK
from pymc_ext.variational.core.steps import StepOptions

if TYPE_CHECKING:
    import jax

    from pymc_ext.pytensor_versions import TensorSharedVariable

Arrays = tuple["jax.Array", ...]
Carried = tuple[Arrays, "jax.Array"]  # the shared variables, and losses
Updates = dict["TensorSharedVariable", TensorVariable]
TINY = 1e-30  # below any norm that matters: keeps 0/0 away


def importance_weighted_bound(log_ratio: TensorVariable, group: int) -> TensorVariable:
    """E log (1/K) Σ p̃/q over groups of K draws; K = 1 is the ELBO (Burda et al. 2016)."""
    if group == 1:
        return log_ratio.mean()
    return (pt.logsumexp(log_ratio.reshape((-1, group)), axis=1) - np.log(group)).mean()


def weights_in_groups(log_ratio: TensorVariable, group: int) -> TensorVariable:
    """Weights of draws within their groups, (N,), of sum 1 in all; no gradient goes through."""
    of_groups = log_ratio.reshape((-1, group))
    w = pt.exp(of_groups - pt.logsumexp(of_groups, axis=1, keepdims=True))
    return disconnected_grad(w.ravel() / w.shape[0])


def path_bound(
    y: TensorVariable, residual: TensorVariable, w: TensorVariable, group: int
) -> TensorVariable:
    """What has the bound's path gradient in the parameters of y (N, D), and no value of its own.

    ``residual`` are scores of log p̃ − log q in y; see :meth:`.loops.DensityLoop.loss_and_gradient`.
    """
    groups = w.shape[0] / group
    weighted = pt.switch(w[:, None] > 0, residual * (w**2 * groups)[:, None], 0.0)
    return (disconnected_grad(weighted) * y).sum()


class GuardedOptimizer:
    """A step that leaves out a loss or gradient that is not finite, and keeps an average.

    All parameters are one vector inside the step: :meth:`load` and :meth:`store` carry values
    between it and the parameters themselves.

    Parameters
    ----------
    name
        ``"adam"`` or ``"rmsprop"``.
    max_norm
        Gradients longer than this are shortened to it. None: to `LONGEST` times the running mean
        of their norms, for a few draws far out, where an exponential explodes, would otherwise fill
        Adam's second moment and stop it for a thousand steps.
    """

    def __init__(self, name: str = "adam", max_norm: float | None = None) -> None:
        self.name, self.max_norm = name, max_norm
        self.rate = pytensor.shared(pm.pytensorf.floatX(0.0), "rate")
        self.weight = pytensor.shared(pm.pytensorf.floatX(1.0), "weight")
        self.longest = pytensor.shared(pm.pytensorf.floatX(0.0), "longest")

    def __call__(
        self,
        loss: TensorVariable,
        params: Sequence[TensorSharedVariable],
        sloped: TensorVariable | None = None,
    ) -> tuple[TensorVariable, Updates]:
        """The loss as a function of the vector, and the updates of one step.

        Gradients are those of ``sloped``, where it is given.
        """
        self.params = list(params)
        values = [np.asarray(p.get_value()) for p in self.params]
        self.shapes = [value.shape for value in values]
        self.ends = np.cumsum([value.size for value in values])
        self.vector, self.average = self._state("vector"), self._state("average")
        self.load()
        self.restart_average()
        pieces = [self.vector[a:b].reshape(shape) for a, b, shape in self._spans()]
        replacements = dict(zip(self.params, pieces, strict=True))
        of_vector, sloped = replaced([loss, loss if sloped is None else sloped], replacements)
        slopes = gradients(sloped, pieces)
        gradient = pt.concatenate([g.ravel() for g in slopes]).astype(self.vector.dtype)
        return of_vector, self._updates(of_vector, gradient)

    def _updates(self, loss: TensorVariable, gradient: TensorVariable) -> Updates:
        norm = pt.sqrt((gradient**2).sum())
        good = pt.lt(norm, np.inf) & pt.lt(pt.abs(loss), np.inf)  # false for NaN too
        updates: Updates = {}
        limit = self.max_norm
        if limit is None:
            limit = pt.switch(self.longest > 0, self.longest, LONGEST * norm)  # 0 before the first
            longest = limit + (1 - MEMORY) * (LONGEST * pt.minimum(norm, limit) - limit)
            updates[self.longest] = pt.switch(good, longest, self.longest)
        scale = pt.minimum(1.0, limit / pt.maximum(norm, TINY))
        g = pt.switch(good, gradient * scale, 0.0)
        p, v = self.vector, self._state("square")
        if self.name == "adam":
            m, steps = self._state("momentum"), pytensor.shared(pm.pytensorf.floatX(0.0), "steps")
            m_new, v_new, step = adam_step(g, m, v, *corrected(self.rate, steps + 1, *ADAM), *ADAM)
            updates |= {m: pt.switch(good, m_new, m), steps: pt.switch(good, steps + 1, steps)}
        else:
            _, v_new, step = adam_step(g, 0.0, v, self.rate, 1.0, *RMSPROP)
        updates[v] = pt.switch(good, v_new, v)
        p_new = pt.switch(good, p - step, p)
        updates |= {p: p_new, self.average: self.average + self.weight * (p_new - self.average)}
        return {
            key: key.type.filter_variable(value.astype(key.type.dtype), allow_convert=True)
            for key, value in updates.items()
        }

    def _state(self, name: str) -> TensorSharedVariable:
        zeros = np.zeros(self.ends[-1], dtype=pytensor.config.floatX)
        return cast("TensorSharedVariable", pytensor.shared(zeros, name, shape=zeros.shape))

    def _spans(self) -> list[tuple[int, int, tuple[int, ...]]]:
        begins = [0, *self.ends[:-1]]
        return [
            (int(a), int(b), shape)
            for a, b, shape in zip(begins, self.ends, self.shapes, strict=True)
        ]

    def load(self) -> None:
        """Parameters into the vector."""
        values = [np.ravel(p.get_value()) for p in self.params]
        self.vector.set_value(np.concatenate(values).astype(self.vector.dtype))

    def store(self, averaged: bool = False) -> None:
        """The vector, or its average, into the parameters."""
        values = (self.average if averaged else self.vector).get_value(borrow=True)
        for p, (a, b, shape) in zip(self.params, self._spans(), strict=True):
            p.set_value(values[a:b].reshape(shape).astype(p.dtype))

    def restart_average(self) -> None:
        """Begin the average anew, at the present vector."""
        self.average.set_value(self.vector.get_value())


class JaxLoop:
    """See the module; ``trained`` are shared variables trained with the flow's parameters."""

    def __init__(
        self,
        flow: BernsteinFlow,
        density: CountedDensity,
        options: StepOptions,
        rng: np.random.Generator,
    ) -> None:
        if find_spec("jax") is None:
            raise ImportError("backend='jax' needs JAX: pip install 'trusted-posteriors[jax]'")
        if density.noisy:
            raise ValueError(
                f"{noise_of(density.density)}, and backend='jax' compiles the whole loop and "
                "cannot draw batches inside it: use backend='pytensor'"
            )
        if options.update is not None or options.normals is not None:
            raise ValueError(
                "backend='jax' runs its own optimiser on fresh draws: leave out obj_optimizer and "
                "more_replacements, or use backend='pytensor'"
            )
        self.flow, self.density, self.draws = flow, density, options.draws
        self.rng, self.shape = rng, (options.draws, flow.latent_dimension)
        model = density.density
        assert isinstance(model, PyMCDensity), "JAX compiles a PyMC model's graph"
        graph = FlowGraph(flow)
        z = pt.matrix("z", shape=self.shape)  # JAX compiles for one shape
        draws = graph.forward(z)
        log_p = model.logp_of_rows(draws.theta)
        log_ratio = log_p - draws.log_q
        loss = -importance_weighted_bound(log_ratio, options.group)
        sloped = None
        if options.by_path:
            w = weights_in_groups(log_ratio, options.group)
            (by_y,) = gradients(log_p.sum(), [draws.y])
            sloped = -path_bound(draws.y, by_y - graph.score(draws), w, options.group)
            if model.extras:
                sloped -= (w * model.logp_of_rows(disconnected_grad(draws.theta))).sum()
        self.optimizer = GuardedOptimizer(options.optimizer, options.max_norm)
        params = [*graph.params.values(), *model.extras]  # the former in the order of flow.x
        loss, updates = self.optimizer(loss, params, sloped)
        self._compile(z, loss, updates)

    def _compile(self, z: TensorVariable, loss: TensorVariable, updates: Updates) -> None:
        import jax
        import jax.numpy as jnp

        self.state = list(updates)
        # on JAX's device, as all that a block of steps needs: only the flow's parameters come back
        self._values: dict[TensorSharedVariable, jax.Array | Array] = {
            v: jax.device_put(v.get_value(borrow=True)) for v in self.state
        }
        self._sent: dict[SharedVariable, tuple[Array, jax.Array]] = {}
        function, self.fixed = jax_function(self.state, z, [*updates.values(), loss])

        @jax.jit
        def block(carried: Arrays, fixed: Arrays, normals: jax.Array, steps: int) -> Carried:
            def one(i: jax.Array, inner: Carried) -> Carried:
                values, losses = inner
                *after, loss = function(*values, *fixed, normals[i])
                return tuple(after), losses.at[i].set(loss)

            # a number of steps known only when it runs: one compilation serves all blocks
            return jax.lax.fori_loop(0, steps, one, (carried, jnp.zeros(len(normals))))

        self._block = block
        self._take(0)  # JAX compiles at the first call: that is no part of a fit

    @property
    def vector(self) -> Array:
        return np.array(self._values[self.optimizer.vector])

    @vector.setter
    def vector(self, value: Array) -> None:
        self._values[self.optimizer.vector] = np.array(value)
        self._hand_out(value)

    def _hand_out(self, vector: Array) -> None:
        """Give flow and density their parts of the vector."""
        size = len(self.flow.x)
        self.flow.set(vector[:size])
        if len(vector) > size:
            self.density.extra = vector[size:]

    @property
    def average(self) -> Array:
        return np.array(self._values[self.optimizer.average])

    @average.setter
    def average(self, value: Array) -> None:
        self._values[self.optimizer.average] = np.array(value)

    def run(self, steps: int, rate: float, weight: float) -> Array:
        self.optimizer.rate.set_value(pm.pytensorf.floatX(rate))
        self.optimizer.weight.set_value(pm.pytensorf.floatX(weight))
        losses = self._take(steps)
        self.density.values += steps * self.draws
        self.density.gradients += steps * self.draws
        self._hand_out(self.vector)
        return losses

    def fork(self, density: CountedDensity) -> JaxLoop:
        again = copy(self)  # with what is compiled
        again.flow, again.density, again.rng = deepcopy(self.flow), density, deepcopy(self.rng)
        again._values = dict(self._values)
        return again

    def _take(self, steps: int) -> Array:
        normals = np.zeros((BLOCK, *self.shape))
        normals[:steps] = self.rng.standard_normal((steps, *self.shape))
        carried = tuple(self._values.values())
        after, losses = self._block(carried, tuple(map(self._send, self.fixed)), normals, steps)
        self._values = dict(zip(self.state, after, strict=True))
        return np.asarray(losses, dtype=float)[:steps]

    def _send(self, variable: SharedVariable) -> jax.Array:
        """A shared variable's value on JAX's device, sent again once ``set_value`` put another."""
        import jax

        value = variable.get_value(borrow=True)
        if variable not in self._sent or self._sent[variable][0] is not value:
            self._sent[variable] = value, jax.device_put(value)
        return self._sent[variable][1]
