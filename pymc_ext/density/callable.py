"""A density from the user's own functions, NumPy or JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from pymc_ext.density.check import DensityError
from pymc_ext.density.counted import Clock
from pymc_ext.maths.types import Array


class CallableDensity:
    r"""log p̃ from a Python function, with its gradient from another, or from JAX.

    Parameters
    ----------
    log_density
        Unconstrained points (N, D) -> log p̃ (N,), unnormalised; with ``jax=True`` one point (D,) ->
        scalar, of ``jax.numpy`` operations.
    gradient
        (N, D) -> ∇ log p̃ (N, D). Needed unless ``jax=True``.
    dimension
        D.
    jax
        Whether ``log_density`` is a JAX function: it is differentiated, vectorised over rows and
        compiled (extra ``jax``), in double precision.
    names
        Names of the D coordinates, for messages.

    Raises
    ------
    DensityError
        No gradient; the names or the dimension do not fit; from use, outputs of the wrong shape.

    Examples
    --------
    >>> density = CallableDensity(lambda x: -(x**4).sum(1), lambda x: -4 * x**3, dimension=1)
    >>> density.log_density(np.array([[1.0], [2.0]]))
    array([ -1., -16.])
    """

    def __init__(
        self,
        log_density: Callable[[Array], Array],
        gradient: Callable[[Array], Array] | None = None,
        *,
        dimension: int,
        jax: bool = False,
        names: Sequence[str] | None = None,
    ) -> None:
        for label, function in (("log_density", log_density), ("gradient", gradient)):
            if not (callable(function) or (label == "gradient" and function is None)):
                raise DensityError(
                    f"{label} must be a function of points (N, D), got {type(function).__name__} "
                    f"{function!r}"
                )
        if isinstance(dimension, bool) or not isinstance(dimension, int | np.integer):
            raise DensityError(f"dimension must be an integer >= 1, got {dimension!r}")
        if dimension < 1:
            raise DensityError(f"dimension must be an integer >= 1, got {dimension}")
        if gradient is None and not jax:
            raise DensityError(
                "a density needs its gradient: give gradient=, or write log_density with jax.numpy "
                "for one point and give jax=True"
            )
        if names is not None and len(names) != dimension:
            raise DensityError(f"names must be {dimension} texts, got {len(names)}")
        if names is not None and len(set(names)) < len(names):
            twice = sorted(name for name in set(names) if list(names).count(name) > 1)
            raise DensityError(f"names must differ, got {twice} more than once")
        self.dimension = int(dimension)
        self.unconstrained_names = None if names is None else list(names)
        self.clock = Clock()  # of what JAX compiles
        self.jax_function = log_density if jax else None  # of one point, for who works in JAX
        if jax:
            self._value, self._both = _jax_rows(log_density, self.dimension, self.clock)
        else:
            self._value = log_density
            self._both = lambda theta: (log_density(theta), gradient(theta))  # type: ignore[misc]

    def log_density(self, theta: Array) -> Array:
        """log p̃, (N, D) -> (N,)."""
        return self._checked(self._value(theta), (len(theta),), "log_density")

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """log p̃ and its gradient, (N, D) -> (N,), (N, D)."""
        lp, gradient = self._both(theta)
        return (
            self._checked(lp, (len(theta),), "log_density"),
            self._checked(gradient, (len(theta), self.dimension), "gradient"),
        )

    def _checked(self, value: Array, shape: tuple[int, ...], label: str) -> Array:
        value = np.asarray(value, dtype=float)
        if value.shape != shape:
            raise DensityError(
                f"{label} of points with shape ({shape[0]}, {self.dimension}) must have shape "
                f"{shape}, got {value.shape}: one row a point"
            )
        return value


def _jax_rows(
    function: Callable[[Array], Array], dimension: int, clock: Clock
) -> tuple[Callable[[Array], Array], Callable[[Array], tuple[Array, Array]]]:
    """Value, and value with gradient, over rows, compiled by JAX."""
    if find_spec("jax") is None:
        raise ImportError("jax=True needs JAX: pip install 'trusted-posteriors[jax]'")
    import jax

    jax.config.update("jax_enable_x64", True)  # log densities of data need double precision
    point = jax.ShapeDtypeStruct((dimension,), np.float64)
    try:
        found = jax.eval_shape(function, point)
    except (TypeError, ValueError, IndexError) as error:
        raise DensityError(
            f"log_density does not work on one point of shape ({dimension},) of jax.numpy: {error}"
        ) from error
    if getattr(found, "shape", None) != ():
        raise DensityError(
            f"with jax=True log_density of one point ({dimension},) must be a scalar, got "
            f"{getattr(found, 'shape', type(found).__name__)}: rows are made of it by themselves"
        )
    value = _by_shape(jax.jit(jax.vmap(function)), clock)
    both = _by_shape(jax.jit(jax.vmap(jax.value_and_grad(function))), clock)
    return (
        lambda theta: np.asarray(value(theta)),
        lambda theta: tuple(np.asarray(part) for part in both(theta)),  # type: ignore[return-value]
    )


def _by_shape(jitted: Any, clock: Clock) -> Callable[[Array], Any]:
    """A jitted function, compiled on ``clock`` for each number of rows when that first occurs."""
    made: dict[tuple[int, ...], Callable[[Array], Any]] = {}

    def call(theta: Array) -> Any:
        rows = np.asarray(theta, dtype=float)
        if rows.shape not in made:
            with clock.compiling():
                made[rows.shape] = jitted.lower(rows).compile()
        return made[rows.shape](rows)

    return call
