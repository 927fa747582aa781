"""What is left of sums that nearly vanish, for parameters so large that their terms cancel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from pymc_ext.maths.types import Array

SMALL = 0.01  # |u| up to which nine terms of log(1 + u)'s series leave an error below 1e-18
LARGE = 100.0  # from there on four terms of ψ's asymptotic series leave an error below 1e-18


def log1p_rest(u: ArrayLike, log1p: ArrayLike | None = None) -> Array:
    """log(1 + u) − u, (N,) -> (N,).

    Parameters
    ----------
    u
        Above −1, (N,).
    log1p
        log(1 + u), (N,), where it is known better than from u, as next to −1.

    Examples
    --------
    >>> log1p_rest(1e-10).item()  # −u²/2
    -4.9999999996...e-21
    """
    u = np.asarray(u, dtype=float)
    coefficients = [(-1) ** (k + 1) / k for k in range(10, 1, -1)] + [0.0, 0.0]
    series = np.polyval(coefficients, np.clip(u, -SMALL, SMALL))
    direct = (np.log1p(u) if log1p is None else np.asarray(log1p)) - u
    return np.where(abs(u) < SMALL, series, direct)


def digamma_rest(z: ArrayLike, step: ArrayLike) -> Array:
    """ψ(z + step) − ψ(z) − log(1 + step/z), (N,) -> (N,), about step/2z² for large z.

    Parameters
    ----------
    z, step
        Positive, and not negative, each (N,).

    Examples
    --------
    >>> digamma_rest(1e8, 1.0).item()
    4.99999996...e-17
    """
    z, step = np.asarray(z, dtype=float), np.asarray(step, dtype=float)
    after = z + step
    direct = digamma(after) - digamma(z) - np.log1p(step / z)
    # ψ(z) = log z − 1/2z − 1/12z² + 1/120z⁴ − 1/252z⁶ + ...
    leading = step / (2 * z * after) + step * (z + after) / (12 * (z * after) ** 2)
    rest = (after**-4.0 - z**-4.0) / 120 - (after**-6.0 - z**-6.0) / 252
    return np.where(z > LARGE, leading + rest, direct)
