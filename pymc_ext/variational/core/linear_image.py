"""A fitted q moved by a linear map, as an exchange of labels or a sign moves it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.mixture import Component
from pymc_ext.variational.core.posterior import moment

__all__ = ["LinearImage"]


@dataclass(frozen=True, eq=False)
class LinearImage(ByValue):
    r"""The law of A θ for θ ~ q, :math:`\log q(A^{-1} x) - \log |\det A|`.

    Parameters
    ----------
    q
        Of θ (D,).
    matrix
        A (D, D).

    Raises
    ------
    ValueError
        A has no inverse.
    """

    q: Component
    matrix: Array

    def __post_init__(self) -> None:
        if not np.isfinite(self.log_volume):
            raise ValueError("matrix must have an inverse")

    @property
    def log_volume(self) -> float:
        """log |det A|."""
        return float(np.linalg.slogdet(self.matrix)[1])

    @property
    def dimension(self) -> int:
        """D."""
        return self.q.dimension

    @property
    def latent_dimension(self) -> int:
        """That of q."""
        return self.q.latent_dimension

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws and log q, (N, K) -> (N, D), (N,)."""
        theta, log_q = self.q.forward(z)
        return theta @ self.matrix.T, log_q - self.log_volume

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        return self.q.log_density(np.linalg.solve(self.matrix, theta.T).T) - self.log_volume

    @property
    def mean(self) -> Array:
        """(D,)."""
        return self.matrix @ moment(self.q, "mean")

    @property
    def cov(self) -> Array:
        """(D, D)."""
        return self.matrix @ moment(self.q, "cov") @ self.matrix.T
