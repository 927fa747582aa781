"""Maps from a flow's y onto θ, which are a fitted base: then the flow is near the identity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array

Places = NDArray[np.integer]
ScoreMap = Callable[[Array], Array]


class FlowBase(Protocol):
    """θ = B(y), increasing and triangular in the order in which the flow conditions."""

    @property
    def order(self) -> Places:
        """Coordinate of θ at each place, (D,)."""

    def forward(self, y: Array) -> tuple[Array, Array]:
        """θ and log|det ∂θ/∂y|, (N, D) -> (N, D), (N,)."""

    def forward_with_pullback(self, y: Array) -> tuple[Array, Array, ScoreMap]:
        """Both, and the score in y of log p̃(B(y)) + log|det ∂θ/∂y| as a function of that in θ."""

    def inverse(self, theta: Array) -> Array:
        """y with B(y) = θ, (N, D)."""


@dataclass(frozen=True, eq=False)
class Affine(ByValue):
    """θ[order] = μ + L y.

    Parameters
    ----------
    order
        Coordinate of θ at each place, (D,).
    center
        μ, in that order, (D,).
    factor
        L, lower triangular, in that order; None is the identity.
    """

    order: Places
    center: Array
    factor: Array | None = None

    @classmethod
    def of(cls, order: Places, mean: Array, cov: Array) -> Affine:
        """That makes N(mean (D,), cov (D, D)) of N(0, I)."""
        mean, cov = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
        return cls(order, mean[order], np.linalg.cholesky(cov[np.ix_(order, order)]))

    @property
    def log_det(self) -> float:
        """log|det L|."""
        return 0.0 if self.factor is None else float(np.log(np.diag(self.factor)).sum())

    def forward(self, y: Array) -> tuple[Array, Array]:
        theta = np.empty_like(y)
        theta[:, self.order] = self.center + (y if self.factor is None else y @ self.factor.T)
        return theta, np.full(len(y), self.log_det)

    def forward_with_pullback(self, y: Array) -> tuple[Array, Array, ScoreMap]:
        return *self.forward(y), self._pullback

    def _pullback(self, score: Array) -> Array:
        own = score[:, self.order]
        return own if self.factor is None else own @ self.factor

    def inverse(self, theta: Array) -> Array:
        y = theta[:, self.order] - self.center
        if self.factor is not None:
            y = solve_triangular(self.factor, y.T, lower=True).T
        return y


@runtime_checkable
class OrderedMap(Protocol):
    """A map of normals with an order of its own: of a hierarchy, or of a field."""

    @property
    def dimension(self) -> int: ...

    @property
    def latent_dimension(self) -> int: ...

    @property
    def order(self) -> Places: ...

    def forward(self, z: Array) -> tuple[Array, Array]: ...

    def forward_with_pullback(self, z: Array) -> tuple[Array, Array, ScoreMap]: ...

    def inverse(self, theta: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class Hierarchy(ByValue):
    """θ = T(y) with the map T of :class:`~pymc_ext.HierarchicalVI`."""

    map: OrderedMap

    @property
    def order(self) -> Places:
        return self.map.order

    def forward(self, y: Array) -> tuple[Array, Array]:
        theta, log_q = self.map.forward(y)
        return theta, standard_normal_logp(y) - log_q

    def forward_with_pullback(self, y: Array) -> tuple[Array, Array, ScoreMap]:
        theta, log_q, pullback = self.map.forward_with_pullback(y)
        return theta, standard_normal_logp(y) - log_q, pullback

    def inverse(self, theta: Array) -> Array:
        return self.map.inverse(theta)
