"""What is wrong with a density, said before any fit."""

from __future__ import annotations

import numpy as np

from pymc_ext.density.protocol import Density, coordinate_names
from pymc_ext.maths.types import Array


class DensityError(ValueError):
    """A density that no algorithm can work on; the message says what to change."""


class NoGradientError(DensityError):
    """A density that cannot be differentiated as often as asked; the message names what cannot."""


class UndefinedStartError(DensityError):
    """log p̃ or its score is not finite at the start."""


class NotEvaluatedError(DensityError):
    """A model that PyTensor cannot evaluate; the message has the first line of what it said."""

    def __init__(self, error: Exception) -> None:
        said = str(error).partition("\n")[0]
        super().__init__(
            f"the model's log density cannot be evaluated: {said}; expected indices below the "
            "length of what they index, from 0 on, and shapes that agree: correct the model or its "
            "data"
        )


def require_density(density: object) -> None:
    """Raise DensityError unless ``density`` has the members of a :class:`Density`."""
    members = ("dimension", "log_density", "log_density_gradient")
    missing = [name for name in members if not hasattr(density, name)]
    if not missing:
        return
    if callable(density):
        raise DensityError(
            f"expected a posterior (a pm.Model, a StanProgram or a Stan file, where these are "
            f"taken) or a density, got {getattr(density, '__name__', density)}, which can be "
            "called and no more: wrap a function with its gradient in px.CallableDensity(f, "
            "gradient, dimension=D), or a function of JAX in px.CallableDensity(f, dimension=D, "
            "jax=True)"
        )
    raise DensityError(
        f"expected a density, with dimension, log_density and log_density_gradient, got "
        f"{type(density).__name__} without {', '.join(missing)}: add "
        f"{', '.join(missing)}; posteriors may also be a pm.Model, a StanProgram or "
        "a Stan file where these are taken"
    )


def require_usable(density: Density, start: Array) -> None:
    """Raise DensityError unless log p̃ and its score have their shapes and are finite at ``start``,
    UndefinedStartError where they are not finite.

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
        raise UndefinedStartError(
            f"the log density is {lp[0]} at the start {start}: give start= a point where it is "
            "finite"
        )
    if not np.isfinite(gradient[0]).all():
        bad = [n for n, g in zip(coordinate_names(density), gradient[0], strict=True)
               if not np.isfinite(g)]  # fmt: skip
        raise UndefinedStartError(
            f"the gradient at the start is not finite with respect to {', '.join(bad[:10])}: "
            "gradient-based methods cannot run on this density; give another start"
        )


# Points around the start, directions and steps of differences: a score is wrong where it disagrees
# at all points and with both steps; kinks, and noise of single precision, are not that.
CHECK_POINTS, CHECK_STEPS, CHECK_TOLERANCE = 4, (1e-3, 1e-5), 0.02
CHECK_FLAT = 1e-6  # of a slope: less is rounding of a log p̃ of order one over a step of 1e-5


def require_scores(density: Density, start: Array) -> None:
    """Raise DensityError where the score is not that of log p̃, by differences near ``start`` (D,).

    Along a random direction u at points around the start, [log p̃(θ + hu) − log p̃(θ − hu)] / 2h is
    compared with the score times u: some twenty values.
    """
    rng = np.random.default_rng(0)
    at = start + 0.5 * rng.standard_normal((CHECK_POINTS, density.dimension))
    u = rng.standard_normal(at.shape)
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        slope = np.sum(density.log_density_gradient(at)[1] * u, axis=1)
        differences = _slopes(density, at, u)
        wrong = np.abs(differences - slope) > CHECK_TOLERANCE * (np.abs(differences) + CHECK_FLAT)
    if np.isfinite(differences).all() and np.isfinite(slope).all() and wrong.all():
        raise DensityError(
            "the score is not the gradient of log p̃: along a direction near the start it is "
            f"{slope[0]:.4g}, and {differences[-1, 0]:.4g} by differences of log_density; return "
            "the gradient of the very function that log_density is"
        )


def _slopes(density: Density, at: Array, u: Array) -> Array:
    """Of log p̃ along u at points (N, D), by central differences of each step, (steps, N)."""
    return np.stack([
        (density.log_density(at + h * u) - density.log_density(at - h * u)) / (2 * h)
        for h in CHECK_STEPS
    ])  # fmt: skip


def check_scores(density: Density, theta: Array) -> Array:
    r"""Hold every coordinate's score to differences of log p̃, at points of your choice.

    .. math:: \frac{\log\tilde p(\theta + h e_i) - \log\tilde p(\theta - h e_i)}{2h}
              \approx \frac{\partial \log\tilde p}{\partial \theta_i}

    Fits look along one direction near their start, which a small error of one coordinate escapes.

    Parameters
    ----------
    density
        What is fitted: :class:`pymc_ext.CallableDensity`, say.
    theta
        Unconstrained points, (N, D) or (D,), as draws of a fit; 4 N D values are taken.

    Returns
    -------
    array
        Of each coordinate the largest relative error at any point, (D,), the smaller of those of
        steps of 1e-3 and 1e-5.

    Raises
    ------
    DensityError
        An error is above 2 %; it names the coordinates, the worst first.
    ValueError
        ``theta`` has another shape, or log p̃ is not finite beside it.

    Examples
    --------
    >>> wrong = px.CallableDensity(
    ...     lambda x: -0.5 * (x**2).sum(axis=1), lambda x: -x * [1, 1.1], dimension=2,
    ...     names=["a", "b"],
    ... )
    >>> px.check_scores(wrong, np.ones(2))
    Traceback (most recent call last):
    ...
    pymc_ext.density.check.DensityError: the score of b is -1.1, and -1 by differences: ...
    """
    points = np.atleast_2d(np.asarray(theta, dtype=float))
    D = density.dimension
    if points.ndim != 2 or points.shape[1] != D:
        raise ValueError(f"theta must have shape (N, {D}) or ({D},), got {np.shape(theta)}")
    with np.errstate(all="ignore"):
        scores = density.log_density_gradient(points)[1]
        slopes = np.stack([_slopes(density, points, e) for e in np.eye(D)], axis=2)
    if not (np.isfinite(slopes).all() and np.isfinite(scores).all()):
        raise ValueError(
            "log p̃ or its score is not finite at theta or beside it: give points inside the support"
        )
    error = np.abs(slopes - scores) / (np.abs(slopes) + CHECK_FLAT)
    step = error.argmin(axis=0)[None]
    error, slope = (np.take_along_axis(x, step, axis=0)[0] for x in (error, slopes))
    at, worst = error.argmax(axis=0), error.max(axis=0)
    wrong = [i for i in np.argsort(-worst) if worst[i] > CHECK_TOLERANCE]
    if wrong:
        names = coordinate_names(density)
        said = ", ".join(
            f"the score of {names[i]} is {scores[at[i], i]:.4g}, and {slope[at[i], i]:.4g} by "
            "differences"
            for i in wrong[:10]
        )
        raise DensityError(f"{said}: return the gradient of the very function that log_density is")
    return worst
