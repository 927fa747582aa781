"""The target of any density: points are what they are, unconstrained."""

from __future__ import annotations

import numpy as np

from bridge.targets.target import Draws, as_points, select
from pymc_ext.density import Density

__all__ = ["DensityTarget"]


class DensityTarget:
    """`Target` of a density: a variable for each of its names, or ``theta`` where it has none."""

    name = "density"

    def __init__(self, density: Density) -> None:
        self.density = density
        self.dimension = int(density.dimension)
        names = getattr(density, "unconstrained_names", None)
        self._single = names is None
        self.parameter_names = ("theta",) if names is None else tuple(names)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Log p̃, (N, D) -> (N,)."""
        return self.density.log_density(as_points(theta, self.dimension))

    def log_density_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log p̃ and its gradient, (N, D) -> (N,), (N, D)."""
        return self.density.log_density_gradient(as_points(theta, self.dimension))

    def constrain(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """The points by name: (N, D) -> (N,) each, or ``theta`` (N, D)."""
        theta = as_points(theta, self.dimension)
        if self._single:
            return {"theta": theta}
        return {name: theta[:, i] for i, name in enumerate(self.parameter_names)}

    def unconstrain(self, draws: Draws) -> np.ndarray:
        """Inverse of `constrain`, -> (N, D)."""
        values = select(draws, self.parameter_names)
        if self._single:
            return values["theta"]
        return np.stack([values[name] for name in self.parameter_names], axis=1)
