r"""Gaussian variational inference on fresh draws: the reparameterised Monte Carlo ELBO (VI-MC).

θ = μ + L z in the coordinates of :mod:`.whitened` around the start, L lower triangular or diagonal.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.monitor import STOPPED, Monitor
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.steps import (
    GuardedSteps,
    NonFiniteError,
    StepOptions,
    SteppingAlgorithm,
)
from pymc_ext.variational.elbo.objective import DrawsObjective
from pymc_ext.variational.gaussian.noise import Scales, Triangle
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.gaussian.whitened import WhitenedDiagonal, WhitenedGaussian

COVARIANCES = ("diagonal", "full")
STEP = StepOptions(draws=1000, learning_rate=0.02)  # the paper's
HOPELESS = 100  # steps in a row without a finite loss after which a fit gives up


def check_covariance(covariance: str) -> None:
    """Raise ValueError for an unknown covariance structure."""
    if covariance not in COVARIANCES:
        raise ValueError(f"covariance must be one of {COVARIANCES}, got {covariance!r}")


@dataclass
class _Descent:
    """Where a fit is: the state from which another run goes on."""

    family: WhitenedGaussian
    rng: np.random.Generator
    steps: GuardedSteps

    def copy(self) -> _Descent:
        """An independent one; a user's own optimiser, in the options, keeps its own memory."""
        options = self.steps.options
        return deepcopy(self, {id(options): options})


@dataclass(frozen=True)
class MonteCarlo(SteppingAlgorithm[Gaussian | DiagonalGaussian]):
    """Algorithm of :class:`pymc_ext.MonteCarloVI`, for any density.

    Parameters
    ----------
    covariance
        ``"full"`` or ``"diagonal"``.
    step
        Draws, learning rate and optimiser of a step.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
    >>> algorithm = MonteCarlo(step=StepOptions(100, learning_rate=0.02))
    >>> algorithm.fit(density, random_seed=1).q.std.round(1)
    array([0.5])
    """

    covariance: str = "full"
    step: StepOptions = field(default=STEP, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_covariance(self.covariance)
        self.step.refuse_path(
            "is not for a Monte Carlo Gaussian, whose entropy is known in closed form and has no "
            "noise: use 'total', or px.BatchMatchVI"
        )

    @property
    def name(self) -> str:
        return f"monte-carlo-{self.covariance}"

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Gaussian | DiagonalGaussian]:
        descent = self._begin(density, start, seed, state)
        objective = DrawsObjective(descent.family, density)
        reason = self._take_steps(descent, objective, budget, monitor)
        q, fresh = descent.family.posterior(), None
        if not density.noisy:
            fresh = fresh_draws(q, density, stream(seed, Purpose.FRESH))
        result = FitResult(
            method=self.name,
            converged=False,
            stop_reason=reason,
            iterations=len(monitor.losses),
            fresh=fresh,
        )
        return Fitted(q, result, descent)

    def _begin(
        self, density: CountedDensity, start: Array, seed: int | None, state: object | None
    ) -> _Descent:
        """N(start, I) with fresh steps, or where ``state`` is."""
        if isinstance(state, _Descent):
            descent = state.copy()
            family, rng = descent.family, descent.rng
            if descent.steps.options == self.step:
                return descent
        else:
            family, rng = self._at(start), stream(seed, Purpose.TRAIN)
        vector = np.concatenate([family.x, density.extra])
        return _Descent(family, rng, GuardedSteps(vector, np.ones_like(vector), self.step))

    def _at(self, start: Array) -> WhitenedGaussian:
        """N(start, I), of the family asked for."""
        D = len(start)
        if self.covariance == "full":
            return WhitenedGaussian(Triangle(D), start)
        return WhitenedDiagonal(Scales(D), start)

    def _take_steps(
        self, descent: _Descent, objective: DrawsObjective, budget: int, monitor: Monitor
    ) -> str:
        """At most ``budget`` steps; why they ended."""
        steps, family, bad = descent.steps, descent.family, 0
        try:
            for i in range(budget):
                z = self._normals(descent)
                with np.errstate(all="ignore"):  # a step that is not finite is left out
                    loss, gradient = objective.value_and_gradient(steps.vector, z)
                bad = 0 if np.isfinite(loss) else bad + 1
                if bad == HOPELESS:
                    raise NonFiniteError(
                        f"the loss was not finite in {bad} steps in a row (up to step {i}): log p̃ "
                        "is −∞ or NaN at draws of q; give start= inside the support, or a smaller "
                        "learning_rate"
                    )
                steps.take(loss, gradient, self.step.learning_rate, weight=1.0)
                objective.x = steps.vector
                monitor(loss, family.posterior)
        except (KeyboardInterrupt, StopIteration):
            return STOPPED
        return "all iterations done"

    def _normals(self, descent: _Descent) -> Array:
        if self.step.normals is not None:
            return self.step.normals(1)[0]
        return descent.rng.standard_normal((self.step.draws, descent.family.latent_dimension))
