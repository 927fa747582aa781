r"""Gaussian variational inference on fresh draws: the reparameterised Monte Carlo ELBO (VI-MC).

θ = μ + L z in the coordinates of :mod:`.whitened` around the start, L lower triangular or diagonal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.effort import Effort
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
from pymc_ext.variational.gaussian.noise import Scales, Triangle
from pymc_ext.variational.gaussian.objective import DrawsObjective
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.gaussian.whitened import WhitenedDiagonal, WhitenedGaussian

Array = NDArray[np.floating]
COVARIANCES = ("diagonal", "full")
DRAWS, LEARNING_RATE = 1000, 0.02  # of one step: the paper's
HOPELESS = 100  # steps in a row without a finite loss after which a fit gives up


def check_covariance(covariance: str) -> None:
    """Raise ValueError for an unknown covariance structure."""
    if covariance not in COVARIANCES:
        raise ValueError(f"covariance must be one of {COVARIANCES}, got {covariance!r}")


class MonteCarlo(SteppingAlgorithm[Gaussian | DiagonalGaussian]):
    """Engine of :class:`pymc_ext.MonteCarloVI`, for any density.

    Parameters
    ----------
    covariance
        ``"full"`` or ``"diagonal"``.
    step
        Draws, learning rate and optimiser of a step.
    random_seed
        Seeds the draws of the steps and the fresh ones.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
    >>> fitted = MonteCarlo(step=StepOptions(100, learning_rate=0.02), random_seed=1).fit(density)
    >>> fitted.q.std.round(1)
    array([0.5])
    """

    def __init__(
        self,
        covariance: str = "full",
        *,
        step: StepOptions | None = None,
        random_seed: int | None = None,
    ) -> None:
        check_covariance(covariance)
        self.covariance, self.random_seed = covariance, random_seed
        self.step = step or StepOptions(DRAWS, learning_rate=LEARNING_RATE)
        self.name = f"monte-carlo-{covariance}"
        self.restart()

    def restart(self) -> None:
        self._family: WhitenedGaussian | None = None
        self._steps: GuardedSteps | None = None

    def retrain(self, step: StepOptions) -> None:
        self.step, self._steps = step, None

    def run(
        self, density: CountedDensity, start: Array, n: int, monitor: Monitor
    ) -> Fitted[Gaussian | DiagonalGaussian]:
        effort = Effort(density)
        if self._family is None:
            self._family = self._at(start)
            self._rng = stream(self.random_seed, Purpose.TRAIN)
        family = self._family
        if self._steps is None:
            vector = np.concatenate([family.x, density.extra])
            self._steps = GuardedSteps(vector, np.ones_like(vector), self.step)
        reason = self._take_steps(DrawsObjective(family, density), n, monitor)
        q, fresh = family.posterior(), None
        if not density.noisy:
            fresh = fresh_draws(q, density, stream(self.random_seed, Purpose.FRESH))
        result = FitResult(
            method=self.name,
            converged=False,
            stop_reason=reason,
            iterations=len(monitor.losses),
            **effort.spent(),
            random_seed=self.random_seed,
            fresh=fresh,
        )
        return Fitted(q, result)

    def _at(self, start: Array) -> WhitenedGaussian:
        """N(start, I), of the family asked for."""
        D = len(start)
        if self.covariance == "full":
            return WhitenedGaussian(Triangle(D), start)
        return WhitenedDiagonal(Scales(D), start)

    def _take_steps(self, objective: DrawsObjective, n: int, monitor: Monitor) -> str:
        """At most ``n`` steps; why they ended."""
        steps, family, bad = self._steps, objective.family, 0
        assert steps is not None
        try:
            for i in range(n):
                with np.errstate(all="ignore"):  # a step that is not finite is left out
                    loss, gradient = objective.value_and_gradient(steps.vector, self._normals())
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

    def _normals(self) -> Array:
        assert self._family is not None
        if self.step.normals is not None:
            return self.step.normals(1)[0]
        return self._rng.standard_normal((self.step.draws, self._family.latent_dimension))
