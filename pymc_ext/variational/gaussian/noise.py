"""What is free in the scale of a Gaussian family: the matrix A of θ = μ₀ + C(m + A z).

In coordinates whitened by a base N(μ₀, CCᵀ), m and A are near 0 and I whatever the units of θ,
which is what a quasi-Newton method wants. One class a form of A (Table I of Gianniotis); its free
numbers are one flat vector p (P,). Rows are vectors: z, x, g (N, D).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from scipy.linalg import solve_triangular, svd

from pymc_ext.maths import lowrank
from pymc_ext.maths.types import Array


class Noise(ABC):
    """A(p), near I; ``size`` is P, and ``ranked`` says whether A has a rank."""

    size: int
    ranked: ClassVar[bool] = False

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension

    @classmethod
    def of(cls, dimension: int, rank: int) -> Noise:
        """That of D dimensions, and of a rank where there are several."""
        return cls(dimension)

    def initial(self) -> Array:
        """p at which A = I."""
        return np.zeros(self.size)

    def root(self, factor: Array, inverse: Array) -> tuple[Array, Array]:
        """The C of CCᵀ, given one with its inverse, that suits the form of A, and C⁻¹."""
        return factor, inverse

    @abstractmethod
    def apply(self, p: Array, z: Array) -> Array:
        """A z, row by row."""

    @abstractmethod
    def solve(self, p: Array, x: Array) -> Array:
        """A⁻¹ x, row by row."""

    @abstractmethod
    def solve_transposed(self, p: Array, x: Array) -> Array:
        """A⁻ᵀ x, row by row."""

    @abstractmethod
    def log_det(self, p: Array) -> float:
        """log|det A|."""

    @abstractmethod
    def log_det_gradient(self, p: Array) -> Array:
        """Its gradient, (P,)."""

    @abstractmethod
    def pullback(self, p: Array, g: Array, z: Array) -> Array:
        """∂/∂p of Σ_n g_nᵀ A z_n, (P,)."""


class NoNoise(Noise):
    """A = I: only the mean moves (MVI-μ, eq. 8; and Laplace)."""

    size = 0

    def apply(self, p: Array, z: Array) -> Array:
        return z

    def solve(self, p: Array, x: Array) -> Array:
        return x

    solve_transposed = solve

    def log_det(self, p: Array) -> float:
        return 0.0

    def log_det_gradient(self, p: Array) -> Array:
        return np.empty(0)

    def pullback(self, p: Array, g: Array, z: Array) -> Array:
        return np.empty(0)


class Scales(Noise):
    """A = diag(e^p): with C = Q diag(r_LA) this is MVI-eig, r = r_LA e^p (eq. 10)."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self.size = dimension

    def root(self, factor: Array, inverse: Array) -> tuple[Array, Array]:
        return eigen_root(factor)

    def apply(self, p: Array, z: Array) -> Array:
        return z * np.exp(p)

    def solve(self, p: Array, x: Array) -> Array:
        return x * np.exp(-p)

    solve_transposed = solve

    def log_det(self, p: Array) -> float:
        return float(p.sum())

    def log_det_gradient(self, p: Array) -> Array:
        return np.ones_like(p)

    def pullback(self, p: Array, g: Array, z: Array) -> Array:
        return (g * z).sum(axis=0) * np.exp(p)


class LowRank(Noise):
    """A = I + u vᵀ, u and v (D, r), p = (u, v): MVI-lr with U = C u, V = v (eq. 11)."""

    ranked: ClassVar[bool] = True

    def __init__(self, dimension: int, rank: int = 1) -> None:
        super().__init__(dimension)
        check_rank(rank, dimension)
        self.rank, self.size = rank, 2 * dimension * rank

    @classmethod
    def of(cls, dimension: int, rank: int) -> LowRank:
        return cls(dimension, rank)

    def factors(self, p: Array) -> tuple[Array, Array]:
        """u and v, (D, r) each."""
        u, v = p.reshape(2, self.dimension, self.rank)
        return u, v

    def apply(self, p: Array, z: Array) -> Array:
        return lowrank.multiply(z, *self.factors(p))

    def solve(self, p: Array, x: Array) -> Array:
        return lowrank.solve(x, *self.factors(p))

    def solve_transposed(self, p: Array, x: Array) -> Array:
        u, v = self.factors(p)
        return lowrank.solve(x, v, u)

    def log_det(self, p: Array) -> float:
        return float(lowrank.log_abs_det(*self.factors(p)))

    def log_det_gradient(self, p: Array) -> Array:
        u, v = self.factors(p)  # log|det S| with S = I + vᵀu
        inverse = np.linalg.inv(lowrank.capacitance(u, v))
        return np.concatenate([(v @ inverse.T).ravel(), (u @ inverse).ravel()])

    def pullback(self, p: Array, g: Array, z: Array) -> Array:
        u, v = self.factors(p)
        return np.concatenate([(g.T @ (z @ v)).ravel(), (z.T @ (g @ u)).ravel()])


class Triangle(Noise):
    """A lower triangular with diagonal e^(·), p its entries by row: every Gaussian."""

    def __init__(self, dimension: int) -> None:
        super().__init__(dimension)
        self._rows, self._columns = np.tril_indices(dimension)
        self._on_diagonal = self._rows == self._columns
        self.size = len(self._rows)

    def matrix(self, p: Array) -> Array:
        """A, (D, D)."""
        A = np.zeros((self.dimension, self.dimension))
        A[self._rows, self._columns] = np.where(self._on_diagonal, np.exp(p), p)
        return A

    def apply(self, p: Array, z: Array) -> Array:
        return z @ self.matrix(p).T

    def solve(self, p: Array, x: Array) -> Array:
        return solve_triangular(self.matrix(p), x.T, lower=True).T

    def solve_transposed(self, p: Array, x: Array) -> Array:
        return solve_triangular(self.matrix(p), x.T, lower=True, trans="T").T

    def log_det(self, p: Array) -> float:
        return float(p[self._on_diagonal].sum())

    def log_det_gradient(self, p: Array) -> Array:
        return self._on_diagonal.astype(float)

    def pullback(self, p: Array, g: Array, z: Array) -> Array:
        by_entry = (g.T @ z)[self._rows, self._columns]
        return np.where(self._on_diagonal, by_entry * np.exp(p), by_entry)


def eigen_root(factor: Array) -> tuple[Array, Array]:
    """Q diag(r) and its inverse for Σ = CCᵀ = Q diag(r²)Qᵀ (eq. 9)."""
    Q, r, _ = svd(factor)  # not from Σ itself: that would square the condition number
    return Q * r, Q.T / r[:, None]


def check_rank(rank: int, dim: int) -> None:
    """Raise ValueError unless 1 <= rank <= dim."""
    if not isinstance(rank, int | np.integer) or not 1 <= rank <= dim:
        raise ValueError(f"rank must be between 1 and the dimension {dim}, got {rank}")
