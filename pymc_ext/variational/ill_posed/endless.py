r"""Directions in which log p̃ never falls: what an improper posterior is known by, after a fit.

Along a ray θ + t u the integral of p̃ diverges where

.. math:: \frac{\mathrm d \log\tilde p(\theta + t u)}{\mathrm d \log t} \ge -1 \quad\text{for all
    large } t,

and where that holds from every draw θ of q, so does the integral over the tube around the ray. A
Normal prior, however wide, falls as −t², a Student's t with slope −(ν + 1), so that at 10¹⁰⁰ sds
only what has no proper prior is left. The rays lead along coordinates, whatever q's own k̂: weights
of an improper posterior have no mean, but draws of q may never come where they show it (of
(1 + θ²)^{−1/2} a Gaussian's k̂ is −.1 to 1.2). Where k̂ says that q is poor they lead to the draws of
the largest weights too, and to where a climb of log p̃ runs: with data that a line separates and
flat priors these lie in the cone of all lines that do. Of more than 256 coordinates only those of a
poor q are looked at in which draws of large weights are far out. A ridge of a combination such as
a + b is too narrow for rays: there q widens without end (:mod:`~..gaussian.trust_region_matching`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.defensive import MOST_LOOKED_AT, DrawnAgain
from pymc_ext.variational.core.posterior import NUMBERS_TOGETHER, Posterior
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.weights import KHAT_GOOD
from pymc_ext.variational.ill_posed.runaway import EndlessError

TUBE = 4  # draws of q from which a ray must not fall
MIDDLE = 0.16, 0.5, 0.84  # quantiles: a normal's are an sd apart
OF_MIDDLE = 1000  # draws: an sd to 5 %
HEAVIEST = 8  # draws of the largest weights that rays lead to
FARTHEST = 10.0 ** np.array([6, 8, 10, 12, 16, 20, 30, 40, 60, 80, 100])  # t, in sds of q
SLOPE = -1.0001  # of log p̃ by log t; Student's t has −1 − ν
# Nats below the draw that a ray begins at, at 10⁶ sds, from which on the ray has no mass: 1/t has
# fallen by 14 there, and a Jacobian that is kept from 0 by a tiny number ends at 28 and less.
LOWEST = 25.0
# Of coordinates that are logarithms or logits, where exp(t) ends: t, and the nats by which log p̃
# may fall from the first to the last. A Gamma(.001, .001) falls by .4.
FARTHEST_LOG, FALL_LOG = np.array([50.0, 100.0, 200.0, 400.0, 500.0]), 0.05
# By functions of users and solvers that no number of this size was meant for.
RAISED = (ValueError, ArithmeticError, RuntimeError)
# Climbs, each from farther along the last one's direction, and their steps.
CLIMBS, FARTHER, STEPS = 3, 100.0, 100
SHARE, MOST_NAMED = 0.1, 5  # of the longest component, in sds, from which a coordinate is named


def refuse_endless(density: CountedDensity, q: Posterior, fresh: FreshDraws, start: Array) -> None:
    """Raise `EndlessError` where log p̃ never falls along a coordinate, or where a poor q's draws or
    a climb lead.

    Ctrl-C ends the looking, and leaves the fit.

    Parameters
    ----------
    density
        log p̃, counted.
    q
        What draws and weights are of.
    fresh
        Its draws, and what they are worth.
    start
        Of the fit, (D,), where climbs begin; there are none where the weights of draws serve.
    """
    if fresh.ess == 0 or fresh.log_ratios is None or fresh.generator is None:
        return
    good = fresh.khat < KHAT_GOOD
    if good and q.dimension > MOST_LOOKED_AT:  # some tenth of what the fit took
        return
    # far out anything overflows, and is then no ray
    with np.errstate(all="ignore"), suppress(KeyboardInterrupt):
        drawn = DrawnAgain(q, fresh)
        rays = _Rays(density, drawn)
        if not good:
            rays.refuse(rays.of_weights())
        places = np.arange(q.dimension) if good else drawn.looked_at()
        for directions in rays.along_coordinates(places):
            rays.refuse(directions)
        if fresh.usable:
            return
        u = np.zeros_like(start)
        for _ in range(CLIMBS):
            u = _climbed(density, start + FARTHER * u, rays.sd) - start
            rays.refuse(u[None])


class _Rays:
    """From draws of q, some at a time, and the coordinates that may be endless."""

    def __init__(self, density: CountedDensity, drawn: DrawnAgain) -> None:
        self.density, self.drawn = density, drawn
        first, start = np.empty((0, drawn.q.dimension)), 0
        for theta in drawn.theta():
            inside = np.isfinite(drawn.log_ratios[start : start + len(theta)])
            first = np.vstack([first, theta[inside & np.isfinite(theta).all(axis=1)]])
            start += len(theta)
            if len(first) >= OF_MIDDLE:
                break
        # of a q that runs away a mean may overflow
        low, self.middle, high = np.quantile(first, MIDDLE, axis=0)
        self.sd = np.maximum((high - low) / 2, np.finfo(float).tiny)
        self.tube = first[:TUBE]
        self.lowest = density.log_density(self.tube) - LOWEST

    def of_weights(self) -> Array:
        """From the middle to the draws of the largest weights, and to the weighted mean, (K, D)."""
        log_ratios = self.drawn.log_ratios
        weights = np.exp(log_ratios - log_ratios.max())
        weights /= weights.sum()
        is_heaviest = np.zeros(len(weights), dtype=bool)
        is_heaviest[np.argsort(-log_ratios)[:HEAVIEST]] = True
        weighted, heaviest, start = np.zeros_like(self.middle), list[Array](), 0
        for theta in self.drawn.theta():
            own = slice(start, start := start + len(theta))
            known = weights[own] > 0  # others may be beyond numbers
            weighted += weights[own][known] @ theta[known]
            heaviest.append(theta[is_heaviest[own]])
        return np.vstack([*heaviest, weighted]) - self.middle

    def along_coordinates(self, places: NDArray[np.integer]) -> Iterator[Array]:
        """By an sd, both ways, (K, D), some coordinates at a time: all 2 D may be gigabytes."""
        D = len(self.sd)
        together = max(1, NUMBERS_TOGETHER // D)
        for some in np.split(places, range(together, len(places), together)):
            along = np.zeros((len(some), D))
            along[np.arange(len(some)), some] = self.sd[some]
            yield np.vstack([along, -along])

    def refuse(self, directions: Array) -> None:
        """Raise `EndlessError` for one of the directions (K, D) that does not end."""
        longest = np.max(np.abs(directions) / self.sd, axis=1)
        known = np.isfinite(longest) & (longest > 0)  # a climb from the mode goes nowhere
        if not known.any():  # compiled functions need not take an empty batch
            return
        directions = directions[known] / longest[known, None]
        for u in directions[self._high(FARTHEST[0] * directions)]:
            if self._never_falls(u):
                raise EndlessError(self._sentence(u))
        logs = np.sign(directions[[self._is_log(u) for u in directions]])
        if not len(logs):
            return
        # at the end: where p rises with a Jacobian it may be low before
        for u in logs[self._high(FARTHEST_LOG[-1] * logs)]:
            if self._never_falls_by_log(u):
                raise EndlessError(self._sentence(self.sd * u))

    def _high(self, moved: Array) -> NDArray[np.bool_]:
        """Whether there is mass at the first draw moved so far (K, D): no ray is begun else."""
        return _far_out(self.density, self.tube[0] + moved) >= self.lowest[0]

    def _never_falls(self, u: Array) -> bool:
        log_p = self._along(u, FARTHEST)
        slopes = np.diff(log_p, axis=1) / np.diff(np.log(FARTHEST))
        return bool((log_p[:, 0] >= self.lowest).all() and (slopes >= SLOPE).all())

    def _never_falls_by_log(self, u: Array) -> bool:
        log_p = self._along(u, FARTHEST_LOG)
        return bool((log_p[:, -1] >= np.maximum(log_p[:, 0] - FALL_LOG, self.lowest)).all())

    def _along(self, u: Array, distances: Array) -> Array:
        """log p̃, (`TUBE`, T)."""
        theta = self.tube[:, None] + distances[:, None] * u
        flat = theta.reshape(-1, theta.shape[-1])
        return _far_out(self.density, flat).reshape(len(self.tube), -1)

    def _is_log(self, u: Array) -> bool:
        """Whether it is along one coordinate, the logarithm or logit of a bounded variable."""
        moved = np.flatnonzero(u)
        names = self.density.unconstrained_names
        return len(moved) == 1 and names[moved[0]] in self.density.bounded_names

    def _sentence(self, u: Array) -> str:
        length = np.abs(u) / self.sd
        order = [i for i in np.argsort(-length) if length[i] >= SHARE]
        names = self.density.value_names
        to = [f"{names[i]} to {'∞' if u[i] > 0 else '−∞'}" for i in order[:MOST_NAMED]]
        more = f" (and {len(order) - MOST_NAMED} more)" if len(order) > MOST_NAMED else ""
        return (
            f"log p̃ does not fall, however far {', '.join(to)}{more}: the posterior is improper "
            "there, as where data leave a parameter without bound (classes that a line separates, "
            "counts that are all 0) and its prior is flat: give these variables proper priors"
        )


def _far_out(density: CountedDensity, theta: Array) -> Array:
    """log p̃, (N, D) -> (N,); NaN, which is no ray, where such numbers are an error or give +∞, as
    a truncated law's does where its own mass underflows."""
    try:
        log_p = density.log_density(theta)
    except Exception:  # an assertion of the user's, say: every fit is looked at, the good ones too
        return np.full(len(theta), np.nan)
    return np.where(log_p == np.inf, np.nan, log_p)


def _climbed(density: CountedDensity, start: Array, sd: Array) -> Array:
    """Where log p̃ is higher, (D,), by steps in units of ``sd``."""

    def loss(x: Array) -> tuple[float, Array]:
        try:
            log_p, score = density.log_density_gradient((start + sd * x)[None])
        except RAISED:
            return np.inf, 0 * x
        return (-log_p[0], -score[0] * sd) if np.isfinite(log_p[0]) else (np.inf, 0 * x)

    found = minimize(
        loss, np.zeros_like(start), jac=True, method="L-BFGS-B",
        options={"maxiter": STEPS, "ftol": 0.0, "gtol": 0.0},
    )  # fmt: skip
    return start + sd * found.x
