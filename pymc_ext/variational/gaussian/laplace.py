r"""Laplace approximation on the unconstrained space: N(θ*, (−∇² log p̃(θ*))⁻¹)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.options import require_type
from pymc_ext.variational.core.algorithm import Algorithm, Fitted
from pymc_ext.variational.core.monitor import Monitor, kept_nothing
from pymc_ext.variational.core.notes import notes_on
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.modes import LaplaceFit, LaplaceSearch, ModeSearch
from pymc_ext.variational.gaussian.posteriors import Gaussian

UNREPRESENTATIVE = 0.01  # effective share of the fresh draws below which the mode is elsewhere


def representation_notes(fresh: FreshDraws) -> tuple[str, ...]:
    """Says so where weights cannot repair it, and where the mode is not where the mass is."""
    advice = "use BatchMatchVI, HierarchicalVI or a flow"
    if fresh.ess < UNREPRESENTATIVE * fresh.draws:
        why = "the mode is not where the mass is, often near the boundary of a scale parameter"
        advice = f"{why}; {advice}"
    return notes_on(fresh, advice)


def find_laplace(
    density: CountedDensity,
    start: Array,
    options: ModeSearch,
    seed: int | None,
    budget: int,
    monitor: Monitor,
) -> LaplaceFit:
    """The Laplace fit at the best mode, hyperparameters first set by maximal Laplace evidence.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C: a search keeps no mode that it has not compared with all others.
    """
    search = LaplaceSearch(density, start, options, seed)
    with kept_nothing():
        if density.extra_size:  # third derivatives, from the model's graph: only where needed
            from pymc_ext.variational.gaussian.empirical import LaplaceEvidence, maximise_evidence

            return maximise_evidence(LaplaceEvidence(search), budget, monitor)
        fit = search.run(budget, monitor)
    monitor.keep(fit.losses)
    return fit


@dataclass(frozen=True)
class Laplace(Algorithm[Gaussian]):
    """Algorithm of :class:`pymc_ext.LaplaceVI`, for any density.

    Parameters
    ----------
    search
        Where modes are looked for. The state of a fit is its :class:`LaplaceFit`; a run that goes
        on climbs from that mode.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
    >>> fitted = Laplace().fit(density, random_seed=1)
    >>> fitted.q.std
    array([0.5])
    """

    name = "laplace"
    search: ModeSearch = field(default_factory=ModeSearch)

    def __post_init__(self) -> None:
        require_type("search", self.search, ModeSearch)

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Gaussian]:
        search = self.search
        if isinstance(state, LaplaceFit):
            start, search = state.theta, replace(search, starts=1)
        fit = find_laplace(density, start, search, seed, budget, monitor)
        q = Gaussian(fit.theta, fit.factor, fit.factor_inverse)
        fresh = fresh_draws(q, density, stream(seed, Purpose.FRESH))
        result = FitResult(
            method=self.name,
            converged=True,
            stop_reason=f"Newton decrement {fit.mode.decrement:.1e}",
            iterations=len(monitor.losses),
            fresh=fresh,
            log_marginal_laplace=fit.log_marginal,
            notes=fit.notes + representation_notes(fresh),
        )
        return Fitted(q, result, state=fit)
