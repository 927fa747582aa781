"""What is wrong with a density, said before any fit."""

from __future__ import annotations

import numpy as np

from pymc_ext.density.protocol import Array, Density, coordinate_names


class DensityError(ValueError):
    """A density that no algorithm can work on; the message says what to change."""


def require_density(density: object) -> None:
    """Raise DensityError unless ``density`` has the members of a :class:`Density`."""
    members = ("dimension", "log_density", "log_density_gradient")
    missing = [name for name in members if not hasattr(density, name)]
    if not missing:
        return
    advice = f"add {', '.join(missing)}"
    if callable(density):
        advice = "wrap a function with its gradient in px.CallableDensity(f, gradient, dimension=D)"
    raise DensityError(
        f"expected a density, with dimension, log_density and log_density_gradient, got "
        f"{type(density).__name__} without {', '.join(missing)}: {advice}; posteriors may also be "
        "a pm.Model, a StanProgram or a Stan file where these are taken"
    )


def require_usable(density: Density, start: Array) -> None:
    """Raise DensityError unless log p̃ and its score have their shapes and are finite at ``start``.

    Parameters
    ----------
    density
        Any :class:`Density`.
    start
        Unconstrained point, shape (D,).
    """
    require_density(density)
    D = density.dimension
    start = np.asarray(start, dtype=float)
    if start.shape != (D,):
        raise DensityError(f"start must have shape ({D},), got {start.shape}")
    if not np.isfinite(start).all():
        raise DensityError(f"start must be finite, got {start}")
    rows = np.stack([start, start])
    with np.errstate(all="ignore"):
        found = density.log_density_gradient(rows)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise DensityError(
            "log_density_gradient must return the pair (log p̃ (N,), gradient (N, D)), got "
            f"{type(found).__name__}"
        )
    lp, gradient = (np.asarray(part) for part in found)
    if lp.shape != (2,) or gradient.shape != (2, D):
        raise DensityError(
            f"at points of shape (2, {D}) log_density_gradient must return shapes (2,) and "
            f"(2, {D}), got {lp.shape} and {gradient.shape}: one row a point"
        )
    if not np.isfinite(lp[0]):
        raise DensityError(
            f"the log density is {lp[0]} at the start {start}: give start= a point where it is "
            "finite"
        )
    if not np.isfinite(gradient[0]).all():
        bad = [n for n, g in zip(coordinate_names(density), gradient[0], strict=True)
               if not np.isfinite(g)]  # fmt: skip
        raise DensityError(
            f"the gradient at the start is not finite with respect to {', '.join(bad[:10])}: "
            "gradient-based methods cannot run on this density; give another start"
        )
