r"""Pathfinder: the best Gaussian along an optimiser's path, from values and scores alone.

At every iterate of L-BFGS the curvature seen so far gives a Gaussian; that of the highest ELBO is
kept. Its inverse Hessian is diagonal plus low rank, so that a path costs O(D) memory.

Zhang, Carpenter, Gelman & Vehtari (2022), Pathfinder: parallel quasi-Newton variational inference,
JMLR 23(306), arXiv:2108.03782. Notation: S, Y (D, J) hold the last J steps and changes of gradient
of −log p̃, α is the diagonal part of the inverse Hessian H.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from pymc_ext.density import CountedDensity
from pymc_ext.maths.walled import walled
from pymc_ext.variational.core.course import FitStopped
from pymc_ext.variational.core.monitor import STOPPED, Monitor
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian

Array = NDArray[np.floating]
CURVATURE = (
    1e-10  # sᵀy below this share of |y|² says nothing of the curvature (Zhang et al. use it)
)
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
    wanted: Callable[[Array], bool] | None = None,
    floor: float = -np.inf,
) -> Path | None:
    """Minimise −log p̃ from ``start`` (D,), and choose among the Gaussians on the way.

    None where log p̃ or its score is not finite at the start, no step shows a curvature, or
    ``wanted`` does not want a path that ends there (D,), whose Gaussians are then not made.
    ``monitor`` sees −ELBO of every Gaussian. One whose ELBO is far below ``floor`` by a few draws
    gets no more of them.
    """

    def log_ratios_of(q: LowRankGaussian, draws: int) -> Array:
        theta, log_q = q.forward(rng.standard_normal((draws, density.dimension)))
        with np.errstate(all="ignore"):
            return density.log_density(theta) - log_q

    points, gradients = _trajectory(density, start, settings)
    if points and wanted is not None and not wanted(points[-1]):
        return None
    best: Path | None = None
    for q in _gaussians(points, gradients, settings.history):
        few = min(FIRST_DRAWS, settings.draws) if floor > -np.inf else settings.draws
        log_ratios = log_ratios_of(q, few)
        with np.errstate(all="ignore"):
            if few < settings.draws:
                highest = np.mean(log_ratios) + FIRST_ERRORS * np.std(log_ratios) / np.sqrt(few)
                if not highest < floor:
                    more = log_ratios_of(q, settings.draws - few)
                    log_ratios = np.concatenate([log_ratios, more])
            elbo = float(np.mean(log_ratios))
            error = float(np.std(log_ratios) / np.sqrt(len(log_ratios)))
        if monitor is not None:
            try:
                monitor(-elbo, partial(_the_same, q))
            except StopIteration as stop:
                raise FitStopped(str(stop) or STOPPED) from None
        if np.isfinite(elbo) and (best is None or elbo > best.elbo):
            best = Path(q, elbo, error, points[-1])
    return best


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


def _trajectory(
    density: CountedDensity, start: Array, settings: PathSettings
) -> tuple[list[Array], list[Array]]:
    """Iterates of L-BFGS and gradients of −log p̃ there; none where the start has no density."""
    gradient_at: dict[bytes, Array] = {}

    def loss(x: Array) -> tuple[float, Array]:
        with np.errstate(all="ignore"):
            value, score = density.log_density_gradient(x[None])
        gradient_at[x.tobytes()] = -score[0]
        return -float(value[0]), -score[0]

    first, slope = loss(start)
    if not (np.isfinite(first) and np.isfinite(slope).all()):
        return [], []
    points = [start.copy()]
    options = {"maxiter": settings.iterations, "maxcor": settings.history}
    minimize(
        walled(loss),
        start,
        jac=True,
        method="L-BFGS-B",
        callback=lambda x: points.append(x.copy()),
        options=options,
    )
    kept = [x for x in points if np.isfinite(gradient_at[x.tobytes()]).all()]
    return kept, [gradient_at[x.tobytes()] for x in kept]


def _gaussians(
    points: list[Array], gradients: list[Array], history: int
) -> Iterator[LowRankGaussian]:
    """N(x − H g, H) at each iterate, H from the pairs up to it."""
    if not points:
        return
    # the first Newton step should move no coordinate by more than one unit
    alpha = np.full(len(points[0]), min(1.0, 1 / max(float(np.abs(gradients[0]).max()), 1e-12)))
    pairs: list[tuple[Array, Array]] = []
    for before, x, slope_before, slope in zip(
        points[:-1], points[1:], gradients[:-1], gradients[1:], strict=True
    ):
        s, y = x - before, slope - slope_before
        if s @ y <= CURVATURE * (y @ y):
            continue
        alpha = _diagonal(alpha, s, y)
        pairs = [*pairs[1 - history :], (s, y)]
        try:
            yield _newton_gaussian(x, slope, alpha, pairs)
        except np.linalg.LinAlgError:  # the pairs contradict one another: the next may not
            continue


def _the_same(q: LowRankGaussian) -> LowRankGaussian:
    return q


def _diagonal(alpha: Array, s: Array, y: Array) -> Array:
    """Diagonal of the inverse Hessian after one more pair (Gilbert & Lemaréchal 1989, eq. 4.6)."""
    a, b, c = (y * alpha) @ y, s @ y, (s / alpha) @ s
    inverse = a / (b * alpha) + y**2 / b - a * s**2 / (b * c * alpha**2)
    return 1 / np.maximum(inverse, np.finfo(float).tiny)


def _newton_gaussian(
    x: Array, slope: Array, alpha: Array, pairs: list[tuple[Array, Array]]
) -> LowRankGaussian:
    """N(x − H g, H), H in the compact form of BFGS (Byrd, Nocedal & Schnabel 1994, theorem 2.2).

    H = diag α + B M Bᵀ with B = [diag(α) Y, S], so that with B/√α = U T, U orthonormal,
    H = diag(√α)(I + U (T M Tᵀ) Uᵀ)diag(√α), whose root is a low-rank change of diag(√α).
    """
    S, Y = (np.stack(columns, axis=1) for columns in zip(*pairs, strict=True))
    scale, J = np.sqrt(alpha), S.shape[1]
    U, T = np.linalg.qr(np.concatenate([scale[:, None] * Y, S / scale[:, None]], axis=1))
    SY = S.T @ Y
    R_inverse = solve_triangular(np.triu(SY), np.eye(J))
    inner = np.diag(np.diag(SY)) + Y.T @ (alpha[:, None] * Y)
    M = np.block([[np.zeros((J, J)), -R_inverse], [-R_inverse.T, R_inverse.T @ inner @ R_inverse]])
    core = np.linalg.cholesky(np.eye(U.shape[1]) + T @ M @ T.T)
    q = LowRankGaussian(x, scale, U, core)
    step = q.root_product(q.root_transposed_product(slope[None]))[0]
    return LowRankGaussian(x - step, scale, U, core)
