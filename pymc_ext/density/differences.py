r"""Second derivatives of a log density from differences of its scores.

.. math:: H_{\cdot i} \approx \frac{8\,[g(\theta + h_i e_i) - g(\theta - h_i e_i)]
          - [g(\theta + 2 h_i e_i) - g(\theta - 2 h_i e_i)]}{12 h_i}

of fourth order: exact for scores that are polynomials of degree four. All 4D points are one call.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.density.protocol import Density
from pymc_ext.maths.types import Array

STEP = float(np.finfo(float).eps ** 0.2)  # of the scale: h⁴ against rounding/h (fourth order)
RESCALE = 10.0  # factor by which a scale may miss the curvature's before the step is taken anew
ROUNDS = 4  # at most so many new scales: each comes from the curvature seen with the last
SHORTER = 0.01  # factor of the scale after an estimate that is not finite
LONGEST = 1e3  # of a scale, in max(1, |θ|): where log p̃ is flat far out, its curvature says nothing
ROUGH = 0.1  # difference of the two second-order estimates, relative, that no smooth score has


class DifferenceHessian:
    """Hessians of ``density`` with steps fitted to the curvature found so far.

    Parameters
    ----------
    density
        Anything with scores.
    """

    def __init__(self, density: Density) -> None:
        self.density = density
        self._scale: Array | None = None  # typical length of each coordinate, 1/√|H_ii|
        self.rough: list[int] = []

    def __call__(self, theta: Array) -> Array:
        """∇² log p̃ at θ (D,), symmetrised; NaN where a score is.

        ``rough`` then lists the coordinates along which the score jumps (a kink of log p̃), by the
        disagreement of the estimates with steps h and 2h: these are no derivatives.
        """
        theta = np.asarray(theta, dtype=float)
        scale = np.maximum(1.0, np.abs(theta)) if self._scale is None else self._scale
        longest = LONGEST * np.maximum(1.0, np.abs(theta))
        scale = np.minimum(scale, longest)
        for _ in range(ROUNDS):
            H = self._estimate(theta, scale)
            if not np.isfinite(H).all():  # a step leaves the support, or overflows
                scale = SHORTER * scale
                continue
            found = np.minimum(_scale(H, scale), longest)
            if not np.any((scale > RESCALE * found) | (found > RESCALE * scale)):
                break
            scale = found
        self._scale = scale if np.isfinite(H).all() else None
        return (H + H.T) / 2

    def _estimate(self, theta: Array, scale: Array) -> Array:
        D = len(theta)
        with np.errstate(all="ignore"):
            h = STEP * scale
            h = np.maximum(h, 1e-7 * np.abs(theta))  # θ ± h must differ from θ by many digits
            steps = np.array([-2.0, -1.0, 1.0, 2.0])
            points = theta + steps[:, None, None] * np.diag(h)
            exact = points[:, np.arange(D), np.arange(D)] - theta  # what θ ± h came to in doubles
            _, scores = self.density.log_density_gradient(points.reshape(-1, D))
            g = scores.reshape(4, D, D)
            near = (g[2] - g[1]) / (exact[2] - exact[1])[:, None]
            far = (g[3] - g[0]) / (exact[3] - exact[0])[:, None]
            self.rough = _rough(near, far)
            return (4 * near - far) / 3


def _scale(H: Array, present: Array) -> Array:
    """1/√|H_ii|, where that is a number, and at most a million times the present scale away."""
    with np.errstate(all="ignore"):
        found = 1 / np.sqrt(np.abs(np.diag(H)))
    found = np.where(np.isfinite(found), found, present)
    return np.clip(found, 1e-6 * present, 1e6 * present)


def _rough(near: Array, far: Array) -> list[int]:
    with np.errstate(all="ignore"):
        curvature = np.maximum(np.abs(np.diag(near)), np.finfo(float).tiny)
        length = 1 / np.sqrt(curvature)
        jump = np.abs(near - far) * length[:, None] * length
    return [int(i) for i in np.flatnonzero(np.diag(jump) > ROUGH)]
