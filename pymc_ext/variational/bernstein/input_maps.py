"""From a latent variable v to the logit x of the polynomial's argument: the paper's f1, f2, f3.

One class a map, with its inverse and its pullback; ``xp`` is ``NUMPY`` or ``pytensor.tensor``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from pymc_ext.maths.bernstein_coefficients import identity_coefficients, inverse_softplus
from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace
from pymc_ext.maths.stretched_tails import stretch_derivatives, stretched, unstretch
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.latents import Latent, TruncatedNormal

E = Elementwise
Parameters = Mapping[str, E]


class InputMap(ABC):
    """x = l(v), elementwise; parameters by name.

    ``law`` is that of v where the map brings its own; ``stretches`` says whether the tails of v can
    be stretched.
    """

    law: Latent | None = None
    stretches = False

    def initial(self, dimension: int) -> dict[str, Array]:
        """Parameters at which x = v."""
        return {}

    def identity(self, order: int, slope: float) -> tuple[float, Array]:
        """ϑ_0 and the M increments of about ``slope`` times the identity, in units of v."""
        return identity_coefficients(order, slope)

    @abstractmethod
    def forward(self, v: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> tuple[E, E]:
        """x (N, D) and Σ log dx/dv (N,); ``amount`` (2, D) stretches the tails of v."""

    @abstractmethod
    def inverse(self, x: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> E:
        """v (N, D)."""

    @abstractmethod
    def score(self, v: Array, p: Parameters, amount: Array, score_v: Array) -> Array:
        """Score in x (N, D) of the law of x = l(v), from that of the law of v, in numbers."""

    @abstractmethod
    def latent_score(self, v: Array, p: Parameters, amount: Array, score_x: Array) -> Array:
        """Score in v of the law of v = l⁻¹(x), from that of the law of x: undoes :meth:`score`."""

    def pullback(
        self, v: Array, p: Parameters, amount: Array, g_x: Array, g_log: Array
    ) -> dict[str, Array]:
        """Gradients by name, from the cotangents of x (N, D) and of Σ log dx/dv (N,)."""
        return {}


class Scaled(InputMap):
    """f1: x = α s(v) + β with α = softplus(alpha), s the identity but for stretched tails."""

    stretches = True

    def initial(self, dimension: int) -> dict[str, Array]:
        alpha = np.full(dimension, inverse_softplus(np.array(1.0)))
        return {"alpha": alpha, "beta": np.zeros(dimension)}

    def forward(self, v: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> tuple[E, E]:
        alpha = xp.softplus(p["alpha"])
        if xp is NUMPY and not amount.any():
            return alpha * v + p["beta"], np.full(len(v), np.log(alpha).sum())
        s, log_ds = stretched(v, amount, xp)
        return alpha * s + p["beta"], xp.log(alpha).sum() + log_ds.sum(-1)

    def inverse(self, x: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> E:
        return unstretch((x - p["beta"]) / xp.softplus(p["alpha"]), amount, xp)

    def score(self, v: Array, p: Parameters, amount: Array, score_v: Array) -> Array:
        alpha = NUMPY.softplus(p["alpha"])
        if not amount.any():
            return score_v / alpha
        slope, log_curve = stretch_derivatives(v, amount)
        return (score_v - log_curve) / (alpha * slope)

    def latent_score(self, v: Array, p: Parameters, amount: Array, score_x: Array) -> Array:
        alpha = NUMPY.softplus(p["alpha"])
        if not amount.any():
            return alpha * score_x
        slope, log_curve = stretch_derivatives(v, amount)
        return alpha * slope * score_x + log_curve

    def pullback(
        self, v: Array, p: Parameters, amount: Array, g_x: Array, g_log: Array
    ) -> dict[str, Array]:
        s = stretched(v, amount)[0] if amount.any() else v
        alpha = NUMPY.softplus(p["alpha"])
        by_alpha = (g_x * s).sum(axis=0) + g_log.sum() / alpha
        return {"alpha": by_alpha * NUMPY.sigmoid(p["alpha"]), "beta": g_x.sum(axis=0)}


class Plain(InputMap):
    """f2: x = v."""

    def forward(self, v: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> tuple[E, E]:
        return v, xp.zeros_like(v[:, 0])

    def inverse(self, x: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> E:
        return x

    def score(self, v: Array, p: Parameters, amount: Array, score_v: Array) -> Array:
        return score_v

    def latent_score(self, v: Array, p: Parameters, amount: Array, score_x: Array) -> Array:
        return score_x


class Logit(InputMap):
    """f3: v in (0, 1) is the polynomial's argument itself, x = log v − log(1 − v)."""

    law = TruncatedNormal()

    def identity(self, order: int, slope: float) -> tuple[float, Array]:
        mean, sd = self.law.mean, self.law.sd  # v is near them already: y = (v − mean) / sd
        return -mean / sd, np.full(order, 1 / sd / order)

    def forward(self, v: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> tuple[E, E]:
        log_v, log_rest = xp.log(v), xp.log1p(-v)
        return log_v - log_rest, -(log_v + log_rest).sum(-1)

    def inverse(self, x: E, p: Parameters, amount: E, xp: Namespace = NUMPY) -> E:
        return xp.sigmoid(x)

    def score(self, v: Array, p: Parameters, amount: Array, score_v: Array) -> Array:
        # dx/dv = 1 / (v (1 − v)), whose logarithm has the derivative (2 v − 1) / (v (1 − v))
        return v * (1 - v) * score_v - (2 * v - 1)

    def latent_score(self, v: Array, p: Parameters, amount: Array, score_x: Array) -> Array:
        return (score_x + 2 * v - 1) / (v * (1 - v))


MAPS: dict[str, InputMap] = {"f1": Scaled(), "f2": Plain(), "f3": Logit()}
