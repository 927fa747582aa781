r"""A proposal beside q with heavier tails, where importance weights need them and only there.

Where log p̃ − log q, or it and the mean or sd of one quantity, has a heavy tail, q is too narrow in
a few directions: those of a log scale, say, whose posterior falls off as an exponential. With unit
vectors u_1 … u_S in the space of q's own normals v, θ = T(v), the proposal is

.. math:: r(v) = N(v; 0, I)\Big[\tfrac12 + \tfrac1{2S}\sum_s \frac{t(u_s^T v)}{N(u_s^T v; 0, 1)}
          \Big],

half q itself, half q with the normal along one direction replaced by Student's t. No weight is more
than twice that of q, and θ given v is q's: who is governed by a scale goes with it.

Hesterberg (1995), Weighted average importance sampling and defensive mixture distributions,
Technometrics 37(2), doi:10.1080/00401706.1995.10484303.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.psis import psislw, tail_size
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import (
    LogDensity,
    Posterior,
    draws_of,
    fresh_draws,
    latents_of,
)
from pymc_ext.variational.core.precision import weighted_precision
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.weights import (
    ESS_SHARE_NEGLIGIBLE,
    KHAT_GOOD,
    KHAT_WITHOUT_MEAN,
)

if TYPE_CHECKING:
    from scipy import stats

__all__ = ["DefensiveMixture", "defended", "has_longer_tails_alone", "heavy_directions", "own_khat"]

# Each has a tenth of the draws at least; of hundreds of coordinates the k̂ of a few is > .5 by
# chance.
MOST_DIRECTIONS = 5
MOST_KEPT = 20_000_000  # numbers in draws that are kept, 160 MB; of more each look makes them again
MOST_LOOKED_AT = 256  # columns whose k̂ are found: those of 20,000 took a fifth of the fit's time
FAR_OUT = 1.5  # mean square of the 192 weightiest of 4,096 normals: 5 standard errors above one
BULK_SHARE = 0.5  # of effective draws, from which on q holds the bulk whatever its k̂
SAME_DIRECTION = 0.9  # cosine from which on two count as one
CHANCE = 3.0  # standard errors of a correlation that count as none


@cache
def laws() -> tuple[stats.rv_frozen, stats.rv_frozen]:
    """The law of the tail, and the normal that it replaces.

    Polynomial, so that it ends up above the exponential tails that log scales have, and wide enough
    that draws at three sds of q are common. Seven laws (normals of sd 1.5 and 2, t of 3 and 5
    degrees, Laplace's) all serve more fits than q does and differ less than seeds do.
    """
    from scipy import stats  # .2 CPU seconds to import, which most fits do without

    return stats.t(3, scale=1.5), stats.norm()


@dataclass(frozen=True)
class DefensiveMixture:
    """r, made of any q with one normal a coordinate.

    Parameters
    ----------
    q
        θ = T(v), v ~ N(0, I).
    directions
        u_s, unit vectors, (S, D).
    tails_alone
        Whether it was made for the tails of weights alone. Else it has mass of which q's own draws
        know nothing, and they cannot be judged in its place.
    """

    q: Posterior
    directions: Array
    tails_alone: bool = False

    @property
    def dimension(self) -> int:
        """D."""
        return self.q.dimension

    @property
    def latent_dimension(self) -> int:
        """v's, one that chooses the component, and one that becomes Student's t."""
        return self.q.latent_dimension + 2

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and their normalised log r, (N, D + 2) -> (N, D), (N,)."""
        law, normal = laws()
        v, choice, tail = z[:, :-2].copy(), normal.cdf(z[:, -2]), z[:, -1]
        count = len(self.directions)
        component = np.minimum((2 * count * choice).astype(int), 2 * count - 1)
        moved = np.flatnonzero(component < count)  # the others are q's
        u = self.directions[component[moved]]
        far = np.sign(tail) * law.isf(normal.sf(np.abs(tail)))  # exact however far out
        v[moved] += (far[moved] - np.einsum("nd,nd->n", u, v[moved]))[:, None] * u
        theta, log_q = self.q.forward(v)
        return theta, log_q + self.log_ratio(v)

    def log_ratio(self, v: Array) -> Array:
        """log r − log q at q's latents, (N, D) -> (N,)."""
        along = v @ self.directions.T
        law, normal = laws()
        log_h = law.logpdf(along) - normal.logpdf(along)
        log_mean = np.logaddexp.reduce(log_h, axis=1) - np.log(log_h.shape[1])
        return np.logaddexp(0, log_mean) - np.log(2)


@dataclass(frozen=True)
class Columns:
    """Some latents, or some coordinates of θ, of weighted draws.

    Parameters
    ----------
    places
        Which, (C,).
    values
        Their draws, (N, C).
    khat
        k̂ of each, as from :func:`own_khat`, (C,).
    """

    places: NDArray[np.integer]
    values: Array
    khat: Array

    @property
    def worst(self) -> float:
        """The largest k̂, −∞ of none."""
        return float(self.khat.max(initial=-np.inf))

    def heavy(self) -> Columns:
        """The few of the largest k̂ > .5, the worst first."""
        worst = np.argsort(-self.khat)[:MOST_DIRECTIONS]
        worst = worst[self.khat[worst] > KHAT_GOOD]
        return Columns(self.places[worst], self.values[:, worst], self.khat[worst])


def heavy_directions(latents: Iterable[Array], v: Columns, theta: Columns, D: int) -> Array:
    """Where in the space of v there are k̂ > .5, the worst first, unit vectors (S, D), S ≤ 5.

    Those of single latents, and of single coordinates of θ: their correlations with v.

    Parameters
    ----------
    latents
        v of all draws, in parts (n, D); not looked at where no coordinate of θ is heavy.
    v, theta
        Latents and coordinates that may be heavy.
    D
        Latents in all.
    """
    v, theta = v.heavy(), theta.heavy()
    along = [np.eye(1, D, k)[0] for k in v.places]
    if len(theta.places):
        along += list(_correlations(latents, theta.values))
    worst_first = np.argsort(-np.concatenate([v.khat, theta.khat]), kind="stable")
    return _different((along[k] for k in worst_first), D)


def _correlations(latents: Iterable[Array], x: Array) -> Array:
    """Unit vectors along those correlations with v of columns x (N, S) that are no chance, (S, D).

    Zero where none is.
    """
    x, total, first = (x - x.mean(axis=0)) / x.std(axis=0), np.zeros(()), 0
    for v in latents:
        total = total + x[first : first + len(v)].T @ v
        first += len(v)
    along = np.where(np.abs(total) < CHANCE * np.sqrt(len(x)), 0.0, total)
    return along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), np.finfo(float).tiny)


