r"""Pathfinder: the best Gaussian along an optimiser's path, from values and scores alone.

At every iterate of L-BFGS the curvature seen so far gives a Gaussian; that of the highest ELBO is
kept. Its inverse Hessian is diagonal plus low rank, so that a path costs O(D) memory.

Zhang, Carpenter, Gelman & Vehtari (2022), Pathfinder: parallel quasi-Newton variational inference,
JMLR 23(306), arXiv:2108.03782.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.optimize import minimize

from pymc_ext.density import CountedDensity, Density
from pymc_ext.maths.types import Array
from pymc_ext.maths.walled import walled
from pymc_ext.variational.core.monitor import STOPPED, FitStopped, Monitor
from pymc_ext.variational.core.threads import one_thread
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.newton import Candidates, newton_gaussians

DISPERSION = 2.0  # dispersed starts are uniform within ±2 of the origin, as Stan's are
MOST_TRIES = 30  # starts, of which some may have no density
MOST_ITERATIONS = 100  # of one path; a longer one ends in a mode, whose Gaussian is kept anyway
HISTORY = 8  # J, pairs that the optimiser and the inverse Hessian remember
DRAWS = 10  # values behind the ELBO of one iterate: enough to choose by, as q is fitted on after it
# Draws that tell whether an ELBO may be above a floor, and their standard errors that it may be off
FIRST_DRAWS, FIRST_ERRORS = 4, 4.0


@dataclass(frozen=True)
class Path:
    """The best Gaussian of one path.

    Parameters
    ----------
    q
        The Gaussian.
    elbo, error
        Its ELBO and the standard error, nats, from the few draws it was chosen by.
    end
        Where the optimiser stopped, unconstrained, (D,).
    """

    q: LowRankGaussian
    elbo: float
    error: float
    end: Array


def best_of(paths: Sequence[Path]) -> Path:
    """The one of highest ELBO; the first, from the user's start, where the others are not above it
    by more than the error.

    The first's error counts up to the best one's: a larger one comes of log ratios that differ
    widely, as of draws where p̃ has nearly none, and speaks against it.
    """
    best, first = max(paths, key=lambda path: path.elbo), paths[0]
    error = np.hypot(best.error, min(first.error, best.error))
    return best if best.elbo - first.elbo > error else first


@dataclass(frozen=True)
class PathSettings:
    """How a path is followed: iterations, pairs remembered, draws behind each ELBO."""

    iterations: int = MOST_ITERATIONS
    history: int = HISTORY
    draws: int = DRAWS


def follow_path(
    density: CountedDensity,
    start: Array,
    rng: np.random.Generator,
    settings: PathSettings = PathSettings(),  # frozen
    monitor: Monitor | None = None,
    floor: float = -np.inf,
) -> Path | None:
    """Minimise −log p̃ from ``start`` (D,), and choose among the Gaussians on the way.

    None where log p̃ or its score is not finite at the start, or no step shows a curvature.
    ``monitor`` sees −ELBO of every Gaussian. One whose ELBO is far below ``floor`` by a few draws
    gets no more of them.
    """
    points, gradients, _ = trajectory(density, start, settings)
    best: Path | None = None
    for candidates in newton_gaussians(points, gradients, settings.history):
        elbos, errors = _judged(density, candidates, rng, settings.draws, floor)
        for i, elbo in enumerate(elbos):
            if monitor is not None:
                try:
                    monitor(-elbo, partial(candidates.one, i))
                except StopIteration as stop:
                    raise FitStopped(str(stop) or STOPPED) from None
            if np.isfinite(elbo) and (best is None or elbo > best.elbo):
                best = Path(candidates.one(i), float(elbo), float(errors[i]), points[-1])
    return best


def _judged(
    density: CountedDensity,
    candidates: Candidates,
    rng: np.random.Generator,
    draws: int,
    floor: float,
) -> tuple[Array, Array]:
    """ELBO and its standard error of each of T Gaussians, (T,) each, as `follow_path` has it."""

    def log_ratios_of(some: Candidates, draws: int) -> Array:
        theta, log_q = some.forward(rng.standard_normal((len(some), draws, density.dimension)))
        return density.log_density(theta.reshape(-1, theta.shape[-1])).reshape(log_q.shape) - log_q

    few = min(FIRST_DRAWS, draws) if floor > -np.inf else draws
    with np.errstate(all="ignore"):
        log_ratios = log_ratios_of(candidates, few)
        elbo, error = log_ratios.mean(axis=1), log_ratios.std(axis=1) / np.sqrt(few)
        high = np.flatnonzero(~(elbo + FIRST_ERRORS * error < floor))
        if few < draws and len(high):
            more = log_ratios_of(candidates.some(high), draws - few)
            log_ratios = np.concatenate([log_ratios[high], more], axis=1)
            elbo[high] = log_ratios.mean(axis=1)
            error[high] = log_ratios.std(axis=1) / np.sqrt(draws)
    return elbo, error


def follow_paths(
    density: CountedDensity,
    start: Array,
    rng: np.random.Generator,
    paths: int,
    settings: PathSettings = PathSettings(),  # frozen
    monitor: Monitor | None = None,
) -> Iterator[Path]:
    """Up to ``paths`` paths that find a Gaussian, the one from ``start`` (D,) first."""
    found = 0
    for attempt in range(max(MOST_TRIES, paths) if paths else 0):
        point: Array = rng.uniform(-DISPERSION, DISPERSION, density.dimension)
        if attempt == 0:
            point = start
        path = follow_path(density, point, rng, settings, monitor)
        if path is not None:
            yield path
            found += 1
        if found == paths:
            return


def all_paths(
    density: CountedDensity,
    start: Array,
    rng: np.random.Generator,
    paths: int,
    keep: Callable[[LowRankGaussian], object],
) -> tuple[Path, ...]:
    """All of them, as `follow_paths` finds them; where Ctrl-C ends that ``keep`` takes the best."""
    found = list[Path]()
    try:
        for path in follow_paths(density, start, rng, paths):
            found.append(path)
    except KeyboardInterrupt:
        if found:
            keep(best_of(found).q)
        raise
    return tuple(found)


def trajectory(
    density: Density, start: Array, settings: PathSettings
) -> tuple[list[Array], list[Array], list[float]]:
    """Iterates of L-BFGS from ``start`` (D,), gradients of −log p̃ and −log p̃ there; none where the
    start has no density."""
    seen: dict[bytes, tuple[Array, float]] = {}

    def loss(x: Array) -> tuple[float, Array]:
        with np.errstate(all="ignore"):
            value, score = density.log_density_gradient(x[None])
        seen[x.tobytes()] = -score[0], -float(value[0])
        return -float(value[0]), -score[0]

    with one_thread():  # the optimiser's matrices are tiny, whatever D
        first, slope = loss(start)
        if not (np.isfinite(first) and np.isfinite(slope).all()):
            return [], [], []
        points = [start.copy()]
        minimize(
            walled(loss),
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda x: points.append(x.copy()),
            options={"maxiter": settings.iterations, "maxcor": settings.history},
        )
    points = [x for x in points if np.isfinite(seen[x.tobytes()][0]).all()]
    gradients, values = zip(*(seen[x.tobytes()] for x in points), strict=True)
    return points, list(gradients), list(values)
