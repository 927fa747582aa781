"""Jaakkola and Jordan's quadratic bound on log(1 + e^x), in expectation."""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array

SMALL = 1e-4  # t below which a(t) is its series to t²: the next term, t⁴/480, is below rounding


def jaakkola_bound(theta: Array, tau: Array) -> tuple[Array, Array, Array]:
    r"""Upper bound on E[log(1 + e^X)], X ~ N(theta, tau²), at its optimal t, with derivatives.

    .. math:: -\log\sigma(t) + \tfrac12(\vartheta + t), \qquad t^2 = \vartheta^2 + \tau^2

    Returns the bound, its slope in ϑ and its curvature a(t) = (σ(t) − ½)/t = 2 ∂/∂τ², each (n,).

    References
    ----------
    Jaakkola & Jordan (2000), doi:10.1023/A:1008932416310.
    """
    t = np.hypot(theta, tau)
    small = t < SMALL
    safe = np.where(small, 1.0, t)
    a = np.where(small, 0.25 - t**2 / 48, np.tanh(safe / 2) / (2 * safe))
    return np.logaddexp(0, -t) + 0.5 * (theta + t), 0.5 + a * theta, a
