"""Bernstein flow variational inference on any density: base, ELBO phase, polish, result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.polish import stages as judging
from pymc_ext.variational.bernstein.polish import stretching, widening
from pymc_ext.variational.bernstein.polish.guard import BaseGuard
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage, better
from pymc_ext.variational.bernstein.polish.weighted import (
    ImportanceWeighted,
    PolishOption,
    resolve_polish,
)
from pymc_ext.variational.bernstein.shape import FlowShape, blocks_of, one_of, variable_order
from pymc_ext.variational.bernstein.training.loops import (
    OPTIMIZERS,
    DensityLoop,
    LoopMaker,
    StepOptions,
)
from pymc_ext.variational.bernstein.training.trainer import Trainer
from pymc_ext.variational.bernstein.whitening import Base, check_base, resolve_base
from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.core.effort import Effort
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
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


class Bernstein(Algorithm[BernsteinFlow]):
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
    takes_noise = True

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
        stages = self.polish_flow(fit) if polished else ()
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

    def polish_flow(self, fit: FlowFit) -> tuple[Stage, ...]:
        """Adjust tails and scales, before and after importance-weighted training; keep the best.

        Where polishing is not asked for expressly, nothing is done to a good fit, and nothing is
        trained for a fair one.
        """
        polish, policy, flow = self.polish, self.policy, fit.flow
        assert polish is not None
        weighted = polish.weighted or ImportanceWeighted()
        rng = stream(self.random_seed, Purpose.JUDGE)
        z = rng.standard_normal((weighted.judge_draws, flow.latent_dimension))
        best, unpolished = judging.judge("ELBO", fit, z), _values(flow)
        stages, kept = [best], unpolished
        if not polish.always and self._is_good(best):
            return (replace(best, kept=True),)
        guard = self._guard(fit)
        allowed = (lambda: not guard.worse()) if guard is not None else (lambda: True)
        floor = best.elbo - policy.largest_loss
        may_widen = best.relative_ess > policy.nearly_right or polish.weighted is None
        tails = self._tails(fit, best)
        if adjusted := self._adjust(fit, z, best, floor, tails, allowed, may_widen):
            stages += adjusted
            best, kept = adjusted[-1], _values(flow)
        good = self._is_good(best) or best.khat < policy.fair_khat
        if polish.weighted is not None and (polish.always or not good):
            _restore(flow, unpolished)
            if len(tails):
                flow.stretch[...] = tails[-1]
            self._train_weighted(fit, polish.weighted)
            polished = judging.judge("importance-weighted bound", fit, z)
            tails = self._tails(fit, polished)
            adjusted = self._adjust(fit, z, polished, floor, tails, allowed)
            stages += [polished, *adjusted]
            polished = stages[-1]
            if better(polished, best, policy) and allowed():
                best, kept = polished, _values(flow)
        _restore(flow, kept)
        return tuple(replace(stage, kept=stage is best) for stage in stages)

    def _is_good(self, stage: Stage) -> bool:
        return stage.khat < self.policy.good_khat or stage.relative_ess > self.policy.good_ess

    def _tails(self, fit: FlowFit, plain: Stage) -> Array:
        if self.polish is None or not self.polish.stretch:
            return np.empty((0, 2, fit.flow.dimension))
        rng = stream(self.random_seed, Purpose.STRETCH)
        return stretching.fitted_tails(fit, plain, rng, self.policy)

    def _adjust(
        self,
        fit: FlowFit,
        z: Array,
        plain: Stage,
        floor: float,
        tails: Array,
        allowed: Callable[[], bool],
        may_widen: bool = True,
    ) -> list[Stage]:
        """Stretch the tails, then widen where k̂ is not good by that: the stages that lowered k̂."""
        stages: list[Stage] = []
        policy = self.policy
        if stretched := stretching.stretch(fit, z, plain, floor, tails, allowed, policy):
            stages.append(stretched)
            plain = stretched
        may_widen &= self.polish is not None and self.polish.widen
        if may_widen and plain.khat >= policy.good_khat:
            wide = widening.widen(fit, z, plain, floor, allowed, policy)
            stages += [wide] if wide else []
        return stages

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
        trained = _values(fit.flow)
        _restore(fit.flow, [self._untrained, np.zeros_like(fit.flow.stretch)])
        if guard.worse():  # an untrained flow is its base but for the order of its polynomials
            _restore(fit.flow, trained)
            return ("the flow is slightly worse than its base; the base itself may be used",)
        return ("training left the flow worse than its base, which was kept instead",)


def _values(flow: BernsteinFlow) -> list[Array]:
    return [flow.x.copy(), flow.stretch.copy()]


def _restore(flow: BernsteinFlow, values: list[Array]) -> None:
    flow.set(values[0])
    flow.stretch[...] = values[1]
