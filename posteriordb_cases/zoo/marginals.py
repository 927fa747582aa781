"""Independent coordinates of one law, skewed, kinked, with heavy or light tails, mixed linearly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import gammaln

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["Laplace", "LogGamma", "Logistic", "Mixed", "Power", "StudentT"]


class Law(Protocol):
    """A law on R, unnormalised."""

    @property
    def log_z(self) -> float: ...
    def value_and_score(self, u: Array) -> tuple[Array, Array]: ...
    def draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array: ...


@dataclass(frozen=True)
class LogGamma:
    """log of a Gamma(shape, 1) variable: skewed to the left, more so the smaller its shape."""

    shape: float

    @property
    def log_z(self) -> float:
        return float(gammaln(self.shape))

    def value_and_score(self, u: Array) -> tuple[Array, Array]:
        return self.shape * u - np.exp(u), self.shape - np.exp(u)

    def draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        # log Gamma(a) = log Gamma(a + 1) + log(U) / a, which does not underflow
        return np.log(rng.gamma(self.shape + 1, size=shape)) - rng.exponential(
            1 / self.shape, shape
        )


@dataclass(frozen=True)
class StudentT:
    """Student's t; df = 1 is Cauchy's law."""

    df: float

    @property
    def log_z(self) -> float:
        half = 0.5 * self.df
        return float(gammaln(half) - gammaln(half + 0.5) + 0.5 * np.log(self.df * np.pi))

    def value_and_score(self, u: Array) -> tuple[Array, Array]:
        scaled = u**2 / self.df
        return -0.5 * (self.df + 1) * np.log1p(scaled), -(self.df + 1) * u / self.df / (1 + scaled)

    def draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.standard_t(self.df, shape)


@dataclass(frozen=True)
class Laplace:
    """e^{−|u|}, with a kink at the mode."""

    log_z = float(np.log(2))

    def value_and_score(self, u: Array) -> tuple[Array, Array]:
        return -np.abs(u), -np.sign(u)

    def draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.laplace(size=shape)


@dataclass(frozen=True)
class Power:
    """e^{−|u|^p}: nearly a box for large p."""

    p: float

    @property
    def log_z(self) -> float:
        return float(np.log(2) + gammaln(1 + 1 / self.p))

    def value_and_score(self, u: Array) -> tuple[Array, Array]:
        return -(np.abs(u) ** self.p), -self.p * np.sign(u) * np.abs(u) ** (self.p - 1)

    def draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.gamma(1 / self.p, size=shape) ** (1 / self.p) * rng.choice([-1, 1], shape)


@dataclass(frozen=True)
class Logistic:
    """e^{−u} / (1 + e^{−u})²: tails of an exponential law, without a kink."""

    log_z = 0.0

    def value_and_score(self, u: Array) -> tuple[Array, Array]:
        return -u - 2 * np.logaddexp(0, -u), -np.tanh(u / 2)

    def draws(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        return rng.logistic(size=shape)


class Mixed(ZooDensity):
    """θ = m + A u, u_i independent of one law; A has a unit diagonal and ρ below it.

    Parameters
    ----------
    law
        Of each u_i.
    dimension, correlation, shift
        D, ρ and m, the same for every coordinate.
    heavy
        Whether the law has no fourth moment.
    """

    def __init__(
        self,
        law: Law,
        dimension: int,
        correlation: float = 0.0,
        shift: float = 0.0,
        heavy: bool = False,
    ) -> None:
        self.law, self.dimension, self.shift, self.heavy = law, dimension, shift, heavy
        self.mixing = np.eye(dimension) + correlation * np.eye(dimension, k=-1)
        self.inverse = np.linalg.inv(self.mixing)
        self.log_z = dimension * law.log_z

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        value, score = self.law.value_and_score((theta - self.shift) @ self.inverse.T)
        return value.sum(axis=1), score @ self.inverse

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        return self.shift + self.law.draws((n, self.dimension), rng) @ self.mixing.T
