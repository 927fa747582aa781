"""Bernstein flow variational inference on any density: base, ELBO phase, proposal, result."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.counted import noise_of
from pymc_ext.interrupts import is_interrupt, through_one
from pymc_ext.maths.types import Array
from pymc_ext.options import require_type
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage
from pymc_ext.variational.bernstein.polish.weighted import (
    ImportanceWeighted,
    Polish,
    PolishOption,
    resolve_polish,
)
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.bernstein.training.depth import Depth, share_of_rate
from pymc_ext.variational.bernstein.training.loops import DensityLoop, Loop, LoopMaker
from pymc_ext.variational.bernstein.training.trainer import Trainer
from pymc_ext.variational.bernstein.whitening import (
    Base,
    BaseOption,
    Given,
    Whitening,
    base_of,
    flow_base,
)
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.monitor import Monitor, kept_nothing
from pymc_ext.variational.core.posterior import FRESH_DRAWS, Posterior, fresh_draws
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.steps import StepOptions, SteppingAlgorithm
from pymc_ext.variational.core.variable_order import blocks_of, variable_order
from pymc_ext.variational.gaussian.numbers import antithetic, refuse_dense

logger = logging.getLogger(__name__)

CHECK_DRAWS = 1024  # held-out draws of one plateau check, and of one block's
KEPT = "training left the flow worse than its base, which was kept instead"
ADVICE = "the flow is far from the posterior; base='hierarchical' starts from a map fitted to it"


@dataclass(frozen=True)
class FittedFlow(Fitted[BernsteinFlow]):
    """The flow with what each training phase reached."""

    stages: tuple[Stage, ...] = ()


class FlowState(NamedTuple):
    """Where a fit is: its flow in its loop, of which steps, on which base, which it began as."""

    loop: Loop
    step: StepOptions
    whitening: Whitening
    untrained: Array


@dataclass(frozen=True)
class Bernstein(SteppingAlgorithm[BernsteinFlow]):
    """Algorithm of :class:`pymc_ext.BernsteinVI`, for any density.

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
    make_loop
        What takes the steps.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -(x**2).sum(1), lambda x: -2 * x, dimension=2)
    >>> algorithm = Bernstein(FlowShape(order=5), polish=None)
    >>> fitted = algorithm.fit(density, n=2000, random_seed=1)
    >>> bool(abs(fitted.result.log_marginal_is - np.log(np.pi)) < 0.02)
    True
    """

    default_budget: ClassVar[int] = 20_000
    shape: FlowShape = field(default_factory=FlowShape)
    base: BaseOption | None = field(default=None, kw_only=True)
    polish: PolishOption = field(default="auto", kw_only=True)
    policy: Policy = field(default=POLICY, kw_only=True)
    make_loop: LoopMaker = field(default=DensityLoop, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_type("shape", self.shape, FlowShape)
        require_type("policy", self.policy, Policy)
        base = self.base_asked_for
        if isinstance(base, Given):  # by a q, or by the pair that it is made of
            object.__setattr__(self, "base", base.q)
        object.__setattr__(self, "polish", resolve_polish(self.polish))

    @property
    def base_asked_for(self) -> Base:
        """What ``base`` asks for."""
        return base_of(self.base, self.shape.ordering)

    @property
    def name(self) -> str:
        name = self.base_asked_for.name
        return f"bernstein-{name}" if name else "bernstein"

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> FittedFlow:
        refuse_dense(density.dimension, "a flow")
        with kept_nothing():
            training = _Training.begin(self, density, start, seed, state)
        flow, losses = training.loop.flow, training.losses
        converged, reason = training.train(budget, monitor)
        of_a_user = monitor.approx is not None  # no ladder's rung
        if of_a_user and not converged and not density.noisy:
            logger.warning("the flow has not converged: %s", reason)
        note = training.whitening.note
        notes: tuple[str, ...] = (note,) if note else ()
        fresh: FreshDraws | None = None
        if not density.noisy:
            # somebody waits who has pressed Ctrl-C: the next one is raised
            judge = training.judged
            fresh, more = judge() if training.interrupted else through_one(judge)
            notes += more
        proposal: Posterior | None = None
        fresh_proposal: FreshDraws | None = None
        stages: tuple[Stage, ...] = ()
        if not training.interrupted:
            try:
                proposal, fresh_proposal, stages = training.proposal(fresh)
            except (KeyboardInterrupt, SystemError) as stop:
                if not is_interrupt(stop):
                    raise
                reason = stopped(losses, f"{KeyboardInterrupt.__name__} before a proposal was made")
                converged = False
        notes += tuple(stage.describe() for stage in stages)
        monitor.keep(np.asarray(losses))
        result = FitResult(
            method=self.name,
            converged=converged,
            stop_reason=reason,
            iterations=len(losses),
            fresh=fresh,
            fresh_proposal=fresh_proposal,
            notes=notes,
        )
        return FittedFlow(flow, result, training.state, proposal, stages)

    def make_flow(self, density: CountedDensity, start: Array, seed: int | None) -> BernsteinFlow:
        """The flow at the identity around ``start`` (D,)."""
        order, leading = variable_order(blocks_of(density.density), self.shape.ordering)
        rng = stream(seed, Purpose.INITIAL)
        return BernsteinFlow(self.shape, Affine(order, start[order]), leading, rng)


@dataclass
class _Training:
    """One fit of a flow: what ``algorithm`` says, on ``density``, by the steps of ``loop``."""

    algorithm: Bernstein
    density: CountedDensity
    seed: int | None
    loop: Loop
    whitening: Whitening
    untrained: Array
    losses: list[float] = field(default_factory=list)
    interrupted: bool = False  # by Ctrl-C, after which nothing else is begun

    @classmethod
    def begin(
        cls,
        algorithm: Bernstein,
        density: CountedDensity,
        start: Array,
        seed: int | None,
        state: object | None,
    ) -> _Training:
        """At the base, or where ``state`` is: with its steps, or others from its flow."""
        if isinstance(state, FlowState):
            loop, whitening, untrained = state.loop.fork(density), state.whitening, state.untrained
            identity, present = loop.flow.identity(), loop.vector
            if identity is not None and np.array_equal(present[: len(identity)], identity):
                # shut, no step would move it
                loop.vector = np.concatenate([untrained, present[len(identity) :]])
            if state.step != algorithm.step:
                loop = _make_loop(algorithm, loop.flow, density, algorithm.step, seed)
            return cls(algorithm, density, seed, loop, whitening, untrained)
        base = algorithm.base_asked_for
        if base.name and density.noisy:
            raise ValueError(
                f"{noise_of(density.density)}, and base={base.name!r} is fitted to one that is "
                "exact: leave out base=, or give as base a q or a pair (mean, cov) of a fit to "
                "part of the rows"
            )
        with density.clock.compiling():
            flow = algorithm.make_flow(density, start, seed)
            flow.warm_up()
        whitening = base.whiten(density, start, seed)
        if whitening.q is not None:
            flow.base = flow_base(whitening.q, flow.base.order)
        untrained = flow.x.copy()
        loop = _make_loop(algorithm, flow, density, algorithm.step, seed)
        training = cls(algorithm, density, seed, loop, whitening, untrained)
        training.interrupted = whitening.interrupted
        return training

    @property
    def state(self) -> FlowState:
        """From which another run goes on."""
        return FlowState(self.loop, self.algorithm.step, self.whitening, self.untrained)

    @property
    def fit(self) -> FlowFit:
        """The flow, as it is now, on its density."""
        return FlowFit(self.loop.flow, self.density)

    @property
    def noisy(self) -> bool:
        """Whether neither the density nor the steps' normals can be judged on fresh draws."""
        return self.density.noisy or self.algorithm.step.normals is not None

    def train(self, budget: int, monitor: Monitor) -> tuple[bool, str]:
        """At most ``budget`` steps; whether the ELBO is level, and why they ended."""
        if self.interrupted:  # as the base was fitted, which is the flow then
            self._put_base()
            return False, stopped(self.losses, KeyboardInterrupt.__name__)
        step, flow = self.algorithm.step, self.loop.flow
        share = share_of_rate(flow.dimension) if self.by_need else 1.0
        trainer = Trainer(
            loop=self.loop,
            learning_rate=None if step.update is not None else share * step.learning_rate,
            estimate=None if self.noisy else self._held_out,
            log_ratios=None if self.density.noisy else self._held_out,
            after_steps=lambda losses: monitor.block(losses, lambda: flow),
            stride=1 if monitor.callbacks and isinstance(self.loop, DensityLoop) else None,
            losses=self.losses,
            of_batches=self.density.noisy,
        )
        depth = Depth(trainer, self.density, self._judging()) if self.by_need else None
        try:
            return depth.run(budget, self._starts()) if depth else trainer.run(budget)
        except (KeyboardInterrupt, StopIteration, SystemError) as stop:
            if isinstance(stop, SystemError) and not is_interrupt(stop):
                raise
            trainer.finish()
            if depth:
                depth.settle(stopped=True)
            self.interrupted = not isinstance(stop, StopIteration)
            by_callback = str(stop) or type(stop).__name__
            why = KeyboardInterrupt.__name__ if self.interrupted else by_callback
            return False, stopped(self.losses, why)

    @property
    def by_need(self) -> bool:
        """Whether steps are taken only where they gain something over a base that was fitted."""
        own_steps = self.algorithm.step.update is None
        exact = not self.noisy and not self.density.extra_size
        return self.whitening.q is not None and own_steps and exact

    def _starts(self) -> tuple[Array, ...]:
        """The base, where a flow can be it, and what an earlier training left."""
        identity, present = self.loop.flow.identity(), self.loop.vector
        if identity is None:
            return (present,)
        return (identity,) if np.array_equal(present, self.untrained) else (identity, present)

    def _judging(self) -> Array:
        """Normals in mirrored pairs, (N, K)."""
        rng = stream(self.seed, Purpose.CHECKS)
        return antithetic(rng, CHECK_DRAWS, self.loop.flow.latent_dimension)

    def _held_out(self) -> Array:
        # the same normals at every check: the changes of the ELBO are then known more exactly
        rng = stream(self.seed or 0, Purpose.CHECKS)
        z = rng.standard_normal((CHECK_DRAWS, self.loop.flow.latent_dimension))
        return self.fit.log_ratios(z)

    # ---- proposal --------------------------------------------------------------------------

    def proposal(
        self, fresh: FreshDraws | None
    ) -> tuple[Posterior | None, FreshDraws | None, tuple[Stage, ...]]:
        """What is better than q for importance weights, with its own fresh draws, and what was
        tried; ``fresh`` are q's."""
        polish = self.algorithm.polish
        assert polish is None or isinstance(polish, Polish)
        if polish is None:
            return None, None, ()
        if self.by_need and polish.defend and fresh is not None:
            from pymc_ext.variational.core.defensive import defended  # as late as the next one's

            return *defended(self.loop.flow, self.density, fresh, self.seed), ()
        long_enough = len(self.losses) >= self.algorithm.policy.fewest_steps
        if not (polish.always or (long_enough and not self.noisy)):
            return None, None, ()
        proposal, stages = self._polished(polish)
        if proposal is None:
            return None, None, stages
        rng = stream(self.seed, Purpose.FRESH)
        return proposal, fresh_draws(proposal, self.density, rng), stages

    def _polished(self, polish: Polish) -> tuple[BernsteinFlow | None, tuple[Stage, ...]]:
        """A flow that is better than q for importance weights, if there is one; what was tried."""
        from pymc_ext.variational.bernstein.polish.polisher import Polisher  # not of short fits

        self.density.require_exact()
        fit = FlowFit(deepcopy(self.loop.flow), self.density)
        stages = Polisher(
            fit,
            polish,
            policy=self.algorithm.policy,
            random_seed=self.seed,
            train=self._train_weighted,
        ).run()
        return (None if stages[0].kept else fit.flow), stages

    def _train_weighted(self, fit: FlowFit, settings: ImportanceWeighted) -> None:
        step = StepOptions(
            draws=settings.draws,
            group=settings.group,
            learning_rate=settings.learning_rate,
            max_norm=settings.max_norm,
            gradient=self.algorithm.step.gradient,
        )
        loop = _make_loop(self.algorithm, fit.flow, fit.density, step, self.seed, Purpose.POLISH)
        Trainer(loop, step.learning_rate, estimate=None).run(settings.steps, to_plateau=False)

    # ---- the base as a floor ---------------------------------------------------------------

    def judged(self) -> tuple[FreshDraws, tuple[str, ...]]:
        """Fresh draws of q, which is its base where training ran away from it, and notes."""
        fresh = self._fresh_draws()
        fitted = self.whitening.q is not None
        # a flow around the start is meant to leave that: only a poor one is compared with it
        notes = self.keep_base(fresh.usable) if fitted or not fresh.usable else ()
        if notes:
            fresh = self._fresh_draws()
        if not (fitted or fresh.usable):
            notes += (f"{fresh.verdict}: {ADVICE}",)
        return fresh, notes

    def _fresh_draws(self) -> FreshDraws:
        return fresh_draws(self.loop.flow, self.density, stream(self.seed, Purpose.FRESH))

    def keep_base(self, usable: bool) -> tuple[str, ...]:
        """Put the base back, as a flow that changes nothing, where training left q below it.

        By more than Monte Carlo error where weights of q are ``usable``. Else a few draws far out
        make most of both ELBOs, and of that error too: the higher one is taken.
        """
        loop, trained = self.loop, self.loop.vector
        identity = loop.flow.identity()
        if identity is not None and np.array_equal(trained[: len(identity)], identity):
            return (KEPT,) if self.losses else ()  # steps were taken, and judged, in vain
        if not self._below_base(usable):
            return ()
        exact = identity is not None
        self._put_base()
        if not exact and self._below_base(usable):  # a flow near the identity has the same flaw
            loop.vector = trained
            return ("the flow is slightly worse than its base; the base itself may be used",)
        return (KEPT,)

    def _put_base(self) -> None:
        """The base in place of the flow, or nearly where no flow of this kind is the identity."""
        loop, identity = self.loop, self.loop.flow.identity()
        base = self.untrained if identity is None else identity
        loop.vector = np.concatenate([base, loop.vector[len(base) :]])

    def _below_base(self, usable: bool) -> bool:
        z = stream(self.seed, Purpose.GUARD).standard_normal(
            (FRESH_DRAWS, self.loop.flow.latent_dimension)
        )
        policy = self.algorithm.policy
        return self.fit.below_base(z, policy if usable else replace(policy, standard_errors=0.0))


def stopped(losses: list[float], why: str) -> str:
    """Why a fit ended before its time."""
    return f"stopped after {len(losses)} steps: {why}"


def _make_loop(
    algorithm: Bernstein,
    flow: BernsteinFlow,
    density: CountedDensity,
    step: StepOptions,
    seed: int | None,
    purpose: Purpose = Purpose.TRAIN,
) -> Loop:
    with density.clock.compiling():
        return algorithm.make_loop(flow, density, step, stream(seed, purpose))
