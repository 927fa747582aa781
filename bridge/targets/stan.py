"""The target of a compiled Stan program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numpy.typing import NDArray

from bridge.targets.target import Draws, as_points, select
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from stan_models import StanDensity

__all__ = ["StanTarget", "stan_target"]

NEEDED = ("dimension", "parameter_names", "log_density", "log_density_gradient")


def stan_target(density: StanDensity, name: str | None = None) -> StanTarget:
    """Wrap a compiled Stan log density (``StanProgram.density(data)``) as a target.

    Stan drops the constants of a distribution only in ``~`` statements; the density is that of the
    program as `stan_models` compiles it (``propto=False``), Jacobian included.

    Raises
    ------
    TypeError
        ``density`` is no such density, as a program without its data.
    """
    lacking = [attribute for attribute in NEEDED if not hasattr(density, attribute)]
    if lacking:
        raise TypeError(
            "density must be a compiled Stan log density, got "
            f"{type(density).__name__} without {', '.join(lacking)}: write "
            "stan_target(program.density(data)), of program = stan_models.StanProgram(...)"
        )
    return StanTarget(density, name or "stan")


class StanTarget:
    """`Target` of a compiled Stan program; made by `stan_target`."""

    def __init__(self, density: StanDensity, name: str):
        self.name = name
        self.density = density
        self.dimension = int(density.dimension)
        self.parameter_names = tuple(density.parameter_names)

    def log_density(self, theta: Array) -> Array:
        """Log p̃ at unconstrained points, (N, D) -> (N,)."""
        return self.density.log_density(as_points(theta, self.dimension))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """Log p̃ and its gradient at unconstrained points, (N, D) -> (N,), (N, D)."""
        return self.density.log_density_gradient(as_points(theta, self.dimension))

    def constrain(self, theta: Array) -> dict[str, NDArray]:
        """Parameters and transformed parameters by name, (N, D) -> (N, *shape) each."""
        return self.density.constrain(as_points(theta, self.dimension), transformed=True)

    def unconstrain(self, draws: Draws) -> Array:
        """Unconstrained points of named draws of the parameters, (N, *shape) each -> (N, D)."""
        return self.density.unconstrain(select(draws, self.parameter_names))
