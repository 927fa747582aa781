"""From q to a proposal: tails and scales adjusted, a bound trained, the best for weights kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.polish import stages as measuring
from pymc_ext.variational.bernstein.polish import stretching, widening
from pymc_ext.variational.bernstein.polish.policy import Policy
from pymc_ext.variational.bernstein.polish.stages import FlowFit, Stage, better
from pymc_ext.variational.bernstein.polish.weighted import ImportanceWeighted, Polish
from pymc_ext.variational.core.seeds import Purpose, stream


@dataclass
class Polisher:
    """Makes a proposal of the flow of ``fit``, in place: a copy of q's.

    Parameters
    ----------
    fit
        A flow trained on the ELBO, and its density.
    settings, policy
        Which ways are tried, and the thresholds between them.
    random_seed
        Of judging and of the fit of the tails.
    train
        Trains the flow in place on the importance-weighted bound.
    """

    fit: FlowFit
    settings: Polish
    policy: Policy
    random_seed: int | None
    train: Callable[[FlowFit, ImportanceWeighted], None]

    def __post_init__(self) -> None:
        weighted = self.settings.weighted or ImportanceWeighted()
        rng = stream(self.random_seed, Purpose.JUDGE)
        self._z = rng.standard_normal((weighted.judge_draws, self.fit.flow.latent_dimension))

    def run(self) -> tuple[Stage, ...]:
        """Adjust tails and scales, before and after importance-weighted training; keep the best.

        Where polishing is not asked for expressly, nothing is done to a good fit, and nothing is
        trained for a fair one.
        """
        settings, policy, fit = self.settings, self.policy, self.fit
        plain, unpolished = measuring.measure(measuring.TRAINED, fit, self._z, policy), fit.values()
        if not settings.always and self._is_good(plain):
            return (replace(plain, kept=True),)
        floor, tails = plain.elbo - policy.largest_loss, self._tails(plain)
        may_widen = plain.relative_ess > policy.nearly_right or settings.weighted is None
        stages = [plain, *self._adjust(plain, floor, tails, may_widen)]
        best, kept = stages[-1], fit.values()
        good = self._is_good(best) or best.khat < policy.fair_khat
        if settings.weighted is not None and (settings.always or not good):
            fit.restore(unpolished)
            if len(tails):
                fit.flow.stretch[...] = tails[-1]
            stages += self._trained(settings.weighted, floor)
            if better(stages[-1], best, policy):
                best, kept = stages[-1], fit.values()
        fit.restore(kept)
        return tuple(replace(stage, kept=stage is best) for stage in stages)

    def _trained(self, settings: ImportanceWeighted, floor: float) -> list[Stage]:
        """Stages of the importance-weighted phase, from the flow as it is."""
        self.train(self.fit, settings)
        trained = measuring.measure("importance-weighted bound", self.fit, self._z, self.policy)
        return [trained, *self._adjust(trained, floor, self._tails(trained))]

    def _is_good(self, stage: Stage) -> bool:
        return stage.khat < self.policy.good_khat or stage.relative_ess > self.policy.good_ess

    def _tails(self, plain: Stage) -> Array:
        if not self.settings.stretch:
            return np.empty((0, 2, self.fit.flow.dimension))
        rng = stream(self.random_seed, Purpose.STRETCH)
        return stretching.fitted_tails(self.fit, plain, rng, self.policy)

    def _adjust(
        self, plain: Stage, floor: float, tails: Array, may_widen: bool = True
    ) -> list[Stage]:
        """Stretch the tails, then widen where k̂ is not good by that: the stages that lowered k̂."""
        stages: list[Stage] = []
        fit, z, policy = self.fit, self._z, self.policy
        if stretched := stretching.stretch_tails(fit, z, plain, floor, tails, policy):
            stages.append(stretched)
            plain = stretched
        if may_widen and self.settings.widen and plain.khat >= policy.good_khat:
            wide = widening.widen(fit, z, plain, floor, policy)
            stages += [wide] if wide else []
        return stages
