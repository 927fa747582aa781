"""The triangular part of a flow in numbers: y of x by masked networks, and back for cotangents.

Component j of y is an increasing function of x_j whose coefficients come from the components before
j; notation as in :mod:`.group`. A stage is one network with its outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths import flow_kernels as kernels
from pymc_ext.maths.namespace import NUMPY
from pymc_ext.variational.bernstein.shape import Layout

Array = NDArray[np.floating]
Rows = NDArray[np.integer]


@dataclass
class StageTape:
    """What one network's forward leaves for its pullback."""

    inputs: Array
    x: Array
    hidden: list[Array]  # outputs of the layers, the inputs first
    slopes: list[Array]  # of the units
    raw: Array
    local: Array
    shift: Array
    log_scale: Array


class TriangularFlow:
    """y = flow(x), for networks of ``layout`` with parameters ``values`` by name.

    The arrays of ``values`` are kept, so that what is written into them takes effect.
    """

    def __init__(self, layout: Layout, values: Mapping[str, Array]) -> None:
        self.layout, self.shape = layout, layout.shape
        self._own = [layout.own(k, values) for k in range(len(layout.stages))]

    def forward(self, x: Array) -> tuple[Array, Array, list[StageTape]]:
        """y (N, D), Σ log dy/dx (N,) and the tape; a later stage sees the values of earlier ones,
        for a scale is a simple function of a hyperparameter's value, not of x."""
        seen = NUMPY.sigmoid(x) - 0.5 if self.shape.conditioning == "squashed" else x
        values: list[Array] = []
        log_det, tapes = np.zeros(len(x)), []
        for k, network in enumerate(self.layout.stages):
            rest = seen[:, network.first : network.inputs]
            inputs = np.concatenate([*values, rest], axis=1) if values else rest
            tape = self._stage(
                k, inputs, np.ascontiguousarray(x[:, network.first : network.inputs])
            )
            y, log_dy = kernels.push(*self._arguments(k, tape))
            values.append(y)
            log_det += log_dy
            tapes.append(tape)
        return (np.concatenate(values, axis=1) if len(values) > 1 else values[0]), log_det, tapes

    def _stage(self, k: int, inputs: Array, x: Array) -> StageTape:
        network, own = self.layout.stages[k], self._own[k]
        hidden, slopes = [np.ascontiguousarray(inputs)], []
        N, d = x.shape
        if "W0" in own:
            for i in range(len(network.masks)):
                h, slope = kernels.activate(hidden[-1] @ own[f"W{i}"], own[f"b{i}"])
                hidden.append(h)
                slopes.append(slope)
            raw, local = hidden[-1] @ own["W_raw"], hidden[-1] @ own["W_local"]
        else:  # one variable, or no layers: nothing to condition on
            raw = np.zeros((N, d * network.heads["raw"]))
            local = np.zeros((N, d * network.heads["local"]))
        if self.layout.scaled:
            shift, log_scale = hidden[0] @ own["skip"], hidden[0] @ own["skip_scale"]
        else:
            shift = log_scale = np.zeros((N, d))
        return StageTape(inputs, x, hidden, slopes, raw, local, shift, log_scale)

    def _arguments(self, k: int, tape: StageTape) -> tuple[Array | int, ...]:
        own = self._own[k]
        return (
            tape.x, tape.raw, own["b_raw"].ravel(), tape.local, own["b_local"].ravel(),
            tape.shift, tape.log_scale, self.shape.slopes,
        )  # fmt: skip

    def pullback(
        self, stages: list[StageTape], g_y: Array, g_log: Array, into: Mapping[str, Array]
    ) -> Array:
        """Cotangent of x (N, D); gradients of the networks go ``into`` the arrays by name."""
        g_x = np.zeros_like(g_y)
        squashed = self.shape.conditioning == "squashed"
        for k in reversed(range(len(self.layout.stages))):
            network, stage = self.layout.stages[k], stages[k]
            columns = slice(network.first, network.inputs)
            g_own = np.ascontiguousarray(g_y[:, columns])
            by_x, g_raw, g_local, g_scale = kernels.push_pullback(
                *self._arguments(k, stage), g_own, g_log
            )
            own = self.layout.own(k, into)
            g_seen = self._network_pullback(k, stage, g_own, g_raw, g_local, g_scale, own)
            g_x[:, columns] += by_x
            if g_seen is None:
                continue
            before = g_seen.shape[1] - len(range(*columns.indices(network.inputs)))
            g_y[:, :before] += g_seen[:, :before]
            rest = g_seen[:, before:]
            if squashed:
                s = stage.inputs[:, before:] + 0.5
                rest = rest * s * (1 - s)
            g_x[:, columns] += rest
        return g_x

    def _network_pullback(
        self,
        k: int,
        stage: StageTape,
        g_y: Array,
        g_raw: Array,
        g_local: Array,
        g_scale: Array,
        into: dict[str, Array],
    ) -> Array | None:
        """Cotangent of what stage k saw; None where it saw nothing."""
        own, inputs = self._own[k], stage.hidden[0]
        into["b_raw"].ravel()[...] = g_raw.sum(axis=0)
        into["b_local"].ravel()[...] = g_local.sum(axis=0)
        g_seen = None
        if self.layout.scaled:
            np.matmul(inputs.T, g_y, out=into["skip"])
            np.matmul(inputs.T, g_scale, out=into["skip_scale"])
            g_seen = g_y @ own["skip"].T + g_scale @ own["skip_scale"].T
        if "W0" not in own:
            return g_seen
        last = stage.hidden[-1]
        np.matmul(last.T, g_raw, out=into["W_raw"])
        np.matmul(last.T, g_local, out=into["W_local"])
        g = g_raw @ own["W_raw"].T + g_local @ own["W_local"].T
        for i in reversed(range(len(stage.slopes))):
            g = g * stage.slopes[i]
            into[f"b{i}"][...] = g.sum(axis=0)
            np.matmul(stage.hidden[i].T, g, out=into[f"W{i}"])
            g = g @ own[f"W{i}"].T
        return g if g_seen is None else g_seen + g

    def component(self, j: int, x: Array) -> Callable[[Array, Rows], Array]:
        """y_j as a function of x_j (n,) and of the rows of ``x`` (N, D) that give those before."""
        k = next(k for k, network in enumerate(self.layout.stages) if j < network.inputs)
        network, own = self.layout.stages[k], self._own[k]
        tape, i = self.forward(x)[2][k], j - network.first
        M, w = network.heads["raw"], network.heads["local"]
        raw = tape.raw[:, i * M : (i + 1) * M] + own["b_raw"][i]
        local = tape.local[:, i * w : (i + 1) * w] + own["b_local"][i]
        shift, scale = (np.ascontiguousarray(a[:, [i]]) for a in (tape.shift, tape.log_scale))
        none, nothing = np.zeros(M), np.zeros(w)

        def value(at: Array, rows: Rows) -> Array:
            y, _ = kernels.push(
                at[:, None], raw[rows], none, local[rows], nothing,
                shift[rows], scale[rows], self.shape.slopes,
            )  # fmt: skip
            return y[:, 0]

        return value
