"""The target of any density, and where fits of it start: points are what they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bridge.targets.target import Draws, as_points, select
from pymc_ext.density import Density, require_usable
from pymc_ext.density.check import DensityError, UndefinedStartError
from pymc_ext.maths.types import Array

__all__ = ["DensityTarget", "density_start"]


class DensityTarget:
    """`Target` of a density: a variable for each of its names, or ``theta`` where it has none."""

    name = "density"

    def __init__(self, density: Density) -> None:
        self.density = density
        self.dimension = int(density.dimension)
        names = getattr(density, "unconstrained_names", None)
        self._single = names is None
        self.parameter_names = ("theta",) if names is None else tuple(names)

    def log_density(self, theta: Array) -> Array:
        """Log p̃, (N, D) -> (N,)."""
        return self.density.log_density(as_points(theta, self.dimension))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """Log p̃ and its gradient, (N, D) -> (N,), (N, D)."""
        return self.density.log_density_gradient(as_points(theta, self.dimension))

    def constrain(self, theta: Array) -> dict[str, NDArray]:
        """The points by name: (N, D) -> (N,) each, or ``theta`` (N, D)."""
        theta = as_points(theta, self.dimension)
        if self._single:
            return {"theta": theta}
        return {name: theta[:, i] for i, name in enumerate(self.parameter_names)}

    def unconstrain(self, draws: Draws) -> Array:
        """Inverse of `constrain`, -> (N, D)."""
        values = select(draws, self.parameter_names)
        if self._single:
            return values["theta"]
        return np.stack([values[name] for name in self.parameter_names], axis=1)


def density_start(density: Density) -> Array:
    """The origin; where log p̃ has no value there a random point, as of Stan's own starts.

    Raises
    ------
    DensityError
        It is finite at none of them.
    """
    origin = np.zeros(density.dimension)
    try:
        require_usable(density, origin)
        return origin
    except UndefinedStartError as error:
        from pymc_ext.sampling.options import START_RADIUS, START_TRIES

        shape = START_TRIES, len(origin)
        points = np.random.default_rng(0).uniform(-START_RADIUS, START_RADIUS, shape)
        with np.errstate(all="ignore"):
            lp, score = density.log_density_gradient(points)
        usable = np.flatnonzero(np.isfinite(lp) & np.isfinite(score).all(axis=1))
        if len(usable):
            return points[usable[0]]
        raise DensityError(
            "log p̃ and its score are finite neither at the origin nor at any of "
            f"{START_TRIES} points of (−{START_RADIUS:g}, {START_RADIUS:g})^{len(origin)}: "
            "move and scale the coordinates so that typical values are of order 1, and let "
            "log p̃ be defined on all of R^D, as by logarithms of what is positive"
        ) from error
