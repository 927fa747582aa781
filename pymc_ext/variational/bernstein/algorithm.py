"""Bernstein flow variational inference on any density: base, ELBO phase, polish, result."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.polish.guard import BaseGuard
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.polisher import Polisher
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage
from pymc_ext.variational.bernstein.polish.weighted import (
    ImportanceWeighted,
    PolishOption,
    resolve_polish,
)
from pymc_ext.variational.bernstein.shape import FlowShape, blocks_of, one_of, variable_order
from pymc_ext.variational.bernstein.training.loops import DensityLoop, LoopMaker
from pymc_ext.variational.bernstein.training.trainer import Trainer
from pymc_ext.variational.bernstein.whitening import Base, check_base, resolve_base
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.effort import Effort
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.steps import OPTIMIZERS, StepOptions, SteppingAlgorithm
from pymc_ext.variational.gaussian.posteriors import Gaussian

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
CHECK_DRAWS = 1024  # held-out draws of one plateau check
FRESH_DRAWS = 4096  # behind the final ELBO
POLISHED_FROM = 3000  # steps from which on a fit is worth polishing


@dataclass(frozen=True)
class FittedFlow(Fitted[BernsteinFlow]):
    """The flow with what each training phase reached."""

    stages: tuple[Stage, ...] = ()


class Bernstein(SteppingAlgorithm[BernsteinFlow]):
    """Engine of :class:`pymc_ext.BernsteinVI`, for any density.

    Parameters
    ----------
    shape
        What the flow is made of.
    base, polish
        As :class:`pymc_ext.BernsteinVI`'s.
    step
        Draws, learning rate and optimiser of a step.
    policy
        Thresholds of the polish.
    random_seed
        Seeds initial weights, draws and judging.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -(x**2).sum(1), lambda x: -2 * x, dimension=2)
    >>> fitted = Bernstein(FlowShape(order=5), polish=None, random_seed=1).fit(density, n=2000)
    >>> bool(abs(fitted.result.log_marginal_is - np.log(np.pi)) < 0.02)
    True
    """

    name = "bernstein"

    def __init__(
        self,
        shape: FlowShape | None = None,
        *,
        base: Base = "identity",
        polish: PolishOption = "auto",
        step: StepOptions | None = None,
        policy: Policy = POLICY,
        random_seed: int | None = None,
    ) -> None:
        self.shape, self.step = shape or FlowShape(), step or StepOptions()
        one_of("optimizer", self.step.optimizer, OPTIMIZERS)
        check_base(base)
        self.base, self.polish, self.policy = base, resolve_polish(polish), policy
        self.random_seed = random_seed
        if isinstance(base, str) and base != "identity":
            self.name = f"bernstein-{base}"
        self.make_loop: LoopMaker = DensityLoop
        self.flow: BernsteinFlow | None = None
        self._trainer: Trainer | None = None
        self._whitening: Gaussian | None = None
        self._untrained: Array | None = None
        self._notes: tuple[str, ...] = ()

    def restart(self) -> None:
        self.flow = self._trainer = None

    # ---- a run -----------------------------------------------------------------------------

    def run(self, density: CountedDensity, start: Array, n: int, monitor: Monitor) -> FittedFlow:
        effort = Effort(density)
        if self._trainer is None or self.flow is None:
            if isinstance(self.base, str) and self.base != "identity":
                density.require_exact()
            self._prepare(density, start)
        assert self.flow is not None and self._trainer is not None
        flow, trainer = self.flow, self._trainer
        fit = FlowFit(flow, density)
        converged, reason = self._train(trainer, n, monitor)
        if not converged:
            logger.warning("the flow has not converged: %s", reason)
        polished = self.polish is not None and (
            self.polish.always or (trainer.estimate and len(trainer.losses) >= POLISHED_FROM)
        )
        stages = self._polished(fit) if polished else ()
        notes = (*self._notes, *(stage.describe() for stage in stages))
        fresh = None
        if not density.noisy:
            notes += self._keep_base(fit)
            rng = stream(self.random_seed, Purpose.FRESH)
            z = rng.standard_normal((FRESH_DRAWS, flow.latent_dimension))
            fresh = FreshDraws.from_log_ratios(fit.log_ratios(z))
        monitor.keep(np.asarray(trainer.losses))
        result = FitResult(
            method=self.name,
            converged=converged,
            stop_reason=reason,
            iterations=len(trainer.losses),
            **effort.spent(),
            random_seed=self.random_seed,
            fresh=fresh,
            notes=notes,
        )
        return FittedFlow(flow, result, stages)

    def retrain(self, step: StepOptions) -> None:
        """Have the next run train anew, with other steps, from the present flow."""
        self.step, self._trainer = step, None

    def _prepare(self, density: CountedDensity, start: Array) -> None:
        """The flow at its base, unless there is one already, and its trainer."""
        if self.flow is None:
            with density.clock.compiling():
                self.flow = self.make_flow(density, start)
                self.flow.warm_up()
            whitening = resolve_base(self.base, density, start, self.random_seed)
            self._whitening = whitening.q
            self._notes = (whitening.note,) if whitening.note else ()
            if whitening.q is not None:
                self.flow.set_base(whitening.q.mean, whitening.q.cov)
            self._untrained = self.flow.x.copy()
        self._trainer = self._new_trainer(density, self.step, Purpose.TRAIN)

    def make_flow(self, density: CountedDensity, start: Array) -> BernsteinFlow:
        """The flow at the identity around ``start`` (D,)."""
        permutation, leading = variable_order(blocks_of(density.density), self.shape.ordering)
        rng = stream(self.random_seed, Purpose.INITIAL)
        return BernsteinFlow(self.shape, permutation, leading, start, rng)

    def _new_trainer(self, density: CountedDensity, step: StepOptions, purpose: Purpose) -> Trainer:
        assert self.flow is not None
        flow, noisy = self.flow, density.noisy or step.normals is not None
        rng = stream(self.random_seed, purpose)
        with density.clock.compiling():
            loop = self.make_loop(flow, density, step, rng)
        return Trainer(
            loop=loop,
            learning_rate=None if step.update is not None else step.learning_rate,
            estimate=None if noisy else lambda: self._held_out(flow, density),
        )

    def _held_out(self, flow: BernsteinFlow, density: CountedDensity) -> Array:
        # the same normals at every check: the changes of the ELBO are then known more exactly
        rng = stream(self.random_seed or 0, Purpose.CHECKS)
        z = rng.standard_normal((CHECK_DRAWS, flow.latent_dimension))
        return FlowFit(flow, density).log_ratios(z)

    def _train(self, trainer: Trainer, n: int, monitor: Monitor) -> tuple[bool, str]:
        assert self.flow is not None
        flow = self.flow
        trainer.losses = []
        trainer.stride = 1 if monitor.callbacks and isinstance(trainer.loop, DensityLoop) else None
        trainer.after_steps = lambda losses: monitor.block(losses, lambda: flow)
        try:
            return trainer.run(n)
        except (KeyboardInterrupt, StopIteration) as stop:
            trainer.finish()
            why = str(stop) or type(stop).__name__
            return False, f"stopped after {len(trainer.losses)} steps: {why}"

    # ---- polish ----------------------------------------------------------------------------

    def _polished(self, fit: FlowFit) -> tuple[Stage, ...]:
        assert self.polish is not None
        return Polisher(
            fit,
            self.polish,
            policy=self.policy,
            random_seed=self.random_seed,
            train=self._train_weighted,
            make_guard=lambda: self._guard(fit),
        ).run()

    def _train_weighted(self, fit: FlowFit, settings: ImportanceWeighted) -> None:
        step = StepOptions(
            draws=settings.draws,
            group=settings.group,
            learning_rate=settings.learning_rate,
            max_norm=settings.max_norm,
        )
        self._new_trainer(fit.density, step, Purpose.POLISH).run(settings.steps, to_plateau=False)

    # ---- the base as a floor ---------------------------------------------------------------

    def _guard(self, fit: FlowFit) -> BaseGuard | None:
        if self._whitening is None:
            return None
        rng = stream(self.random_seed, Purpose.GUARD)
        K = max(fit.flow.latent_dimension, fit.flow.dimension)
        return BaseGuard(self._whitening, fit, rng.standard_normal((FRESH_DRAWS, K)), self.policy)

    def _keep_base(self, fit: FlowFit) -> tuple[str, ...]:
        """Put the untrained flow, which is the base, back where training left q worse than it."""
        guard = self._guard(fit)
        if guard is None or self._untrained is None or not guard.worse():
            return ()
        trained = fit.values()
        fit.restore([self._untrained, np.zeros_like(fit.flow.stretch)])
        if guard.worse():  # an untrained flow is its base but for the order of its polynomials
            fit.restore(trained)
            return ("the flow is slightly worse than its base; the base itself may be used",)
        return ("training left the flow worse than its base, which was kept instead",)