def own_khat(x: Array, log_ratios: Array, weights: Array) -> Array:
    """The larger k̂ of mean and sd of each column of draws (N, K), -> (K,); −∞ where it does not
    matter. Other arguments are those of :func:`weighted_precision`."""
    if not x.shape[1]:
        return np.empty(0)
    precision = weighted_precision(x, log_ratios, weights)
    return np.fmax(precision.mean_khat, precision.sd_khat)


def defended(
    q: Posterior,
    density: LogDensity,
    fresh: FreshDraws,
    seed: int | None,
    known: Array | None = None,
) -> tuple[DefensiveMixture, FreshDraws] | tuple[None, None]:
    """r and how its own fresh draws judge it, where q's leave a doubt that r lessens.

    Draws that are worth `ESS_SHARE_NEGLIGIBLE` of their number leave none, whatever k̂ is, unless a
    mean or an sd is not known by them: r is half q, its draws are worth less than that even where
    q is p, and k̂ would matter for it. Nor is r taken where its weights are not usable and q's own
    hold alone.

    Parameters
    ----------
    q
        With one normal a coordinate.
    density
        log p̃.
    fresh
        Of q, with their log ratios and how they were made.
    seed
        Of the fit.
    known
        Unit vectors (S, D) along which q is known to lack mass, whatever its own draws show.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
    >>> t = scipy.stats.t(4)
    >>> density = CallableDensity(lambda x: t.logpdf(x).sum(1), np.zeros_like, dimension=1)
    >>> q = DiagonalGaussian(np.zeros(1), np.ones(1))
    >>> fresh = fresh_draws(q, density, np.random.default_rng(1))
    >>> r, of_r = defended(q, density, fresh, seed=1)
    >>> fresh.khat > 0.5 > of_r.khat
    True
    """
    if fresh.log_ratios is None or not np.isfinite(fresh.khat):
        return None, None
    if fresh.khat > KHAT_WITHOUT_MEAN and fresh.ess < BULK_SHARE * fresh.draws:
        return None, None  # q is wrong, and not its tails alone
    drawn = DrawnAgain(q, fresh)
    theta = drawn.doubtful()
    known = None if known is None or not len(known) else known
    nearly_right = fresh.ess >= ESS_SHARE_NEGLIGIBLE * fresh.draws
    if known is None and nearly_right and not theta.worst > KHAT_GOOD:
        return None, None
    v = drawn.doubtful(latents=True)
    directions = heavy_directions(drawn.latents(), v, theta, q.latent_dimension)
    if known is not None:
        directions = _different([*known, *directions], q.latent_dimension)
    if not len(directions):
        return None, None
    proposal = DefensiveMixture(q, directions, tails_alone=known is None)
    found = fresh_draws(proposal, density, stream(seed, Purpose.DEFENCE))
    if not np.isfinite(found.khat):
        return None, None
    if known is not None:  # of these q's own draws know nothing
        return proposal, found
    if fresh.holds_alone and not found.usable:
        return None, None
    worst = max(found.khat, DrawnAgain(proposal, found).doubtful().worst)
    return (proposal, found) if worst < max(fresh.khat, theta.worst) else (None, None)


