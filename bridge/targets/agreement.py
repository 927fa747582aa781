"""Do two targets state the same posterior? The proof that a PyMC port is its Stan program."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bridge.targets.target import Target
from pymc_ext.maths.types import Array
from pymc_ext.seeds import check_seed

__all__ = ["Agreement", "check_agreement"]


class Agreement(NamedTuple):
    """log p_a - log p_b over random points: its median and the largest deviation from it."""

    constant: float
    deviation: float


def check_agreement(a: Target, b: Target, n: int = 100, random_seed: int = 1) -> Agreement:
    """Compare two targets over random points that have the same parameter values.

    Points of ``a`` are standard normal on R^D; ``b``'s are found through the parameters' names:
    ``theta_b = b.unconstrain(a.constrain(theta_a))``. Two programs of one model agree when

    ``log p_a(theta_a) - log p_b(theta_b) - log|d theta_b / d theta_a|``

    is constant. The last term is zero where both use the same transforms (in any order) and is
    otherwise taken by central differences, which limits the deviation to about 1e-7.

    Returns
    -------
    Agreement
        ``constant`` (0 if both include every constant) and the largest absolute ``deviation``.
    """
    if a.dimension != b.dimension:
        raise ValueError(
            f"cannot compare {a.name} with {b.name}: "
            f"dimensions {a.dimension} and {b.dimension} differ"
        )
    check_seed(random_seed)
    theta = np.random.default_rng(random_seed).standard_normal((n, a.dimension))
    other = b.unconstrain(a.constrain(theta))
    difference = a.log_density(theta) - b.log_density(other) - _log_jacobian(a, b, theta, other)
    if not np.isfinite(difference).all():
        bad = int(np.sum(~np.isfinite(difference)))
        raise ValueError(f"log density of {a.name} or {b.name} not finite at {bad} of {n} points")
    constant = float(np.median(difference))
    return Agreement(constant, float(np.abs(difference - constant).max()))


def _log_jacobian(a: Target, b: Target, theta: Array, other: Array) -> Array:
    """log|d theta_b / d theta_a| of the map through the constrained values, shape (N,)."""
    if np.allclose(np.sort(theta, axis=1), np.sort(other, axis=1), rtol=1e-8, atol=1e-8):
        return np.zeros(len(theta))  # the same coordinates up to their order
    step = np.finfo(float).eps ** (1 / 3)
    shifts = step * np.eye(a.dimension)
    columns = [
        (b.unconstrain(a.constrain(theta + h)) - b.unconstrain(a.constrain(theta - h))) / (2 * step)
        for h in shifts
    ]
    return np.linalg.slogdet(np.stack(columns, axis=-1))[1]
