"""The mode of a smooth log density by trust-region Newton, or the reason why there is none.

Notation: ``theta`` (D,), ``f`` = log p̃ to be maximised, ``H`` its Hessian, ``d`` the Newton
decrement gᵀ(−H)⁻¹g: twice the gain a full Newton step promises, whatever the units of θ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import OptimizeResult, minimize

from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.types import Array

ValueAndGradient = Callable[[Array], tuple[float, Array]]

GRADIENT_TOLERANCE = 1e-6  # of the trust-region phase, in units of the starting curvature
MAX_RADIUS = 1e30  # scipy's default of 1000 forbids reaching a mode at 1e5
STALLED = 100  # refused steps in a row: the radius has shrunk by 4¹⁰⁰
POLISH_STEPS = 30  # twice the most that a mode of the zoo takes; a quartic one is none by any
CONVERGED = 1e-12  # decrement at an accepted mode: 1e-6 posterior standard deviations
QUADRATIC = 1e-2  # a Newton step near a mode shrinks the decrement at least this much
ROUNDING = 1e-6  # of |H||θ|: a gradient below is rounding, for f rising for ever has far more


class NoModeError(ValueError):
    """The search did not end at a mode; the message says why."""


@dataclass(frozen=True, eq=False)
class Mode(ByValue):
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


class _Landscape:
    """−f in variables x = (θ − θ₀)/s of unit starting curvature, infinite where f, ∇f or H are not.

    Counts what the trust region does not: steps refused one after another, and flight to infinity.
    """

    def __init__(
        self,
        value_and_gradient: ValueAndGradient,
        hessian: Callable[[Array], Array],
        theta: Array,
        H: Array,
        callback: Callable[[Array, float], None] | None,
    ) -> None:
        self.f, self.H, self.callback = value_and_gradient, hessian, callback
        self.theta, self.s = theta, curvature_scale(H)
        self.units = np.outer(self.s, self.s)
        self._at, self._hessian = np.zeros_like(theta), -H * self.units
        self.last, self.reports, self._refused = np.zeros_like(theta), 0, 0

    def _hessian_at(self, x: Array) -> Array:
        if not np.array_equal(x, self._at):
            self._at, self._hessian = x.copy(), -self.H(self.theta + self.s * x) * self.units
        return self._hessian

    def loss(self, x: Array) -> tuple[float, Array]:
        """−f and its gradient."""
        f, g = self.f(self.theta + self.s * x)
        if not (
            np.isfinite(f) and np.all(np.isfinite(g)) and np.isfinite(self._hessian_at(x)).all()
        ):
            return np.inf, np.zeros_like(x)
        return -f, -self.s * g

    def hessian(self, x: Array) -> Array:
        """Hessian of −f; anything finite where the loss is infinite, as scipy asks for it first."""
        H = self._hessian_at(x)
        return H if np.all(np.isfinite(H)) else np.eye(len(x))

    def report(self, intermediate_result: OptimizeResult) -> None:
        """Tell the caller, and stop where no further step can help."""
        x = intermediate_result.x
        if self.callback is not None:
            self.callback(self.theta + self.s * x, -intermediate_result.fun)
        self._refused = self._refused + 1 if np.array_equal(x, self.last) else 0
        self.last, self.reports = x.copy(), self.reports + 1
        if self._refused > STALLED or np.abs(x).max() > MAX_RADIUS:
            raise StopIteration


def _trust_region(landscape: _Landscape, max_iterations: int) -> tuple[Array, Array, int]:
    """θ and H where scipy's trust-exact ends, and the number of its iterations.

    Its step to the boundary takes the root of a number that rounding can make negative, where −H is
    singular to rounding (SciPy 1.17): the search then ends at the last accepted point.
    """
    try:
        out = minimize(
            landscape.loss,
            np.zeros_like(landscape.theta),
            jac=True,
            hess=landscape.hessian,
            method="trust-exact",
            callback=landscape.report,
            options={
                "maxiter": max_iterations,
                "gtol": GRADIENT_TOLERANCE,
                "max_trust_radius": MAX_RADIUS,
            },
        )
        x, iterations = out.x, int(out.nit)
    except ValueError as error:
        if "math domain error" not in str(error):
            raise
        x, iterations = landscape.last, landscape.reports
    return landscape.theta + landscape.s * x, -landscape.hessian(x) / landscape.units, iterations


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
        ``converged`` is True at a mode: −H positive definite, decrement below ``CONVERGED``, and
        either falling as fast as Newton's method does or the gradient down to rounding. (A density
        that rises for ever without reaching a mode has small gradients too, but its decrement
        falls only linearly and its Newton steps do not shrink relative to θ.)

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
    landscape = _Landscape(value_and_gradient, hessian, theta, H, callback)
    return _polish(value_and_gradient, hessian, *_trust_region(landscape, max_iterations))


def _polish(
    value_and_gradient: ValueAndGradient,
    hessian: Callable[[Array], Array],
    theta: Array,
    H: Array,
    iterations: int,
) -> Mode:
    """Full Newton steps until the decrement stops falling: the end is rounding, not a tolerance."""
    f, g = value_and_gradient(theta)
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
    settled = fast or _at_rounding(theta, g, H)
    return Mode(theta, f, g, H, decrement, iterations, bool(settled and decrement < CONVERGED))


def _at_rounding(theta: Array, gradient: Array, hessian: Array) -> bool:
    """Whether the gradient is no more than the rounding of Hθ."""
    return bool(np.all(np.abs(gradient) <= ROUNDING * np.abs(hessian) @ np.abs(theta)))
