"""Label switching: means of a mixture with data, which any relabelling leaves as likely."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["MixtureMeans"]


class MixtureMeans(ZooDensity):
    r"""μ of y_i ~ Σ_k w_k N(μ_k, 1), μ_k ~ N(0, s²).

    .. math:: \log\tilde p = \sum_i \log \sum_k w_k e^{-(y_i - \mu_k)^2/2} - |\mu|^2 / 2 s^2.

    Exact: given who belongs to which group, each mean is Gaussian, and Kⁿ allocations can be
    enumerated. A mode is an order of the means.

    Parameters
    ----------
    y
        Data, (n,); few, as the Kⁿ allocations are held.
    weights
        w (K,).
    prior
        s.
    """

    def __init__(self, y: Sequence[float], weights: Sequence[float], prior: float = 5.0) -> None:
        self.y, self.prior = np.asarray(y, float), prior
        self.log_weights = np.log(np.asarray(weights) / np.sum(weights))
        self.dimension = K = len(weights)
        self._orders = {order: i for i, order in enumerate(permutations(range(K)))}
        self.modes = len(self._orders)
        groups = np.array(list(product(range(K), repeat=len(self.y))))  # (Kⁿ, n)
        member = groups[:, :, None] == np.arange(K)  # (Kⁿ, n, K)
        count = member.sum(axis=1)
        total = np.einsum("cnk,n->ck", member, self.y)
        self._precision = count + 1 / prior**2
        self._means = total / self._precision
        log_mass = (
            count @ self.log_weights
            - 0.5 * (self.y**2).sum()
            + 0.5 * (total**2 / self._precision + np.log(2 * np.pi / self._precision)).sum(axis=1)
        )
        self.log_z = float(logsumexp(log_mass))
        self._mass = np.exp(log_mass - self.log_z)

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        apart = self.y[None, :, None] - theta[:, None]  # (N, n, K)
        parts = self.log_weights - 0.5 * apart**2
        each = logsumexp(parts, axis=2)
        share = np.exp(parts - each[..., None])
        lp = each.sum(axis=1) - 0.5 * (theta**2).sum(axis=1) / self.prior**2
        return lp, (share * apart).sum(axis=1) - theta / self.prior**2

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        c = rng.choice(len(self._mass), n, p=self._mass / self._mass.sum())
        noise = rng.standard_normal((n, self.dimension))
        return self._means[c] + noise / np.sqrt(self._precision[c])

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        return np.array([self._orders[tuple(order)] for order in np.argsort(theta, axis=1)])
