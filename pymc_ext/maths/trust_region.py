"""The mode of a smooth log density by trust-region Newton, or the reason why there is none.

Notation: ``theta`` (D,), ``f`` = log p̃ to be maximised, ``H`` its Hessian, ``d`` the Newton
decrement gᵀ(−H)⁻¹g: twice the gain a full Newton step promises, whatever the units of θ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult, minimize

Array = NDArray[np.floating]
ValueAndGradient = Callable[[Array], tuple[float, Array]]

GRADIENT_TOLERANCE = 1e-6  # of the trust-region phase, in units of the starting curvature
MAX_RADIUS = 1e30  # scipy's default of 1000 forbids reaching a mode at 1e5
POLISH_STEPS = 30
CONVERGED = 1e-12  # decrement at an accepted mode: 1e-6 posterior standard deviations
QUADRATIC = 1e-2  # a Newton step near a mode shrinks the decrement at least this much


class NoModeError(ValueError):
    """The search did not end at a mode; the message says why."""


@dataclass(frozen=True)
class Mode:
    """A point where the search ended, with ``value`` f, its ``gradient`` and ``hessian``."""

    theta: Array
    value: float
    gradient: Array
    hessian: Array
    decrement: float
    iterations: int
    converged: bool


def curvature_scale(hessian: Array) -> Array:
    """Lengths 1/√|H_ii| in which the diagonal curvature is one; 1 where it vanishes."""
    curvature = np.abs(np.diag(hessian))
    usable = np.isfinite(curvature) & (curvature > np.finfo(float).tiny)
    return 1 / np.sqrt(np.where(usable, curvature, 1.0))


def newton_step(gradient: Array, hessian: Array) -> tuple[Array, float] | None:
    """(−H)⁻¹g and the decrement; None unless −H is positive definite."""
    s = curvature_scale(hessian)
    try:
        factor = cho_factor(-hessian * np.outer(s, s), lower=True)
    except (np.linalg.LinAlgError, ValueError):
        return None
    step = s * cho_solve(factor, s * gradient)
    return step, float(gradient @ step)


def _trust_region(
    value_and_gradient: ValueAndGradient,
    hessian: Callable[[Array], Array],
    theta: Array,
    max_iterations: int,
    callback: Callable[[Array, float], None] | None,
) -> OptimizeResult:
    """scipy's trust-exact in variables x = (θ − θ₀)/s of unit starting curvature."""
    s = curvature_scale(hessian(theta))

    def loss(x: Array) -> tuple[float, Array]:
        f, g = value_and_gradient(theta + s * x)
        return (-f, -s * g) if np.isfinite(f) and np.all(np.isfinite(g)) else (np.inf, 0 * x)

    def scaled_hessian(x: Array) -> Array:
        return -hessian(theta + s * x) * np.outer(s, s)

    def report(intermediate_result: OptimizeResult) -> None:
        if callback is not None:
            callback(theta + s * intermediate_result.x, -intermediate_result.fun)

    out = minimize(
        loss,
        np.zeros_like(theta),
        jac=True,
        hess=scaled_hessian,
        method="trust-exact",
        callback=report,
        options={
            "maxiter": max_iterations,
            "gtol": GRADIENT_TOLERANCE,
            "max_trust_radius": MAX_RADIUS,
        },
    )
    out.x = theta + s * out.x
    return out


def find_mode(
    value_and_gradient: ValueAndGradient,
    hessian: Callable[[Array], Array],
    start: Array,
    *,
    max_iterations: int = 500,
    callback: Callable[[Array, float], None] | None = None,
) -> Mode:
    """Climb from ``start`` (D,) to a mode of f: trust region first, then full Newton steps.

    Parameters
    ----------
    value_and_gradient, hessian
        θ (D,) -> (f, ∇f (D,)) and θ -> ∇²f (D, D).
    max_iterations
        Bound on the trust-region iterations.
    callback
        Called with (θ, f) after each of them; may raise StopIteration.

    Returns
    -------
    Mode
        ``converged`` is True at a mode: −H positive definite, decrement below ``CONVERGED`` and
        falling as fast as Newton's method does (a density that rises for ever without reaching a
        mode has small gradients too, but its decrement falls only linearly).

    Raises
    ------
    NoModeError
        If f or its derivatives are not finite at ``start``.
    """
    theta = np.asarray(start, dtype=float)
    f, g = value_and_gradient(theta)
    if not (np.isfinite(f) and np.all(np.isfinite(g))):
        raise NoModeError(
            f"log density {f} or its gradient is not finite at the start: pass a start inside the "
            "support"
        )
    H = hessian(theta)
    if not np.all(np.isfinite(H)):
        raise NoModeError("the Hessian is not finite at the start: pass another start")
    out = _trust_region(value_and_gradient, hessian, theta, max_iterations, callback)
    return _polish(value_and_gradient, hessian, out.x, int(out.nit))


def _polish(
    value_and_gradient: ValueAndGradient,
    hessian: Callable[[Array], Array],
    theta: Array,
    iterations: int,
) -> Mode:
    """Full Newton steps until the decrement stops falling: the end is rounding, not a tolerance."""
    f, g = value_and_gradient(theta)
    H = hessian(theta)
    newton = newton_step(g, H)
    if newton is None:
        return Mode(theta, f, g, H, np.inf, iterations, False)
    step, decrement = newton
    fast = decrement < CONVERGED**2
    for _ in range(POLISH_STEPS):
        trial = theta + step
        f_new, g_new = value_and_gradient(trial)
        if not (np.isfinite(f_new) and np.all(np.isfinite(g_new))):
            break
        H_new = hessian(trial)
        newton = newton_step(g_new, H_new)
        if newton is None or newton[1] >= decrement:
            break
        fast |= newton[1] < QUADRATIC * decrement
        theta, f, g, H, iterations = trial, f_new, g_new, H_new, iterations + 1
        step, decrement = newton
    return Mode(theta, f, g, H, decrement, iterations, bool(fast and decrement < CONVERGED))
