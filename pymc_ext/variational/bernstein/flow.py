"""The triangular Bernstein flow in numbers: draws with log q, and the pullback of cotangents.

Neither holds a model. Notation of Dürr et al. (2024), as in :mod:`.group`, which states the same
flow as PyTensor graphs: latent v, x = l(v), y the Bernstein polynomial of σ(x) with tails, whose
coefficients a masked network makes from the components before; θ = μ + L y.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize.elementwise import bracket_root, find_root

from pymc_ext.maths import flow_kernels as kernels
from pymc_ext.maths.namespace import NUMPY
from pymc_ext.variational.bernstein.input_maps import MAPS
from pymc_ext.variational.bernstein.latents import TruncatedNormal
from pymc_ext.variational.bernstein.shape import FlowShape, Layout, spans

Array = NDArray[np.floating]
ELEMENTS = 2**20  # increments of one call: bounds memory at 8 MB an array
MOMENT_DRAWS = 1024  # Sobol points behind mean, std and cov


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


@dataclass
class Tape:
    """What a forward leaves for its pullback; and the draws."""

    theta: Array
    log_q: Array
    v: Array
    x: Array
    stages: list[StageTape] = field(repr=False)


class BernsteinFlow:
    """q of θ = μ + L·flow(v), with all that is trained in one vector ``x`` (P,).

    Parameters
    ----------
    shape
        Options.
    permutation, leading
        Order of conditioning and number of leading scalars, see :func:`variable_order`.
    center
        μ at first, in the model's order, shape (D,).
    rng
        Makes the initial weights.
    """

    def __init__(
        self,
        shape: FlowShape,
        permutation: NDArray[np.intp],
        leading: int,
        center: Array,
        rng: np.random.Generator,
    ) -> None:
        self.shape, self.permutation, self.leading = shape, permutation, leading
        self.dimension = len(permutation)
        self.layout = Layout(shape, self.dimension, leading)
        self.law, self.input_map = shape.law, MAPS[shape.input_map]
        self.stretch = np.zeros((2, self.dimension))
        self.center = np.asarray(center, dtype=float)[permutation]
        self.factor: Array | None = None  # L, where it is not the identity
        values = self.layout.initial(rng)
        self._spans = list(spans(values))
        self.mask = np.concatenate([m.ravel() for m in self.layout.masks(values).values()])
        self.x = np.concatenate([values[name].ravel() for name, *_ in self._spans])
        self._bind()

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        state.pop("values")
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._bind()

    def _bind(self) -> None:
        """``values``: views of ``x`` by name; masked weights are zero, and stay so in training."""
        self.x *= self.mask
        self.values = {name: self.x[where].reshape(dims) for name, where, dims in self._spans}
        self._own = [self.layout.own(k, self.values) for k in range(len(self.layout.stages))]

    @property
    def latent_dimension(self) -> int:
        """K, normals behind one draw."""
        return self.dimension * self.law.normals

    def set(self, x: Array) -> None:
        """Copy the vector ``x`` (P,) into place."""
        self.x[...] = x * self.mask

    def set_base(self, mean: Array, cov: Array) -> None:
        """Whiten with N(mean (D,), cov (D, D)), both in the model's order."""
        p = self.permutation
        self.center = np.asarray(mean, dtype=float)[p]
        self.factor = np.linalg.cholesky(np.asarray(cov, dtype=float)[np.ix_(p, p)])

    # ---- forward ---------------------------------------------------------------------------

    def trace(self, z: Array) -> Tape:
        """Draws and log q of normals z (N, K), with what their pullback needs."""
        v = self.law.draw(z, self.dimension)
        x, log_dx = self.input_map.forward(v, self.values, self.stretch)
        y, log_dy, stages = self._flow(x)
        log_q = self.law.log_density(v).sum(-1) - log_dx - log_dy - self._log_det_base()
        return Tape(self._to_theta(y), log_q, v, x, stages)

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ and log q, (N, K) -> (N, D), (N,)."""
        size = self._rows()
        tapes = [self.trace(z[i : i + size]) for i in range(0, len(z), size)]
        theta, log_q = (np.concatenate(p) for p in zip(*((t.theta, t.log_q) for t in tapes),
                                                       strict=True))  # fmt: skip
        return theta, log_q

    def _rows(self) -> int:
        return max(ELEMENTS // (self.dimension * self.shape.order), 16)

    def _flow(self, x: Array) -> tuple[Array, Array, list[StageTape]]:
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

    def _to_theta(self, y: Array) -> Array:
        theta = np.empty_like(y)
        theta[:, self.permutation] = self.center + (y if self.factor is None else y @ self.factor.T)
        return theta

    def _log_det_base(self) -> float:
        return 0.0 if self.factor is None else float(np.log(np.diag(self.factor)).sum())

    # ---- pullback --------------------------------------------------------------------------

    def pullback(self, tape: Tape, g_theta: Array, g_log_det: Array) -> Array:
        """Gradient in ``x`` (P,) from cotangents of θ (N, D) and of log|det ∂θ/∂v| (N,).

        log q = log p(v) − log|det ∂θ/∂v|, whose first term has no gradient.
        """
        gradient = np.zeros_like(self.x)
        into = {name: gradient[where].reshape(dims) for name, where, dims in self._spans}
        g_y = g_theta[:, self.permutation]
        if self.factor is not None:
            g_y = g_y @ self.factor
        g_x = self._flow_pullback(tape, np.ascontiguousarray(g_y), g_log_det, into)
        by_map = self.input_map.pullback(tape.v, self.values, self.stretch, g_x, g_log_det)
        for name, value in by_map.items():
            into[name][...] = value
        return gradient

    def _flow_pullback(self, tape: Tape, g_y: Array, g_log: Array, into: dict[str, Array]) -> Array:
        """Cotangent of x (N, D); gradients of the networks go ``into`` the arrays by name."""
        g_x = np.zeros_like(tape.x)
        squashed = self.shape.conditioning == "squashed"
        for k in reversed(range(len(self.layout.stages))):
            network, stage = self.layout.stages[k], tape.stages[k]
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

    # ---- log q anywhere, moments -----------------------------------------------------------

    def log_density(self, theta: Array) -> Array:
        """Normalised log q at any θ, (N, D) -> (N,), by inverting the flow; −∞ off its support."""
        y = (theta[:, self.permutation] - self.center).T
        if self.factor is not None:
            y = solve_triangular(self.factor, y, lower=True)
        x, inside = self._invert(y.T)
        log_q = np.full(len(x), -np.inf)
        size = self._rows()
        for rows in np.array_split(np.flatnonzero(inside), max(len(x) // size, 1)):
            if len(rows):
                v = self.input_map.inverse(x[rows], self.values, self.stretch)
                _, log_dx = self.input_map.forward(v, self.values, self.stretch)
                _, log_dy, _ = self._flow(x[rows])
                log_p = self.law.log_density(v).sum(-1)
                log_q[rows] = log_p - log_dx - log_dy - self._log_det_base()
        return log_q

    def _invert(self, y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """x with flow(x) = y, one component after the other; and where it exists."""
        x, inside = np.zeros_like(y), np.ones(len(y), dtype=bool)
        size = self._rows()
        for j in range(y.shape[1]):
            for i in range(0, len(y), size):
                rows = slice(i, i + size)
                x[rows, j], found = self._solve(j, x[rows], y[rows, j])
                inside[rows] &= found
        return x, inside & self._on_support(x)

    def _solve(self, j: int, x: Array, y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Component j of x given those before, and where there is one."""
        k = next(k for k, network in enumerate(self.layout.stages) if j < network.inputs)
        network = self.layout.stages[k]
        tape = self._flow(x)[2][k]
        own, i = j - network.first, self._own[k]
        M, w = network.heads["raw"], network.heads["local"]
        raw = tape.raw[:, own * M : (own + 1) * M] + i["b_raw"][own]
        local = tape.local[:, own * w : (own + 1) * w] + i["b_local"][own]
        shift, scale = (np.ascontiguousarray(a[:, [own]]) for a in (tape.shift, tape.log_scale))
        none, nothing = np.zeros(M), np.zeros(w)

        def distance(at: Array, rows: Array) -> Array:
            rows, dims = np.broadcast_to(rows, at.shape).astype(int).ravel(), at.shape
            value, _ = kernels.push(
                at.reshape(-1, 1), raw[rows], none, local[rows], nothing,
                shift[rows], scale[rows], self.shape.slopes,
            )  # fmt: skip
            return (value[:, 0] - y[rows]).reshape(dims)

        everywhere = self.shape.slopes > 0
        found = np.ones(len(y), dtype=bool)
        if not everywhere:
            ends = [distance(np.full(len(y), end), np.arange(len(y))) for end in (-700.0, 700.0)]
            found = (ends[0] < 0) & (ends[1] > 0)
        out, keep = np.zeros(len(y)), np.flatnonzero(found)
        if len(keep):
            bracket = bracket_root(distance, -np.ones(len(keep)), np.ones(len(keep)), args=(keep,))
            root = find_root(distance, bracket.bracket, args=(keep,), tolerances={"xatol": 1e-13})
            out[keep] = np.where(root.success, root.x, 0.0)
            found[keep] = root.success
        return out, found

    def _on_support(self, x: Array) -> NDArray[np.bool_]:
        """Whether x (N, D) can be drawn: f3's input ends at 1e-4 and 1 - 1e-4."""
        if not isinstance(self.law, TruncatedNormal):
            return np.ones(len(x), dtype=bool)
        limit = np.log1p(-self.law.margin) - np.log(self.law.margin)
        return np.all(np.abs(x) <= limit, axis=1)