def has_longer_tails_alone(proposal: Posterior | None, q: Posterior) -> bool:
    """Whether a proposal has no mass that q lacks, so that q's own weights may serve where its do
    not: one made for tails, or a copy of q with longer ones, as the polish of a flow makes it."""
    if isinstance(proposal, DefensiveMixture):
        return proposal.tails_alone
    return proposal is not None and type(proposal) is type(q)


def for_all_mass(proposal: Posterior | None) -> Posterior | None:
    """The proposal of a q that is known to miss mass, in whose place q cannot be judged."""
    if isinstance(proposal, DefensiveMixture):
        return replace(proposal, tails_alone=False)
    return proposal


def _different(directions: Iterable[Array], D: int) -> Array:
    """The first few that are not nearly the same, (S, D)."""
    kept = list[Array]()
    for u in directions:
        if u.any() and all(abs(u @ other) < SAME_DIRECTION for other in kept):
            kept.append(u)
    return np.array(kept[:MOST_DIRECTIONS]).reshape(-1, D)


class DrawnAgain:
    """The draws behind ``fresh``, a part at a time, made again where they are too many to be kept:
    in 20,000 dimensions all of them are 650 MB."""

    def __init__(self, q: Posterior, fresh: FreshDraws) -> None:
        assert fresh.generator is not None and fresh.log_ratios is not None
        self.q, self.draws, self.generator = q, fresh.draws, fresh.generator
        self.log_ratios = np.where(np.isfinite(fresh.log_ratios), fresh.log_ratios, -np.inf)
        self.weights = np.exp(psislw(self.log_ratios)[0])
        self._kept = None if fresh.drawn is None else fresh.drawn[0]

    def latents(self) -> Iterator[Array]:
        """The normals, (n, K)."""
        return latents_of(self.q, copy.deepcopy(self.generator), self.draws)

    def theta(self) -> Iterator[Array]:
        """The draws, (n, D)."""
        if self._kept is not None:
            return iter([self._kept])
        made = (theta for theta, _ in draws_of(self.q, copy.deepcopy(self.generator), self.draws))
        return made if self.draws * self.q.dimension > MOST_KEPT else self._keeping(made)

    def _keeping(self, made: Iterator[Array]) -> Iterator[Array]:
        kept, first = np.empty((self.draws, self.q.dimension)), 0
        for theta in made:
            kept[first : first + len(theta)] = theta
            first += len(theta)
            yield theta
        self._kept = kept

    def doubtful(self, latents: bool = False) -> Columns:
        """Coordinates of θ, or latents, that may be heavy; up to 256 all.

        Of more, k̂ of some is large by chance: those only that are far out where weights are large.
        """
        parts, places = self.latents if latents else self.theta, self.looked_at(latents)
        values = np.empty((self.draws, 0))
        if len(places):
            values = np.concatenate([x[:, places] for x in parts()])
        return Columns(places, values, own_khat(values, self.log_ratios, self.weights))

    def looked_at(self, latents: bool = False) -> NDArray[np.integer]:
        """Coordinates of θ, or latents, that draws of large weights may be far out in; up to 256
        all."""
        places = np.arange(self.q.latent_dimension if latents else self.q.dimension)
        if len(places) <= MOST_LOOKED_AT:
            return places
        far = self._squares_of_weightiest(self.latents() if latents else self.theta())
        places = np.sort(np.argsort(-far)[:MOST_LOOKED_AT])
        return places[far[places] > FAR_OUT]

    def _squares_of_weightiest(self, parts: Iterator[Array]) -> Array:
        """Of each column, mean square over that of all draws, of those in the tail of weights."""
        in_tail = np.zeros(self.draws, dtype=bool)
        in_tail[np.argsort(self.weights)[-tail_size(self.draws) :]] = True
        rows, first = list[Array](), 0
        for x in parts:
            own = slice(first, first := first + len(x))
            x = np.where(self.weights[own, None] > 0, x, 0.0)  # else it may be beyond numbers
            if not rows:
                middle, squares = x.mean(axis=0), np.zeros(x.shape[1])
            x -= middle
            squares += np.sum(x**2, axis=0)
            rows.append(x[in_tail[own]])
        of_tail = np.mean(np.concatenate(rows) ** 2, axis=0)
        return of_tail / np.maximum(squares / self.draws, np.finfo(float).tiny)
