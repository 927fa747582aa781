"""Learning by L-BFGS on the exact gradient of the evidence, with the sites at their fixed point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from pymc_ext.gp.errors import ConvergenceError, ImproperPosteriorError
from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.loops import Found, Watch
from pymc_ext.gp.posterior import Arrays
from pymc_ext.gp.solver import Solver
from pymc_ext.maths.types import Array

# Reach of one L-BFGS run: its line search else leaps to far and lower maxima. A choice: of six
# starts (logit and Student-t, n = 60) all windows of .5 to 24 lead to the same maximum, but for one
# at a lengthscale of .02, from which this one alone stops below it, and says so
WINDOW = 1.0
# Smallest relative gain of a step: no window is searched to the end whose maximum is at its edge. A
# choice: ten times either way take 0 to 4 gradients more or less from the other five
FIRST_GAIN, LAST_GAIN = 1e-4, 1e-9
STEEP = 0.1  # nats a unit of θ: no maximum (a choice: half and twice tell the same)
NEAREST = 1e-12  # θ squared: keeps a wall's slope finite (1e-16 to 1e-8 climb the same, six fits)
ABNORMAL = 2  # SciPy's status of a line search that failed
ROUGH = (
    "the line search found nothing better: the evidence jumps (where the posterior has several "
    "modes) or is rough (a coarse tolerance of the rule); compare other starts"
)


def climb(
    solver: Solver,
    graph: HyperparameterGraph,
    theta: Array,
    box: Array,
    max_iterations: int,
    monitor: Watch,
) -> Found:
    """The highest point of runs in windows of ±`WINDOW`, each around the best point so far."""
    loss = _Loss(solver, graph, theta)
    left, steps, ftol = max_iterations, 0, FIRST_GAIN
    while True:
        loss.refused, window = "", np.clip([theta - WINDOW, theta + WINDOW], *box[:, None])
        result = minimize(
            loss, theta, jac=True, method="L-BFGS-B", bounds=window.T,
            options={"maxiter": left, "ftol": ftol},
            callback=lambda _: monitor(-loss.highest.value),
        )  # fmt: skip
        theta, left, steps = loss.highest.theta, left - int(result.nit), steps + int(result.nfev)
        inside = not np.any(np.isclose(theta, window) & (window != box))
        if left <= 0 or (inside and ftol == LAST_GAIN):
            break
        ftol = LAST_GAIN if inside else FIRST_GAIN
    converged = bool(result.success) and inside and ftol == LAST_GAIN
    reason = f"{max_iterations} iterations" if result.success and not converged else result.message
    reason = ROUGH if result.status == ABNORMAL else reason
    best = loss.highest
    rise = np.clip(theta + best.gradient, *box) - theta
    if loss.refused and left > 0 and np.max(np.abs(rise)) > STEEP:
        reason = f"the evidence still rises, towards points that were refused: {loss.refused}"
        converged = False
    return Found(theta, best.evidence, best.value, reason, converged, steps)


@dataclass(frozen=True)
class _Point:
    """θ with the evidence, evidence + log prior and its gradient there."""

    theta: Array
    evidence: float
    value: float
    gradient: Array


class _Loss:
    """−(evidence + log prior) with its gradient; a wall where there is none.

    Attributes
    ----------
    highest
        The highest point met, the start to begin with.
    refused
        Why there was none at the last point without.
    """

    def __init__(self, solver: Solver, graph: HyperparameterGraph, start: Array):
        self.solver, self.graph, self.y, self.refused = solver, graph, graph.y, ""
        self.highest = self._point(start, *self._evidence(start))

    def __call__(self, theta: Array) -> tuple[float, Array]:
        point = self.highest
        if not np.array_equal(theta, point.theta):  # else a window starts there
            try:
                found = self._evidence(theta)
            except (ConvergenceError, ImproperPosteriorError, ValueError) as error:
                self.refused = str(error)
                return _wall(point.theta, point.value, theta)
            point = self._point(theta, *found)
        if point.value > self.highest.value:
            self.highest = point
        return -point.value, -point.gradient

    def _evidence(self, theta: Array) -> tuple[float, float, Arrays]:
        """It, the log prior, and gradients in the graph's outputs."""
        (phi, *prior), log_prior = self.graph.forward(theta)
        if not np.isfinite(log_prior):
            raise ConvergenceError(f"the log prior is {log_prior} there")
        evidence = self.solver.solve(self.y, phi, tuple(prior)).value
        return evidence, log_prior, self.solver.gradient(self.y, phi, tuple(prior))

    def _point(self, theta: Array, evidence: float, log_prior: float, bars: Arrays) -> _Point:
        gradient = self.graph.backward(theta, bars)
        return _Point(theta.copy(), evidence, evidence + log_prior, gradient)


def _wall(best: Array, value: float, theta: Array) -> tuple[float, Array]:
    """A parabola around the best point so far: its slope sends the line search back there."""
    away, height = theta - best, 1 + abs(value)
    return height - value, 2 * height * away / max(float(away @ away), NEAREST)
