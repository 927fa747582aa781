"""The triangular Bernstein flow in numbers: draws with log q, and the pullback of cotangents.

Neither holds a model. Notation of Dürr et al. (2024), as in :mod:`.graph`, which states the same
flow as a PyTensor graph: latent v, x = l(v), y the Bernstein polynomial of σ(x) with tails, whose
coefficients a masked network makes from the components before; θ = B(y), see :mod:`.base`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.flow_kernels import adam
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.base import Affine, FlowBase, ScoreMap
from pymc_ext.variational.bernstein.inversion import invert
from pymc_ext.variational.bernstein.latents import Normal, TruncatedNormal
from pymc_ext.variational.bernstein.shape import FlowShape, Layout, spans
from pymc_ext.variational.bernstein.triangular import NetworkTape, TriangularFlow

# Sobol points behind moments, at least, and for each dimension: a tracker may ask at every step.
MOMENT_POINTS, POINTS_A_DIMENSION = 1024, 20
ELEMENTS = 2**20  # increments of one call: bounds memory at 8 MB an array


@dataclass
class Tape:
    """What a forward leaves for its pullback; and the draws.

    ``target_score`` gives the score in y of log p̃(θ(y)) + log|det ∂θ/∂y| from that of log p̃ at θ,
    both (N, D).
    """

    theta: Array
    log_q: Array
    v: Array
    x: Array
    networks: list[NetworkTape] = field(repr=False)
    target_score: ScoreMap = field(repr=False)


class BernsteinFlow:
    """q of θ = B(flow(v)), with all that is trained in one vector ``x`` (P,).

    Parameters
    ----------
    shape
        Options.
    base
        B, in whose order components are conditioned.
    leading
        Number of leading scalars, see :mod:`pymc_ext.variational.core.variable_order`.
    rng
        Makes the initial weights.
    """

    def __init__(
        self,
        shape: FlowShape,
        base: FlowBase,
        leading: int,
        rng: np.random.Generator,
    ) -> None:
        self.shape, self.base, self.leading = shape, base, leading
        self.dimension = len(base.order)
        self.layout = Layout(shape, self.dimension, leading)
        self.law, self.input_map = shape.law, shape.map
        self.stretch = np.zeros((2, self.dimension))
        values = self.layout.initial(rng)
        self._spans = list(spans(values))
        self.mask = np.concatenate([m.ravel() for m in self.layout.masks(values).values()])
        self.x = np.concatenate([values[name].ravel() for name, *_ in self._spans])
        self._bind()

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        del state["values"], state["triangular"]  # views of x
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._bind()

    def _bind(self) -> None:
        """``values``: views of ``x`` by name; masked weights are zero, and stay so in training."""
        self.x *= self.mask
        self.values = {name: self.x[where].reshape(dims) for name, where, dims in self._spans}
        self._places = {name: where for name, where, _ in self._spans}
        self.triangular = TriangularFlow(self.layout, self.x, self._places)

    def to_parts(self) -> dict[str, object]:
        """All that it is made of, for :meth:`of_parts`."""
        kept = ("shape", "base", "leading", "x", "stretch")
        return {name: getattr(self, name) for name in kept}

    @classmethod
    def of_parts(cls, parts: Mapping[str, Any]) -> BernsteinFlow:
        """The flow of these parts. Raises ValueError where they do not fit one another."""
        made = cls(parts["shape"], parts["base"], parts["leading"], np.random.default_rng(0))
        made.set(parts["x"])
        made.stretch[...] = parts["stretch"]
        return made

    @property
    def latent_dimension(self) -> int:
        """K, normals behind one draw."""
        return self.dimension * self.law.normals

    @property
    def numbers(self) -> Array:
        """All that a fit moves, (P,)."""
        return self.x

    def set(self, x: Array) -> None:
        """Copy the vector ``x`` (P,) into place."""
        self.x[...] = x * self.mask

    def identity(self) -> Array | None:
        """The vector (P,) with which y = v to rounding; None where the shape has no such flow.

        A tail of slope one on each side is softplus(x) − softplus(−x) = x.
        """
        if not (self.shape.slopes and isinstance(self.law, Normal)):
            return None
        values = self.layout.none(self.values)
        return np.concatenate([values[name].ravel() for name, *_ in self._spans])

    def warm_up(self) -> None:
        """Have numba compile, or load, what a step needs: that is no part of a fit's seconds."""
        tape = self.trace(np.zeros((1, self.latent_dimension)))
        self.parameter_gradient(tape, self.score(tape), np.zeros(1))
        one = [np.zeros(1) for _ in range(6)]
        adam(*one, 0.0, 0.0, np.zeros(2), True, 0.0)

    def set_base(self, mean: Array, cov: Array) -> None:
        """Whiten with N(mean (D,), cov (D, D)), both in the model's order."""
        self.base = Affine.of(self.base.order, mean, cov)

    # ---- forward ---------------------------------------------------------------------------

    def trace(self, z: Array, keep: bool = True) -> Tape:
        """Draws and log q of normals z (N, K), with what their pullback needs if ``keep``."""
        v = self.law.draw(z, self.dimension)
        x, log_dx = self.input_map.forward(v, self.values, self.stretch)
        y, log_dy, networks = self.triangular.forward(x, keep)
        theta, log_det, target_score = self.base.forward_with_pullback(y)
        log_q = self.law.log_density(v).sum(-1) - log_dx - log_dy - log_det
        return Tape(theta, log_q, v, x, networks, target_score)

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ and log q, (N, K) -> (N, D), (N,)."""
        size = self._rows()
        drawn = []
        for first in range(0, len(z), size):
            tape = self.trace(z[first : first + size], keep=False)
            drawn.append((tape.theta, tape.log_q))  # not the rest: it is D·M numbers a draw
        theta, log_q = (np.concatenate(parts) for parts in zip(*drawn, strict=True))
        return theta, log_q

    @property
    def mean(self) -> Array:
        """(D,), by `MOMENT_POINTS`, always the same."""
        return self._moment_draws().mean(axis=0)

    @property
    def cov(self) -> Array:
        """(D, D)."""
        return np.atleast_2d(np.cov(self._moment_draws().T, bias=True))

    @property
    def std(self) -> Array:
        """(D,)."""
        return self._moment_draws().std(axis=0)

    def _moment_draws(self) -> Array:
        from pymc_ext.variational.elbo.normals import fixed_normals  # a fit does without

        points = max(MOMENT_POINTS, 2 ** math.ceil(math.log2(POINTS_A_DIMENSION * self.dimension)))
        rng = np.random.default_rng(1)
        return self.forward(fixed_normals(points, self.latent_dimension, "sobol", rng))[0]

    def _rows(self) -> int:
        return max(ELEMENTS // (self.dimension * self.shape.order), 16)

    # ---- pullback --------------------------------------------------------------------------

    def score(self, tape: Tape) -> Array:
        """Score in y of log q(y) at the draws of ``tape``, (N, D); y are :meth:`coordinates`."""
        score_v = self.law.score(tape.v)
        score_x = self.input_map.score(tape.v, self.values, self.stretch, score_v)
        return self.triangular.score(tape.networks, score_x)

    def parameter_gradient(self, tape: Tape, g_y: Array, g_log_det: Array) -> Array:
        """Gradient in ``x`` (P,) from cotangents of y (N, D) and of log|det ∂y/∂v| (N,).

        log q = log p(v) − log|det ∂y/∂v| − log|det ∂θ/∂y|, whose first term has no gradient.
        """
        gradient, g_y = np.zeros_like(self.x), np.array(g_y)
        g_x = self.triangular.pullback(tape.networks, g_y, g_log_det, gradient)
        by_map = self.input_map.pullback(tape.v, self.values, self.stretch, g_x, g_log_det)
        for name, value in by_map.items():
            gradient[self._places[name]] = value
        return gradient

    # ---- coordinates of a sampler --------------------------------------------------------

    @property
    def onto(self) -> bool:
        """Whether θ reaches all of R^D, without which chains in z would not either."""
        return self.shape.slopes > 0 and not isinstance(self.law, TruncatedNormal)

    def forward_with_pullback(self, z: Array) -> tuple[Array, Array, ScoreMap]:
        """θ, log q, and the score in z of log p̃(θ(z)) + log|det ∂θ/∂z| from that of log p̃ at θ.

        For laws with one normal a latent variable, K = D: (N, D) -> (N, D), (N,).
        """
        tape = self.trace(z)
        return tape.theta, tape.log_q, partial(self._pullback, z, tape)

    def pullback(self, z: Array, score: Array) -> Array:
        """That function's value, from z and the score, each (N, D): (N, D)."""
        return self.forward_with_pullback(z)[2](score)

    def _pullback(self, z: Array, tape: Tape, score: Array) -> Array:
        g_y, unused = np.array(tape.target_score(score)), np.zeros_like(self.x)
        score_x = self.triangular.pullback(tape.networks, g_y, np.ones(len(z)), unused)
        score_v = self.input_map.latent_score(tape.v, self.values, self.stretch, score_x)
        return self.law.pullback(z, tape.v, score_v)

    def inverse(self, theta: Array) -> Array:
        """z with θ(z) = θ, (N, D) -> (N, D); NaN where there is none."""
        x, inside = invert(self.triangular, self.coordinates(theta), self._rows())
        z = self.law.normal_of(self.input_map.inverse(x, self.values, self.stretch))
        z[~inside] = np.nan
        return z

    # ---- log q anywhere, moments -----------------------------------------------------------

    def log_density(self, theta: Array) -> Array:
        """Normalised log q at any θ, (N, D) -> (N,), by inverting the flow; −∞ off its support, and
        so far out that numbers overflow."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self._log_density(theta)

    def _log_density(self, theta: Array) -> Array:
        y = self.coordinates(theta)
        _, log_det = self.base.forward(y)
        x, inside = invert(self.triangular, y, self._rows())
        inside &= self._on_support(x)
        log_q = np.full(len(x), -np.inf)
        size = self._rows()
        for rows in np.array_split(np.flatnonzero(inside), max(len(x) // size, 1)):
            if len(rows):
                v = self.input_map.inverse(x[rows], self.values, self.stretch)
                _, log_dx = self.input_map.forward(v, self.values, self.stretch)
                _, log_dy, _ = self.triangular.forward(x[rows])
                log_p = self.law.log_density(v).sum(-1)
                log_q[rows] = log_p - log_dx - log_dy - log_det[rows]
        return np.where(np.isnan(log_q) & ~np.isnan(theta).any(axis=1), -np.inf, log_q)

    def coordinates(self, theta: Array) -> Array:
        """What the polynomials give at θ, y = B⁻¹(θ), (N, D) -> (N, D)."""
        return self.base.inverse(theta)

    def _on_support(self, x: Array) -> NDArray[np.bool_]:
        """Whether x (N, D) can be drawn: f3's input ends at 1e-4 and 1 - 1e-4."""
        if not isinstance(self.law, TruncatedNormal):
            return np.ones(len(x), dtype=bool)
        limit = np.log1p(-self.law.margin) - np.log(self.law.margin)
        return np.all(np.abs(x) <= limit, axis=1)
