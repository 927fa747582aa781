"""Deterministic variational inference: normals z drawn once, quasi-Newton on the parameters.

Objective (Gianniotis, eq. 6): (1/S) Σ_s [log p̃(T(z_s)) − log q(T(z_s))], any :class:`Family` T.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.maths.walled import walled
from pymc_ext.options import require_count, require_type
from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.core.monitor import UNFINISHED, Monitor, nothing_yet, unfinished
from pymc_ext.variational.core.posterior import Posterior, fresh_draws
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.elbo.normals import KINDS, fixed_normals
from pymc_ext.variational.elbo.objective import DrawsObjective, Family

logger = logging.getLogger(__name__)

OPTIMIZERS = ("lbfgs", "trust-krylov")
TOLERANCE = 1e-5  # nats gained in one iteration below which the optimiser stops
# Nats gained in the last iteration above which an optimiser that stopped is not at rest: its own
# tolerance is relative, and lets pass a nat where −ELBO goes from 1 to −100,000.
AT_REST = 1e-3
GRADIENT_TOLERANCE = 1e-4  # nats per unit of the whitened parameters
GAP_TOLERANCE = 0.02  # nats by which train and fresh ELBO may always differ


@dataclass(frozen=True)
class FixedDraws:
    """How a fit on fixed draws is made.

    Parameters
    ----------
    draws, max_draws
        Number S of draws at first, and at most: S is multiplied by four as long as the
        training ELBO exceeds the fresh one by more than chance.
    kind
        ``"sobol"``, or ``"iid"`` as in the paper; see :func:`fixed_normals`.
    optimizer
        ``"lbfgs"`` or ``"trust-krylov"``.
    """

    draws: int = 1024
    max_draws: int = 16_384
    kind: str = "sobol"
    optimizer: str = "lbfgs"

    def __post_init__(self) -> None:
        require_count("draws", self.draws, least=2)
        if not isinstance(self.max_draws, int | np.integer) or self.max_draws < self.draws:
            raise ValueError(
                f"max_draws must be an integer of at least draws = {self.draws}, got "
                f"{self.max_draws!r}"
            )
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {self.kind!r}")
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {OPTIMIZERS}, got {self.optimizer!r}")


@dataclass(frozen=True)
class Optimum:
    """Where an optimisation on fixed draws ended, x (P,); ``losses`` (T,): −ELBO from the start."""

    elbo: float
    losses: Array
    converged: bool
    stop_reason: str
    iterations: int
    x: Array = field(repr=False)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.stop_reason.startswith(UNFINISHED)


def maximise(
    objective: DrawsObjective, z: Array, n: int, monitor: Monitor, optimizer: str = "lbfgs"
) -> Optimum:
    """Optimise on the draws z (S, K) from where the family is, at most n iterations; Ctrl-C ends it
    where it is."""
    with np.errstate(all="ignore"):
        start, slope = objective.value_and_gradient(objective.x, z)
    if not (np.isfinite(start) and np.all(np.isfinite(slope))):
        raise ValueError(
            f"the ELBO on the fixed draws is {-start} at the start, or its gradient not finite: "
            "q reaches points where the log density is not; pass another start or a narrower base"
        )
    losses, seen = [start], [objective.x]

    def report(intermediate_result: OptimizeResult) -> None:
        objective.x = seen[0] = intermediate_result.x.copy()
        losses.append(float(intermediate_result.fun))
        monitor(float(intermediate_result.fun), objective.family.posterior)

    loss = walled(lambda x: objective.value_and_gradient(x, z))
    iterations = 0
    try:
        while True:
            method = _method(objective, z, n - iterations, optimizer, losses[-1])
            out = minimize(loss, objective.x, jac=True, callback=report, **method)
            objective.x = out.x
            iterations += int(out.nit)
            still_gains = out.nit > 0 and losses[-2] - losses[-1] > AT_REST
            if not (out.success and still_gains and iterations < n):
                break
    except KeyboardInterrupt as stop:
        if len(losses) == 1:
            raise nothing_yet(stop) from None
        objective.x = seen[0]
        taken = len(losses) - 1
        return Optimum(-losses[-1], np.array(losses), False, unfinished(stop), taken, seen[0])
    return Optimum(
        elbo=-float(out.fun),
        losses=np.array(losses),
        converged=bool(out.success) and not still_gains,
        stop_reason=str(out.message),
        iterations=iterations,
        x=objective.x,
    )


def _method(
    objective: DrawsObjective, z: Array, n: int, optimizer: str, start: float
) -> dict[str, object]:
    """Arguments of SciPy's ``minimize`` for the optimiser named."""
    if optimizer == "trust-krylov":
        return {
            "method": "trust-krylov",
            "hessp": lambda x, d: objective.hessian_product(x, d, z),
            "options": {"maxiter": n, "gtol": GRADIENT_TOLERANCE},
        }
    options = {
        "maxiter": n,
        "maxfun": 20 * n,
        "maxcor": 20,
        "ftol": TOLERANCE / max(abs(start), 1.0),
        "gtol": GRADIENT_TOLERANCE,
    }
    return {"method": "L-BFGS-B", "options": options}


def overfits(train_elbo: float, fresh: FreshDraws) -> bool:
    """Whether the training ELBO exceeds the fresh one by more than chance and ``GAP_TOLERANCE``."""
    gap = train_elbo - fresh.elbo
    return bool(gap > GAP_TOLERANCE + 3 * fresh.elbo_se)


