"""Pathfinder as an algorithm: the best Gaussian of several paths."""

from __future__ import annotations

from dataclasses import dataclass

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count
from pymc_ext.variational.core.algorithm import Algorithm, Fitted, refuse_hyperparameters
from pymc_ext.variational.core.monitor import FitStopped, Monitor, nothing_yet
from pymc_ext.variational.core.notes import notes_on
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.path import (
    HISTORY,
    MOST_ITERATIONS,
    Path,
    PathSettings,
    best_of,
    follow_paths,
)

PATHS = 4  # as many as PyMC's and Stan's multi-path default
DRAWS = 25  # values behind an iterate's ELBO: here it is the answer, and known to .2 sd of log p̃/q
ADVICE = "a path's Gaussian is a first look; BatchMatchVI goes on from it"


class NoPathError(ValueError):
    """No path found a Gaussian."""


@dataclass(frozen=True)
class Pathfinder(Algorithm[LowRankGaussian]):
    """Algorithm of :class:`pymc_ext.PathfinderVI`, for any density; memory O(D).

    Parameters
    ----------
    paths
        From the start and from dispersed points.
    history
        Pairs of steps and changes of gradient that an inverse Hessian is made of.
    elbo_draws
        Values behind the ELBO of each iterate.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> density = CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
    >>> Pathfinder().fit(density, np.ones(1), random_seed=1).q.std.round(3)
    array([0.5])
    """

    name = "pathfinder"
    paths: int = PATHS
    history: int = HISTORY
    elbo_draws: int = DRAWS

    def __post_init__(self) -> None:
        for label in ("paths", "history", "elbo_draws"):
            require_count(label, getattr(self, label))

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[LowRankGaussian]:
        settings = PathSettings(min(budget, MOST_ITERATIONS), self.history, self.elbo_draws)
        rng = stream(seed, Purpose.STARTS)
        refuse_hyperparameters(density, self.name)
        # a run that goes on has nothing left to do: more paths are another run's
        paths = [state] if isinstance(state, Path) else []
        more = 0 if paths else self.paths
        converged, ended = True, ""
        try:
            for path in follow_paths(density, start, rng, more, settings, monitor):
                paths.append(path)
        except (FitStopped, KeyboardInterrupt) as stop:
            if not paths:
                raise nothing_yet(stop) from None
            converged, ended = False, f"unfinished, {str(stop) or type(stop).__name__}: "
        if not paths:
            raise NoPathError(
                f"no path from the start or from {self.paths} dispersed points found a Gaussian: "
                "log p̃ has no curvature or no finite score there; give another start, or take "
                "BatchMatchVI, which needs no mode"
            )
        best = best_of(paths)
        fresh = fresh_draws(best.q, density, stream(seed, Purpose.FRESH))
        elbos = ", ".join(f"{path.elbo:.2f}" for path in paths)
        result = FitResult(
            method=self.name,
            converged=converged,
            stop_reason=f"{ended}the best of {len(paths)} paths (ELBOs {elbos})",
            iterations=len(monitor.losses),
            fresh=fresh,
            notes=notes_on(fresh, ADVICE),
        )
        return Fitted(best.q, result, state=best)
