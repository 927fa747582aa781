"""Search for modes from several starts, and the Laplace approximation at each."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pymc_ext.density import CountedDensity, DifferenceHessian
from pymc_ext.density.check import NoGradientError
from pymc_ext.maths.by_value import ByValue
from pymc_ext.maths.normal import LOG_2PI
from pymc_ext.maths.trust_region import Mode, NoModeError, curvature_scale, find_mode
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count, require_number
from pymc_ext.variational.core.monitor import STOPPED, Monitor
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.curvature import (
    covariance_root,
    flat_directions,
    modified_root,
)
from pymc_ext.variational.gaussian.numbers import refuse_dense
from pymc_ext.variational.gaussian.posteriors import Gaussian

logger = logging.getLogger(__name__)

MOST_STARTS, ONE_START = 12, 200  # starts are 200/D within 1..12, as Hessians cost D³
PATIENCE, LEAST_PATIENCE = 10, 100  # times the longest climb to a mode; iterations at least
JITTER = 2.0  # further starts: first start + U(−2, 2), the range of Stan's random inits
SAME_MODE = 1e-3  # distance in posterior standard deviations
AT_BOUNDARY = 8.0  # |log| or |logit| beyond which a bounded variable is at its end for a search
SLOW_DECAY = 0.25  # share of the Gaussian drop of log p̃ at two sd below which the result warns
ALTERNATIVES = (
    "reparametrise (non-centred), or fit without a mode: BatchMatchVI(), HierarchicalVI(), "
    "MixedVI(..., base='match')"
)


@dataclass(frozen=True)
class ModeSearch:
    """Where modes are looked for, and what counts as one.

    Parameters
    ----------
    starts
        Number of starting points: the initial point, then jittered copies of it. None means
        200/D, at least 1 and at most 12.
    indefinite
        What to do where the Hessian at the stationary point is not negative definite:
        ``"refuse"`` raises, ``"modify"`` replaces its eigenvalues and says so in ``result.notes``.
    spread
        Half the side of the cube around the initial point, on the unconstrained space, from which
        further starts are drawn.
    """

    starts: int | None = None
    indefinite: str = "refuse"
    spread: float = JITTER

    def __post_init__(self) -> None:
        if self.starts is not None:
            require_count("starts", self.starts)
        if self.indefinite not in ("refuse", "modify"):
            raise ValueError(f"indefinite must be 'refuse' or 'modify', got {self.indefinite!r}")
        require_number("spread", self.spread)
        if not 0 < self.spread < np.inf:
            raise ValueError(f"spread must be > 0 and finite, got {self.spread!r}")

    def points(self, start: Array, random_seed: int | None) -> list[Array]:
        """The starting points, (D,) each, unconstrained, ``start`` (D,) first."""
        starts = self.starts
        if starts is None:
            starts = min(max(ONE_START // len(start), 1), MOST_STARTS)
        rng = stream(random_seed, Purpose.STARTS)
        jitter = rng.uniform(-self.spread, self.spread, (starts - 1, len(start)))
        return [start, *(start + jitter)]


@dataclass(frozen=True, eq=False)
class LaplaceFit(ByValue):
    """A mode with a root of its covariance: Σ = C Cᵀ, C (D, D), and C⁻¹ (D, D).

    ``path`` (T,) holds log p̃ along the climb that ended there.
    """

    mode: Mode
    factor: Array
    factor_inverse: Array
    path: Array
    notes: tuple[str, ...] = ()

    @property
    def theta(self) -> Array:
        """θ*, shape (D,)."""
        return self.mode.theta

    @property
    def log_marginal(self) -> float:
        """log p̃(θ*) + ½ log|2πΣ|, the Laplace estimate of log Z."""
        log_det = np.linalg.slogdet(self.factor)[1]
        return float(self.mode.value + log_det + 0.5 * len(self.theta) * LOG_2PI)

    @property
    def losses(self) -> Array:
        """The climb, (T,), on the scale of the evidence: ends at −:attr:`log_marginal`."""
        return self.mode.value - self.path - self.log_marginal


def _no_mode_message(mode: Mode, start: Array, density: CountedDensity) -> str:
    distance = np.abs(mode.theta - start)
    moved = distance * (np.abs(mode.gradient) if mode.gradient.any() else 1.0)
    bounded = np.isin(density.unconstrained_names, density.bounded_names)
    far = bounded & (np.abs(mode.theta) > AT_BOUNDARY)
    worst = int(np.argmax(np.where(far, np.inf, moved) if far.any() else moved))
    return (
        f"no mode found after {mode.iterations} Newton iterations: log p̃ = {mode.value:.6g} and "
        f"still changes along {density.value_names[worst]} = {mode.theta[worst]:.4g} "
        f"(gradient {mode.gradient[worst]:.3g}); the density may be improper, unbounded, or have "
        f"its mode at infinity or at a hard edge of its support; {ALTERNATIVES}"
    )


class LaplaceSearch:
    """Finds the best mode from several starts and the Laplace approximation there."""

    def __init__(
        self,
        density: CountedDensity,
        start: Array,
        options: ModeSearch,
        random_seed: int | None,
    ) -> None:
        refuse_dense(density.dimension, "Newton's search for a mode")
        self.density, self.indefinite = density, options.indefinite
        self.hessian = DifferenceHessian(density)
        self.starts = options.points(start, random_seed)
        self.names = density.unconstrained_names
        self.notes: list[str] = []
        self.found: list[LaplaceFit] = []  # modes by now, which Ctrl-C leaves
        self.warnings: list[str] = []  # of the climb in progress

    def run(self, max_iterations: int, monitor: Monitor | None = None) -> LaplaceFit:
        """The highest of the modes that the starts reach.

        Raises
        ------
        NoModeError
            If no start reaches a mode; the message is that of the first start.
        """
        return self.report(self.modes(max_iterations, monitor))

    def report(self, modes: Sequence[LaplaceFit]) -> LaplaceFit:
        """The highest of ``modes`` with everything a user must know about it."""
        best = max(modes, key=lambda fit: fit.mode.value)
        others = [fit for fit in modes if fit is not best]
        notes = [*self.notes, *best.notes, *self.boundary_notes(best)]
        if others:
            lower = ", ".join(f"{best.mode.value - fit.mode.value:.3g}" for fit in others)
            notes.append(
                f"{len(others)} other mode(s) found with log p̃ lower by {lower}: see MixtureVI"
            )
        return replace(best, notes=tuple(notes))

    def modes(
        self,
        max_iterations: int,
        monitor: Monitor | None = None,
        starts: Sequence[Array] | None = None,
    ) -> list[LaplaceFit]:
        """The distinct modes that the starts reach; failures of single starts go to ``notes``.

        Once there is a mode, a start that takes ten times the longest climb so far is given up:
        from absurd points, where log p̃ is −1e14, the climb can take for ever.
        """
        starts = self.starts if starts is None else starts
        fits = self.found = []
        failures: list[str] = []
        limit, longest = max_iterations, 0
        tried = 0
        for start in starts:
            if monitor is not None and monitor.stopped:
                break
            tried += 1
            try:
                fit = self._climb(start, limit, monitor)
            except NoModeError as error:
                failures.append(str(error))
                continue
            longest = max(longest, fit.mode.iterations)
            limit = min(max_iterations, max(PATIENCE * longest, LEAST_PATIENCE))
            if not any(self._same(fit, known) for known in fits):
                fits.append(fit)
        if not fits:
            raise NoModeError(failures[0])
        self.notes = []
        if failures:
            self.notes.append(f"{len(failures)} of {tried} starts reached no mode ({failures[0]})")
        if tried < len(starts):
            self.notes.append(f"{STOPPED} after {tried} of {len(starts)} starts")
        return fits

    def _climb(self, start: Array, max_iterations: int, monitor: Monitor | None) -> LaplaceFit:
        path: list[float] = []
        self.warnings = []

        def report(theta: Array, value: float) -> None:
            path.append(value)
            if monitor is not None:
                eye = np.eye(len(theta))
                monitor(-value, lambda: Gaussian(theta, eye, eye))

        with np.errstate(all="ignore"):  # the search backs off from points that are not finite
            mode = find_mode(
                self.value_and_gradient,
                self.hessian,
                start,
                max_iterations=max_iterations,
                callback=report,
            )
        values = np.array([*path, mode.value])
        mode = self._with_true_hessian(mode)
        root = covariance_root(mode.hessian)
        if mode.converged and root is not None:
            return LaplaceFit(mode, *root, values, tuple(self.warnings))
        return self._indefinite(mode, start, values, max_iterations)

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """log p̃ and its gradient at one point (D,)."""
        value, gradient = self.density.log_density_gradient(theta[None])
        return float(value[0]), np.asarray(gradient[0], dtype=float)

    def _with_true_hessian(self, mode: Mode) -> Mode:
        """The mode with the exact Hessian where differences of scores show a kink there."""
        with np.errstate(all="ignore"):
            self.hessian(mode.theta)
        exact = getattr(self.density.density, "hessian", None)
        if not self.hessian.rough:
            return mode
        if exact is not None:
            logger.info("log p̃ is not smooth at the stationary point: compiling its exact Hessian")
            try:
                mode = replace(mode, hessian=exact(mode.theta))
            except NoGradientError as error:
                logger.info("%s", error)
            else:
                self.density.gradients += len(mode.theta)
                return mode
        rough = [self.names[i] for i in self.hessian.rough]
        self.warnings.append(
            f"the score jumps, or is noisy, along {rough}: the curvature there is not reliable"
        )
        return mode

    def _indefinite(self, mode: Mode, start: Array, path: Array, max_iterations: int) -> LaplaceFit:
        """A stationary point with flat directions is refused or modified; others are no mode."""
        s = curvature_scale(mode.hessian)
        stationary = np.linalg.norm(s * mode.gradient) < 1e-4
        flat = flat_directions(mode.hessian, self.names)
        if not (stationary and flat):
            message = _no_mode_message(mode, start, self.density)
            if mode.iterations >= max_iterations:
                message = (
                    f"stopped at the limit of {max_iterations} iterations, n of pm.fit or less: "
                    f"{message}"
                )
            raise NoModeError(message)
        if self.indefinite == "refuse":
            raise NoModeError(
                f"the Hessian at the stationary point is not negative definite: log p̃ is flat, "
                f"or has a kink, along {flat}; identify these directions with a (smooth) prior or "
                "pass search=px.ModeSearch(indefinite='modify'), which widens q there"
            )
        note = f"Hessian not negative definite along {flat}: its eigenvalues were modified"
        logger.warning(note)
        return LaplaceFit(mode, *modified_root(mode.hessian), path, (note,))

    @staticmethod
    def _same(a: LaplaceFit, b: LaplaceFit) -> bool:
        return bool(np.linalg.norm(b.factor_inverse @ (a.theta - b.theta)) < SAME_MODE)

    def boundary_notes(self, fit: LaplaceFit) -> list[str]:
        """Bounded variables towards whose ends log p̃ falls far more slowly than a Gaussian."""
        sd = np.sqrt(np.sum(fit.factor**2, axis=1))
        axes = (fit.factor @ fit.factor.T / sd).T  # row i: E[θ − θ* | θ_i one sd up]
        notes = []
        for name, sign in ((n, sg) for n in self.density.bounded_names for sg in (-1, 1)):
            i = self.names.index(name)
            value, _ = self.value_and_gradient(fit.theta + 2 * sign * axes[i])
            drop = fit.mode.value - value
            if drop < SLOW_DECAY * 2:
                side = "lower" if sign < 0 else "upper"
                notes.append(
                    f"the posterior of {self.density.value_names[i]} hardly falls towards its "
                    f"{side} end (log p̃ drops {drop:.2g} over two sd, a Gaussian 2): the mode is "
                    "near a boundary and Laplace misplaces q; use MixedVI, or a flow"
                )
        return notes
