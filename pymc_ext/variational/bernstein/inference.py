"""``pm.fit`` for a flow: base, ELBO phase, optional importance-weighted phase, result."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.replace import graph_replace
from rich.progress import Progress

from pymc_ext.variational.bernstein.approximation import BernsteinApproximation
from pymc_ext.variational.bernstein.polish.stretching import fitted_tails, stretch
from pymc_ext.variational.bernstein.polish.weighted import ImportanceWeighted, Stage, better, judge
from pymc_ext.variational.bernstein.polish.widening import widen
from pymc_ext.variational.bernstein.training.loops import LOOPS
from pymc_ext.variational.bernstein.training.trainer import (
    GuardedOptimizer,
    Trainer,
    importance_weighted_bound,
)
from pymc_ext.variational.bernstein.whitening import resolve_base
from pymc_ext.variational.core.base import FRESH, TRAIN, StochasticInference, stream
from pymc_ext.variational.core.result import FitResult, FreshDraws

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
CHECK_DRAWS = 1024  # held-out draws of one plateau check
FRESH_DRAWS = 4096  # behind the final ELBO
GOOD_KHAT, GOOD_ESS = 0.3, 0.999  # a fit that reaches one of them is polished only when asked for
FAIR_KHAT = 0.4  # below which wider latent variables are tried, but nothing more is trained
NEARLY_RIGHT = 0.9  # relative ESS beyond which wider latent variables alone may do
LARGEST_LOSS = 0.06  # of ELBO since the first phase, in nats, beyond which nothing is widened
# purposes of random numbers, beyond the base module's
CHECKS, JUDGE, POLISH, STRETCH = 101, 102, 103, 104


@dataclass(frozen=True)
class StepOptions:
    """What one optimiser step is made of; names as in :meth:`pymc.Inference.fit`."""

    draws: int
    group: int = 1  # draws in one group of the importance-weighted bound
    learning_rate: float = 0.01
    obj_optimizer: Callable[..., Any] | None = None
    max_norm: float | None = None
    more_obj_params: Sequence[Any] = ()
    more_updates: Mapping[Any, Any] = field(default_factory=dict)
    more_replacements: Mapping[Any, Any] = field(default_factory=dict)


class FlowInference(StochasticInference):
    """Trains a :class:`BernsteinApproximation`; the options are those of :class:`BernsteinVI`."""

    approx: BernsteinApproximation

    def __init__(
        self,
        approx: BernsteinApproximation,
        *,
        base: Any,
        polish: ImportanceWeighted | str | None,
        optimizer: str,
        learning_rate: float,
        backend: str,
        start: Mapping[str, Any] | None,
        random_seed: int | None,
    ) -> None:
        super().__init__(approx, random_seed=random_seed)
        self.base, self.polish, self.start = base, polish, start
        self.optimizer, self.learning_rate, self.backend = optimizer, learning_rate, backend
        self.hist: Array = np.asarray(())
        self._based = isinstance(base, str) and base == "identity"
        self._notes: tuple[str, ...] = ()
        self._trainer: Trainer | None = None
        self._polishing_evaluations = 0
        self._callbacks: tuple[Callable[..., Any], ...] = ()
        self._score = True

    # ---- pm.fit ----------------------------------------------------------------------------

    def fit(  # type: ignore[override]  # the base class forwards what PyMC's own loop takes
        self,
        n: int = 20_000,
        score: bool | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        progressbar: bool = True,
        progressbar_theme: Any = None,
        *,
        obj_n_mc: int = 10,
        obj_optimizer: Callable[..., Any] | None = None,
        total_grad_norm_constraint: float | None = None,
        more_obj_params: Sequence[Any] | None = None,
        more_updates: Mapping[Any, Any] | None = None,
        more_replacements: Mapping[Any, Any] | None = None,
        compile_kwargs: Mapping[str, Any] | None = None,
        backend: str | None = None,
        include_transformed: bool = False,
        **unsupported: Any,
    ) -> BernsteinApproximation:
        """Fit and return the approximation; arguments as :meth:`pymc.Inference.fit`.

        ``obj_optimizer`` replaces the built-in optimiser with its schedule and average.
        ``more_obj_params`` are shared variables (a network's weights, say) trained jointly.
        ``callbacks`` may raise StopIteration; the fit so far is then returned.
        """
        if unsupported:
            raise TypeError(f"{type(self).__name__}.fit does not take {sorted(unsupported)}")
        for label, value, least in (("n", n, 0), ("obj_n_mc", obj_n_mc, 1)):
            if not isinstance(value, int | np.integer) or value < least:
                raise ValueError(f"{label} must be an integer >= {least}, got {value!r}")
        begin = time.perf_counter()
        self.approx.use_compile_options(self.backend, backend, compile_kwargs)
        for group in self.approx.groups:
            group.include_transformed = include_transformed
        self._callbacks, self._score = tuple(callbacks or ()), score is None or score
        self._require_finite_start()
        if isinstance(self.polish, ImportanceWeighted):
            self.approx.require_exact_logp()
        if n == 0:
            return self._report(begin, False, "n = 0: initialised only", 0, ())
        self._use_base()
        options = StepOptions(
            draws=int(obj_n_mc),
            learning_rate=self.learning_rate,
            obj_optimizer=obj_optimizer,
            max_norm=total_grad_norm_constraint,
            more_obj_params=tuple(more_obj_params or ()),
            more_updates=dict(more_updates or {}),
            more_replacements=dict(more_replacements or {}),
        )
        self._trainer, self._polishing_evaluations = self._new_trainer(options, TRAIN), 0
        return self._run(self._trainer, int(n), begin, progressbar)

    def refine(self, n: int, progressbar: bool = True, progressbar_theme: Any = None) -> None:
        """Continue the ELBO training from the present parameters for at most ``n`` steps."""
        if self._trainer is None:
            raise TypeError("call fit before refine")
        self._run(self._trainer, n, time.perf_counter(), progressbar)

    def _run(
        self, trainer: Trainer, n: int, begin: float, progressbar: bool
    ) -> BernsteinApproximation:
        trainer.losses = []
        converged = False
        with Progress(disable=not progressbar) as bar:
            trainer.after_steps = self._reporter(trainer, bar, bar.add_task("Fitting", total=n))
            try:
                converged, reason = trainer.run(n)
            except (KeyboardInterrupt, StopIteration) as stop:
                trainer.finish()
                why = str(stop) or type(stop).__name__
                reason = f"stopped after {len(trainer.losses)} steps: {why}"
        if self._score:
            self.hist = np.concatenate([self.hist, trainer.losses])
        if not converged:
            logger.warning("the flow has not converged: %s", reason)
        stages: tuple[Stage, ...] = ()
        if isinstance(self.polish, ImportanceWeighted):
            stages = self._polish(self.polish, progressbar)
        elif self.polish and trainer.estimate and len(trainer.losses) >= ImportanceWeighted.steps:
            stages = self._polish(ImportanceWeighted(), progressbar, always=False)
        return self._report(begin, converged, reason, len(trainer.losses), stages)

    # ---- parts of a fit --------------------------------------------------------------------

    def _require_finite_start(self) -> None:
        if self.approx.has_minibatch:
            return
        value = self.approx.log_p_at_start()
        if not np.isfinite(value):
            raise ValueError(
                f"log p̃ is {value} at the starting point {self.approx.group.start}: give start= a "
                "point where the density is positive and finite, by variable name"
            )

    def _use_base(self) -> None:
        if self._based:
            return
        mean, cov, note = resolve_base(
            self.base, self.approx, start=self.start, random_seed=self.random_seed
        )
        self.approx.group.set_base(mean, cov)
        self._notes, self._based = ((note,) if note else ()), True

    def _new_trainer(self, options: StepOptions, purpose: int) -> Trainer:
        approx = self.approx
        optimizer = None
        if options.obj_optimizer is None:
            optimizer = GuardedOptimizer(self.optimizer, options.max_norm)
        with approx.building():
            # a static number of draws: JAX compiles for one shape
            z = pt.matrix("z", shape=(options.draws, approx.group.latent_dim))
            replacements = dict(options.more_replacements)
            normals = replacements.pop(approx.group.symbolic_initial, z)
            loss = -importance_weighted_bound(approx.symbolic_log_ratio(normals), options.group)
            if replacements:
                loss = graph_replace(loss, replacements, strict=False)
            loss, updates = self._updates(loss, options, optimizer)
            rng = stream(self.random_seed, purpose)
            loop = LOOPS[self.backend](approx, z, loss, updates, options.draws, rng)
        exact = not approx.has_minibatch and not options.more_replacements
        return Trainer(
            loop=loop,
            optimizer=optimizer,
            learning_rate=options.learning_rate,
            estimate=self._held_out if exact else None,
            stride=1 if self._callbacks and self.backend == "pytensor" else None,
        )

    def _updates(
        self, loss: Any, options: StepOptions, optimizer: GuardedOptimizer | None
    ) -> tuple[Any, dict[Any, Any]]:
        params = [*self.approx.params, *options.more_obj_params]
        updates: dict[Any, Any] = {}
        if optimizer is not None:
            loss, updates = optimizer(loss, params)
        elif options.obj_optimizer is not None:
            gradients = pt.grad(loss, params, disconnected_inputs="ignore")
            if options.max_norm is not None:
                gradients = pm.total_norm_constraint(gradients, options.max_norm)
            updates = dict(options.obj_optimizer(gradients, params))
        return loss, {**updates, **options.more_updates}

    def _held_out(self) -> Array:
        # the same normals at every check: the changes of the ELBO are then known more exactly
        z = self.approx.latent_draws(CHECK_DRAWS, stream(self.random_seed or 0, CHECKS))
        return self.approx.log_ratios(z)

    def _reporter(self, trainer: Trainer, bar: Progress, task: Any) -> Callable[[Array], None]:
        def after_steps(losses: Array) -> None:
            done = len(trainer.losses)
            if len(losses) > 1 or done % 100 == 0:
                bar.update(task, completed=done)
            for callback in self._callbacks:
                callback(self.approx, np.asarray(trainer.losses), len(self.hist) + done)

        return after_steps

    def _polish(
        self, polish: ImportanceWeighted, progressbar: bool, always: bool = True
    ) -> tuple[Stage, ...]:
        """Adjust tails and scales, before and after importance-weighted training; keep the best.

        All stages are judged on the same draws. Where ``polish`` is not asked for expressly
        (``always``), nothing is done to a good fit, and nothing is trained for a fair one.
        """
        approx = self.approx
        z = approx.latent_draws(polish.judge_draws, stream(self.random_seed, JUDGE))
        best, unpolished = judge("ELBO", approx, z), _values(approx)
        stages, kept, floor = [best], unpolished, best.elbo - LARGEST_LOSS
        if not always and _is_good(best):
            return (replace(best, kept=True),)
        train = self.polish != "widening"
        may_widen = best.relative_ess > NEARLY_RIGHT or not train
        tails = self._tails(best)
        if adjusted := self._adjust(z, best, floor, tails, may_widen):
            stages += adjusted
            best, kept = adjusted[-1], _values(approx)
        if train and (always or not (_is_good(best) or best.khat < FAIR_KHAT)):
            _restore(approx, unpolished)
            if len(tails):
                approx.group.stretch.set_value(tails[-1])
            self._train_weighted(polish, progressbar)
            polished = judge("importance-weighted bound", approx, z)
            adjusted = self._adjust(z, polished, floor, self._tails(polished))
            stages += [polished, *adjusted]
            polished = stages[-1]
            if better(polished, best):
                best, kept = polished, _values(approx)
        _restore(approx, kept)
        return tuple(replace(stage, kept=stage is best) for stage in stages)

    def _tails(self, plain: Stage) -> Array:
        return fitted_tails(self.approx, plain, stream(self.random_seed, STRETCH))

    def _adjust(
        self, z: Array, plain: Stage, floor: float, tails: Array, may_widen: bool = True
    ) -> list[Stage]:
        """Stretch the tails, then widen where k̂ is not good by that: the stages that lowered k̂."""
        stages: list[Stage] = []
        if stretched := stretch(self.approx, z, plain, GOOD_KHAT, floor, tails):
            stages.append(stretched)
            plain = stretched
        if may_widen and plain.khat >= GOOD_KHAT:
            wide = widen(self.approx, z, plain, GOOD_KHAT, floor)
            stages += [wide] if wide else []
        return stages

    def _train_weighted(self, polish: ImportanceWeighted, progressbar: bool) -> None:
        options = StepOptions(
            draws=polish.draws,
            group=polish.group,
            learning_rate=polish.learning_rate,
            max_norm=polish.max_norm,
        )
        trainer = self._new_trainer(options, POLISH)
        with Progress(disable=not progressbar) as bar:
            task = bar.add_task("Polishing", total=polish.steps)
            trainer.after_steps = lambda losses: bar.update(task, advance=len(losses))
            trainer.run(polish.steps, to_plateau=False)
        self._polishing_evaluations += trainer.evaluations

    def _report(
        self,
        begin: float,
        converged: bool,
        reason: str,
        steps: int,
        stages: tuple[Stage, ...],
    ) -> BernsteinApproximation:
        approx = self.approx
        fresh = None
        if steps and not approx.has_minibatch:
            z = approx.latent_draws(FRESH_DRAWS, stream(self.random_seed, FRESH))
            fresh = FreshDraws.from_log_ratios(approx.log_ratios(z))
        approx.hist, approx.stages = self.hist, stages
        evaluations = self._trainer.evaluations if self._trainer is not None else 0
        evaluations += self._polishing_evaluations
        wall = time.perf_counter() - begin
        approx.result = FitResult(
            method=self.name,
            converged=converged,
            stop_reason=reason,
            iterations=steps,
            seconds=max(wall - approx.compile_seconds, 0.0),
            compile_seconds=approx.compile_seconds,
            density_evaluations=evaluations,
            gradient_evaluations=evaluations,
            random_seed=self.random_seed,
            fresh=fresh,
            notes=(*self._notes, *(stage.describe() for stage in stages)),
        )
        return approx


def _is_good(stage: Stage) -> bool:
    return stage.khat < GOOD_KHAT or stage.relative_ess > GOOD_ESS


def _values(approx: BernsteinApproximation) -> list[Array]:
    return [p.get_value() for p in (*approx.params, approx.group.stretch)]


def _restore(approx: BernsteinApproximation, values: list[Array]) -> None:
    for p, value in zip((*approx.params, approx.group.stretch), values, strict=True):
        p.set_value(value)
