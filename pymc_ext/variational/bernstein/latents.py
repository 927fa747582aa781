"""Laws of the flow's latent variables, made from standard normals so that every draw is seeded.

``xp`` is where functions come from: ``NUMPY``, or ``pytensor.tensor`` for graphs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, ndtr, ndtri, stdtrit

from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace
from pymc_ext.maths.normal import LOG_2PI
from pymc_ext.maths.types import Array


def _log_ndtr(z: Elementwise, xp: Namespace) -> Elementwise:
    # |z| < 37 always holds for a normal draw, and erfc is relatively exact there
    return xp.log(0.5 * xp.erfc(-z / np.sqrt(2.0)))


class Latent(ABC):
    """A law on R (or an interval) of independent latent variables."""

    normals: ClassVar[int] = 1  # standard normals behind one latent variable

    @abstractmethod
    def draw(self, z: Elementwise, dim: int, xp: Namespace = NUMPY) -> Elementwise:
        """Latent variables (N, dim) from normals (N, normals * dim)."""

    @abstractmethod
    def log_density(self, v: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        """Elementwise normalised log density, (N, dim) -> (N, dim)."""

    @abstractmethod
    def score(self, v: Array) -> Array:
        """Elementwise derivative of :meth:`log_density`, in numbers, (N, dim) -> (N, dim)."""

    @abstractmethod
    def normal_of(self, v: Array) -> Array:
        """z with ``draw(z) = v``, elementwise (N, dim), where one normal is behind one variable."""

    def pullback(self, z: Array, v: Array, score: Array) -> Array:
        """Score in z of log p(v(z)) + log|dv/dz| from that of log p in v, where z is of v's size.

        dv/dz = φ(z) / f(v) with f the density of this law. Elementwise: all are (N, dim).
        """
        slope = np.exp(-0.5 * z**2 - 0.5 * LOG_2PI - self.log_density(v))
        return (score - self.score(v)) * slope - z


@dataclass(frozen=True)
class Normal(Latent):
    """N(0, 1), the paper's."""

    def draw(self, z: Elementwise, dim: int, xp: Namespace = NUMPY) -> Elementwise:
        return z

    def log_density(self, v: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        return -0.5 * v**2 - 0.5 * LOG_2PI

    def score(self, v: Array) -> Array:
        return -v

    def normal_of(self, v: Array) -> Array:
        return v

    def pullback(self, z: Array, v: Array, score: Array) -> Array:
        return score


@dataclass(frozen=True)
class Logistic(Latent):
    """Logistic with unit variance: exponential tails."""

    @property
    def scale(self) -> float:
        """Of the standard logistic, at which the variance is 1."""
        return float(np.sqrt(3) / np.pi)

    def draw(self, z: Elementwise, dim: int, xp: Namespace = NUMPY) -> Elementwise:
        return self.scale * (_log_ndtr(z, xp) - _log_ndtr(-z, xp))

    def log_density(self, v: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        x = v / self.scale
        return -xp.softplus(x) - xp.softplus(-x) - np.log(self.scale)

    def score(self, v: Array) -> Array:
        return -np.tanh(0.5 * v / self.scale) / self.scale

    def normal_of(self, v: Array) -> Array:
        # in the left tail, where the distribution function is relatively exact
        return -np.sign(v) * ndtri(NUMPY.sigmoid(-np.abs(v) / self.scale))


@dataclass(frozen=True)
class StudentT(Latent):
    """Student-t with ``df`` degrees of freedom, scaled to the quartiles of N(0, 1)."""

    df: float = 5.0
    normals: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not self.df > 0:
            raise ValueError(f"df must be > 0, got {self.df}")

    @property
    def scale(self) -> float:
        """Of the standard Student-t, at which the quartiles are a normal's."""
        return float(0.6744897501960817 / stdtrit(self.df, 0.75))

    def draw(self, z: Elementwise, dim: int, xp: Namespace = NUMPY) -> Elementwise:
        """Bailey (1994), doi:10.1090/S0025-5718-1994-1219702-8, polar method; z = 0 gives 0."""
        log_radius, angle = _log_ndtr(z[:, :dim], xp), 0.5 * xp.erfc(-z[:, dim:] / np.sqrt(2.0))
        radius = xp.sqrt(self.df * xp.expm1(-2 / self.df * log_radius))
        return self.scale * radius * xp.sin(2 * np.pi * (angle - 0.5))

    def log_density(self, v: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        half = 0.5 * (self.df + 1)
        constant = gammaln(half) - gammaln(self.df / 2) - 0.5 * np.log(self.df * np.pi)
        return constant - np.log(self.scale) - half * xp.log1p((v / self.scale) ** 2 / self.df)

    def score(self, v: Array) -> Array:
        return -(self.df + 1) * v / (self.df * self.scale**2 + v**2)

    def normal_of(self, v: Array) -> Array:
        """Raises NotImplementedError: two normals are behind one such variable."""
        raise NotImplementedError("two normals are behind one Student-t variable")


@dataclass(frozen=True)
class TruncatedNormal(Latent):
    """N(0.5, 0.15²) on [1e-4, 1 - 1e-4]: the input of f3 (appendix B-B2)."""

    mean: float = 0.5
    sd: float = 0.15
    margin: float = 1e-4

    @property
    def mass(self) -> float:
        edge = (self.mean - self.margin) / self.sd
        return float(ndtr(edge) - ndtr(-edge))

    def draw(self, z: Elementwise, dim: int, xp: Namespace = NUMPY) -> Elementwise:
        # Φ(w) - 1/2 = mass (Φ(z) - 1/2), solved for w
        w = np.sqrt(2.0) * xp.erfinv(self.mass * xp.erf(z / np.sqrt(2.0)))
        return self.mean + self.sd * w

    def log_density(self, v: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
        w = (v - self.mean) / self.sd
        return -0.5 * w**2 - 0.5 * LOG_2PI - np.log(self.sd * self.mass)

    def score(self, v: Array) -> Array:
        return (self.mean - v) / self.sd**2

    def normal_of(self, v: Array) -> Array:
        w = (v - self.mean) / self.sd
        return ndtri(0.5 + (ndtr(w) - 0.5) / self.mass)


LATENTS: dict[str, Latent] = {
    "normal": Normal(),
    "logistic": Logistic(),
    "student-t": StudentT(),
}


def resolve_latent(latent: str | Latent) -> Latent:
    """The law named, or the law itself; ValueError otherwise."""
    if isinstance(latent, Latent):
        return latent
    if not isinstance(latent, str) or latent not in LATENTS:
        raise ValueError(
            f"latent must be one of {tuple(LATENTS)} or a law such as StudentT(df=3), "
            f"got {latent!r}"
        )
    return LATENTS[latent]