class Prepared(NamedTuple):
    """The family in place for a fit, vectors x (P,) to start from, and what to say of it.

    ``interrupted`` where Ctrl-C ended the search for them: the fit ends at the start.
    """

    family: Family
    starts: list[Array]
    notes: tuple[str, ...] = ()
    interrupted: bool = False


@dataclass(frozen=True)
class FixedDrawsAlgorithm(Algorithm[Posterior]):
    """Fit of any family on fixed draws: several starts, then more draws while it overfits.

    A subclass gives :meth:`prepare`. The state of a fit is :class:`Prepared`, with the family as
    fitted; a run that goes on starts there.

    Parameters
    ----------
    fixed_draws
        Draws and optimiser.
    """

    fixed_draws: FixedDraws = field(default_factory=FixedDraws, kw_only=True)

    def __post_init__(self) -> None:
        require_type("fixed_draws", self.fixed_draws, FixedDraws)

    @abstractmethod
    def prepare(
        self, density: CountedDensity, start: Array, seed: int | None, budget: int, monitor: Monitor
    ) -> Prepared:
        """The family in place for a first fit from ``start`` (D,), and where it starts."""

    def normals(self, draws: int, latent_dimension: int, seed: int | None) -> Array:
        """z of the fit, (draws, K)."""
        rng = stream(seed, Purpose.TRAIN)
        return fixed_normals(draws, latent_dimension, self.fixed_draws.kind, rng)

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Posterior]:
        if isinstance(state, Prepared):
            family = deepcopy(state.family)
            prepared = Prepared(family, [family.x], state.notes)
        else:
            prepared = self.prepare(density, start, seed, budget, monitor)
        family, notes = prepared.family, prepared.notes
        objective = DrawsObjective(family, density)
        starts = [np.concatenate([x, density.extra]) for x in prepared.starts]
        search = _Search(self, objective, starts, seed, budget, monitor)
        if prepared.interrupted:
            optimum, draws, fresh = search.at_the_start()
        else:
            optimum, draws, fresh = search.maximise()
        if overfits(optimum.elbo, fresh):
            notes += (
                f"the training ELBO {optimum.elbo:.4g} exceeds the fresh one {fresh.elbo:.4g} with "
                f"{draws} draws: raise max_draws or use a smaller family",
            )
            fresh, taken_back = search.take_back(fresh)
            notes += taken_back
        monitor.keep(optimum.losses)
        result = FitResult(
            method=self.name,
            converged=optimum.converged,
            stop_reason=optimum.stop_reason,
            iterations=len(monitor.losses),
            train_elbo=optimum.elbo,
            train_draws=draws,
            fresh=fresh,
            notes=notes,
        )
        state = prepared._replace(starts=[family.x], interrupted=False)
        return Fitted(family.posterior(), result, state)


@dataclass(frozen=True)
class _Search:
    """One run: the best optimum over the starts, on as many draws as it takes."""

    algorithm: FixedDrawsAlgorithm
    objective: DrawsObjective
    starts: list[Array]
    seed: int | None
    budget: int
    monitor: Monitor

    def maximise(self) -> tuple[Optimum, int, FreshDraws]:
        """The best optimum, on four times as many draws as long as it overfits; draws; ELBO."""
        fixed_draws = self.algorithm.fixed_draws
        draws = fixed_draws.draws
        optimum, fresh = self._best(draws), self._fresh()
        while overfits(optimum.elbo, fresh) and 4 * draws <= fixed_draws.max_draws:
            if optimum.interrupted:
                break
            draws *= 4
            logger.info("training ELBO %.4f, fresh %.4f: %d draws", optimum.elbo, fresh.elbo, draws)
            # not from where the overfit ended
            optimum, fresh = self._best(draws), self._fresh()
        return optimum, draws, fresh

    def at_the_start(self) -> tuple[Optimum, int, FreshDraws]:
        """As :meth:`maximise` without a step, after Ctrl-C."""
        objective, draws = self.objective, self.algorithm.fixed_draws.draws
        z = self.algorithm.normals(draws, objective.family.latent_dimension, self.seed)
        x = self.starts[0]
        with np.errstate(all="ignore"):
            loss = objective.value_and_gradient(x, z)[0]
        why = unfinished(KeyboardInterrupt())
        return Optimum(-loss, np.array([loss]), False, why, 0, x), draws, self._fresh()

    def take_back(self, fresh: FreshDraws) -> tuple[FreshDraws, tuple[str, ...]]:
        """The start with the highest fresh ELBO where an overfitted optimum is below it."""
        objective = self.objective
        best = objective.x
        notes: tuple[str, ...] = ()
        for x in self.starts:
            objective.x = x
            start = self._fresh()
            if start.elbo > fresh.elbo:
                best, fresh = x, start
                notes = ("its fresh ELBO is below that of the start, which was kept instead",)
        objective.x = best
        return fresh, notes

    def _fresh(self) -> FreshDraws:
        q, rng = self.objective.family.posterior(), stream(self.seed, Purpose.FRESH)
        return fresh_draws(q, self.objective.density, rng)

    def _best(self, draws: int) -> Optimum:
        """The best optimum over the starts, with the family left there."""
        objective, optimizer = self.objective, self.algorithm.fixed_draws.optimizer
        z = self.algorithm.normals(draws, objective.family.latent_dimension, self.seed)
        optima = []
        for x in self.starts:
            objective.x = x
            optima.append(maximise(objective, z, self.budget, self.monitor, optimizer))
            if optima[-1].interrupted:
                break
        best = max(optima, key=lambda optimum: optimum.elbo)
        if optima[-1].interrupted:  # what another start reached may not be the best
            best = replace(best, converged=False, stop_reason=optima[-1].stop_reason)
        objective.x = best.x
        return best
