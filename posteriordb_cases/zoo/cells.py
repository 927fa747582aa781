"""Exact draws of a density of few dimensions that a grid of cells holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array

__all__ = ["Cells", "of_log_sd"]

MOST_OF_CELL = 5.0  # times the density in a cell's middle: 4 sds out, where a cell is .75 sds wide


class Cells:
    """Draws by rejection from cells, chosen by the density in their middles.

    Parameters
    ----------
    axes
        Middles along each coordinate, evenly spaced.
    log_density
        Of coordinates (N,) each -> (N,), up to a constant.

    Attributes
    ----------
    log_integral
        log of the sum over middles times the volume of a cell.
    """

    def __init__(self, axes: Sequence[Array], log_density: Callable[..., Array]) -> None:
        self.axes, self._log_density = tuple(axes), log_density
        given = [a.ravel() for a in np.meshgrid(*self.axes[1:], indexing="ij")]
        value = np.array([log_density(np.full(given[0].shape, u), *given) for u in self.axes[0]])
        total = logsumexp(value)
        steps = sum(np.log(axis[1] - axis[0]) for axis in self.axes)
        self.log_integral = float(total + steps)
        self._log_total, self._shares = float(total), np.exp(value - total).ravel()

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        """``n`` draws of each coordinate, (k, n)."""
        parts: list[Array] = []
        while sum(map(len, parts)) < n:
            parts.append(self._kept(n, rng))
        return np.concatenate(parts)[:n].T

    def _kept(self, n: int, rng: np.random.Generator) -> Array:
        """Those kept of ``n`` that are uniform in cells, (M, k)."""
        shape = [len(axis) for axis in self.axes]
        cell = rng.choice(self._shares.size, size=n, p=self._shares)
        drawn = np.stack(
            [
                axis[i] + (axis[1] - axis[0]) * rng.uniform(-0.5, 0.5, n)
                for axis, i in zip(self.axes, np.unravel_index(cell, shape), strict=True)
            ]
        )
        ratio = np.exp(self._log_density(*drawn) - self._log_total) / self._shares[cell]
        return drawn.T[rng.uniform(size=n) * MOST_OF_CELL < ratio]


def of_log_sd(squares: float, free: int) -> Array:
    """Middles about the log of a residual sd, 4.5 of its sds to both sides, from a sum of squares
    with so many degrees of freedom."""
    spread = 4.5 / np.sqrt(2 * free)
    return np.asarray(0.5 * np.log(squares / free) + np.linspace(-spread, spread, 13))
