"""A funnel, and exact draws of it."""

import numpy as np

from pymc_ext.density import CallableDensity


def funnel(groups: int = 4) -> CallableDensity:
    """log τ ~ N(0, 1), x_i | τ ~ N(0, τ²): given τ a normal, so that Laplace's method is exact."""

    def log_density(t):
        z = t[:, 1:] * np.exp(-t[:, :1])
        return -0.5 * t[:, 0] ** 2 - groups * t[:, 0] - 0.5 * (z**2).sum(axis=1)

    def score(t):
        z = t[:, 1:] * np.exp(-t[:, :1])
        by_scale = (z**2).sum(axis=1) - groups - t[:, 0]
        return np.column_stack([by_scale, -z * np.exp(-t[:, :1])])

    names = ["log_tau", *"abcdefgh"[:groups]]
    return CallableDensity(log_density, score, dimension=1 + groups, names=names)


def draws_of_funnel(count: int = 4000, lowest: float = -np.inf, groups: int = 4) -> np.ndarray:
    """Exact ones, of log τ above ``lowest``."""
    rng = np.random.default_rng(1)
    log_tau = rng.standard_normal(4 * count)
    log_tau = log_tau[log_tau > lowest][:count]
    x = np.exp(log_tau)[:, None] * rng.standard_normal((len(log_tau), groups))
    return np.column_stack([log_tau, x])
