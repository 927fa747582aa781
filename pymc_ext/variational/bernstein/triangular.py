"""The triangular part of a flow in numbers: y of x by masked networks, and back for cotangents.

Component j of y is an increasing function of x_j whose coefficients come from the components before
j; notation as in :mod:`.graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths import flow_kernels as kernels
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.shape import Layout

Rows = NDArray[np.integer]


@dataclass
class NetworkTape:
    """What one network saw, and what `flow_kernels.network` made of it."""

    inputs: Array
    x: Array
    y: Array
    given: tuple[Array, ...]  # raw, local, shift, log scale
    kept: tuple[Array, ...]  # units, their slopes, and what the components kept


class TriangularFlow:
    """y = flow(x), for networks of ``layout`` with parameters in the vector ``parameters`` (P,).

    The vector is kept, so that what is written into it takes effect; ``places`` says where each
    named array is in it.
    """

    def __init__(self, layout: Layout, parameters: Array, places: Mapping[str, slice]) -> None:
        self.layout, self.shape = layout, layout.shape
        self.parameters, self._places = parameters, places
        self._told = [self._arguments(k) for k in range(len(layout.networks))]

    def _arguments(self, k: int) -> tuple[object, ...]:
        """What `flow_kernels.network` is told of network k beside its inputs."""
        network, shape = self.layout.networks[k], self.shape
        names = [f"{kind}{i}" for i in range(len(network.hidden)) for kind in "Wb"]
        names += ["W_raw", "b_raw", "W_local", "b_local", "skip", "skip_scale"]
        found = [self._places.get(f"{name}_{k}") for name in names]
        at = np.array([-1 if place is None else place.start for place in found])
        hidden, w = np.array(network.hidden, dtype=np.int64), network.heads["local"]
        return at, hidden, network.outputs, shape.order, w, shape.slopes, self.layout.scaled

    def forward(self, x: Array, keep: bool = False) -> tuple[Array, Array, list[NetworkTape]]:
        """y (N, D), Σ log dy/dx (N,) and the tape, for a pullback if ``keep``.

        A later network sees the values of earlier ones, for a scale is a simple function of a
        hyperparameter's value, not of x.
        """
        seen = self.shape.sight.seen(x)
        values: list[Array] = []
        log_det, tapes = np.zeros(len(x)), []
        for k, network in enumerate(self.layout.networks):
            columns = slice(network.first, network.inputs)
            inputs = (
                np.concatenate([*values, seen[:, columns]], axis=1) if values else seen[:, columns]
            )
            own, inputs = np.ascontiguousarray(x[:, columns]), np.ascontiguousarray(inputs)
            y, log_dy, *made = kernels.network(inputs, own, self.parameters, keep, *self._told[k])
            values.append(y)
            log_det += log_dy
            tapes.append(NetworkTape(inputs, own, y, tuple(made[:4]), tuple(made[4:])))
        return (np.concatenate(values, axis=1) if len(values) > 1 else values[0]), log_det, tapes

    def pullback(
        self, tapes: list[NetworkTape], g_y: Array, g_log: Array, gradient: Array
    ) -> Array:
        """Cotangent of x (N, D); gradients of the networks go into ``gradient`` (P,)."""
        g_x = np.zeros_like(g_y)
        for k in reversed(range(len(self.layout.networks))):
            network, tape = self.layout.networks[k], tapes[k]
            columns = slice(network.first, network.inputs)
            by_x, g_seen = kernels.network_pullback(
                tape.inputs, tape.x, self.parameters, *self._told[k],
                tape.y, tape.given[2], *tape.kept,
                np.ascontiguousarray(g_y[:, columns]), g_log, gradient,
            )  # fmt: skip
            before = g_seen.shape[1] - network.outputs  # values of earlier networks
            g_y[:, :before] += g_seen[:, :before]
            rest = self.shape.sight.pullback(tape.inputs[:, before:], g_seen[:, before:])
            g_x[:, columns] += by_x + rest
        return g_x

    def score(self, tapes: list[NetworkTape], score_x: Array) -> Array:
        """Score in y (N, D) of a law of x whose score in x is ``score_x`` (N, D).

        log q(y) = log q(x) − log|det ∂y/∂x|, so that the score in y solves (∂y/∂x)ᵀ h = r, a
        triangular system, with r the gradient of that in x.
        """
        N, none = len(score_x), np.zeros_like(self.parameters)
        r = score_x - self.pullback(tapes, np.zeros_like(score_x), np.ones(N), none)
        h = np.empty_like(r)
        of_values = np.zeros_like(r)  # what later networks' h says of the values of earlier ones
        for k in reversed(range(len(self.layout.networks))):
            network, tape = self.layout.networks[k], tapes[k]
            columns = slice(network.first, network.inputs)
            by_x = self.shape.sight.pullback(tape.inputs, np.ones_like(tape.inputs))
            solved, g_seen = kernels.network_solve(
                tape.x, self.parameters, *self._told[k], tape.y, tape.given[2],
                *tape.kept[1:], by_x, np.ascontiguousarray(r[:, columns]),
            )  # fmt: skip
            h[:, columns] = solved - of_values[:, columns]
            before = g_seen.shape[1] - network.outputs
            of_values[:, :before] += g_seen[:, :before]
        return h

    def component(self, j: int, x: Array) -> Callable[[Array, Rows], Array]:
        """y_j as a function of x_j (n,) and of the rows of ``x`` (N, D) that give those before."""
        k = next(k for k, network in enumerate(self.layout.networks) if j < network.inputs)
        network = self.layout.networks[k]
        raw, local, shift, scale = self.forward(x)[2][k].given
        i, M, w = j - network.first, network.heads["raw"], network.heads["local"]
        bias = {head: self.parameters[self._places[f"b_{head}_{k}"]] for head in network.heads}
        raw = raw[:, i * M : (i + 1) * M] + bias["raw"][i * M : (i + 1) * M]
        local = local[:, i * w : (i + 1) * w] + bias["local"][i * w : (i + 1) * w]
        shift, scale = (np.ascontiguousarray(a[:, [i]]) for a in (shift, scale))
        none, nothing = np.zeros(M), np.zeros(w)

        def value(at: Array, rows: Rows) -> Array:
            y, *_ = kernels.push(
                at[:, None], raw[rows], none, local[rows], nothing,
                shift[rows], scale[rows], self.shape.slopes, False,
            )  # fmt: skip
            return y[:, 0]

        return value
