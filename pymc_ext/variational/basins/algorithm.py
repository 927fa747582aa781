"""A map for every basin that paths find, for any density."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.coordinates import as_transport
from pymc_ext.interrupts import through_one
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count
from pymc_ext.variational.basins.links import BasinLinks
from pymc_ext.variational.basins.weights import weighted_mixture
from pymc_ext.variational.core.algorithm import Algorithm, Fitted, refuse_hyperparameters
from pymc_ext.variational.core.mixture import Component, PosteriorMixture
from pymc_ext.variational.core.monitor import UNFINISHED, Monitor, unfinished
from pymc_ext.variational.core.notes import notes_on
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical, MapOrGaussian
from pymc_ext.variational.hierarchical.links import Links
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.result import HierarchicalResult
from pymc_ext.variational.missed.missed_mass import Basin, MissedMass, missed_mass
from pymc_ext.variational.missed.outside import Misses, edge_of, is_outside

MOST = 24  # components: the labellings of four groups
# Fits in a row that end in basins known before, after which the other paths of a search are left:
# they ended in flanks of what is known, as in the neck of a funnel.
MISSES = 2
MOST_BESIDE = 20  # draws of a basin's Gaussian, which may lie beyond an edge but for a part
SEARCH_DRAWS = 2_000  # of a q, for its mean, spread and edge
ADVICE = "weights cannot repair it; use NUTS with chains in every basin"


@dataclass(frozen=True)
class Explored:
    """A component, and what a search around it has found, to go on from.

    Parameters
    ----------
    q
        The component.
    outside
        Basins outside it.
    """

    q: Component
    outside: MissedMass


@dataclass(frozen=True)
class BasinsResult(FitResult):
    """How a fit went, with the :class:`~.links.BasinLinks`: who governs whose scale in each basin.

    Components that were handed over as a ``state`` have their slopes without errors.
    """

    links: BasinLinks = field(default_factory=BasinLinks)


@dataclass(frozen=True)
class Basins(Algorithm[PosteriorMixture]):
    """Algorithm of :class:`pymc_ext.BasinsVI`, for any density.

    Parameters
    ----------
    components
        At most so many basins.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> def log_density(t):
    ...     return np.logaddexp(-0.5 * (t[:, 0] + 9) ** 2, np.log(3) - 0.5 * (t[:, 0] - 9) ** 2)
    >>> def score(t):
    ...     right = 1 / (1 + np.exp(-18 * t - np.log(3)))
    ...     return -(t + 9) + 18 * right
    >>> density = CallableDensity(log_density, score, dimension=1)
    >>> q = Basins().fit(density, random_seed=1).q
    >>> np.sort(np.exp(q.log_weights)).round(2)
    array([0.25, 0.75])
    """

    name = "basins"
    components: int = MOST

    def __post_init__(self) -> None:
        require_count("components", self.components)

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[PosteriorMixture]:
        """``state``: the first component, a Gaussian or a hierarchical map, or `Explored`; or a
        mixture."""
        refuse_hyperparameters(density, self.name)
        fit = _OneByOne(density, seed, budget, monitor)
        known: MissedMass | None = None
        if isinstance(state, Explored):
            known = state.outside
            state = state.q
        if isinstance(state, PosteriorMixture):
            for component in state.components:
                fit.take(component)
        elif isinstance(state, Gaussian | LowRankGaussian | HierarchicalMap):
            fit.take(state)
        else:
            fit.take(*fit.fitted(start, Hierarchical(necks=False)))
        q = fit.grow(self.components, stream(seed, Purpose.JUDGE), known)
        enough = len(q.components) >= self.components
        why = (
            f"{self.components} basins are kept at most"
            if enough
            else "no mass that matters was found in another basin"
        )
        fresh = through_one(lambda: fresh_draws(q, density, stream(seed, Purpose.FRESH)))
        result = BasinsResult(
            method=self.name,
            converged=fit.stopped is None,
            stop_reason=fit.stopped or why,
            iterations=len(monitor.losses),
            fresh=fresh,
            notes=(_found(q), *notes_on(fresh, ADVICE)),
            links=BasinLinks(tuple(np.exp(q.log_weights).tolist()), tuple(fit.links)),
        )
        return Fitted(q, result, state=q)


class _OneByOne:
    """Components fitted one after the other."""

    def __init__(
        self, density: CountedDensity, seed: int | None, budget: int, monitor: Monitor
    ) -> None:
        self.density, self.seed, self.budget, self.monitor = density, seed, budget, monitor
        self.components, self.links = list[Component](), list[Links]()
        self.stopped: str | None = None  # why the fits ended before their time

    def take(self, component: Component, links: Links | None = None) -> None:
        """One more component, with its links where a fit has told them."""
        if links is None and isinstance(component, HierarchicalMap):
            links = Links.of(component, None, self.density.unconstrained_names)
        self.components.append(component)
        self.links.append(links or Links())

    def fitted(self, start: Array, algorithm: Hierarchical) -> tuple[MapOrGaussian, Links]:
        """A map from ``start`` (D,), and its links."""
        found = algorithm.run(
            self.density, start, seed=self.seed, monitor=self.monitor,
            budget=max(self.budget - len(self.monitor.losses), 1),
        )  # fmt: skip
        if found.result.stop_reason.startswith(UNFINISHED):
            self.stopped = found.result.stop_reason
        assert isinstance(found.result, HierarchicalResult)
        return found.q, found.result.links

    def grow(
        self, most: int, rng: np.random.Generator, known: MissedMass | None = None
    ) -> PosteriorMixture:
        """Search around one component after the other, new ones too; the mixture of all. What is
        ``known`` outside the first is taken for its search. Ctrl-C ends it with what it has."""
        try:
            return self._grown(most, rng, known)
        except KeyboardInterrupt:
            self.stopped = unfinished(KeyboardInterrupt())
            return weighted_mixture(self.density, self.components, rng)[0]

    def _grown(
        self, most: int, rng: np.random.Generator, known: MissedMass | None
    ) -> PosteriorMixture:
        q, log_z = weighted_mixture(self.density, self.components, rng)
        explored = 0
        while explored < len(self.components) < most and self.stopped is None:
            component = self.components[explored]
            around, along = _draws(component, rng)[0], as_transport(component)
            theta, log_q = _draws(q, rng)
            with np.errstate(all="ignore"):  # a draw where log p̃ overflows has no weight
                log_p = self.density.log_density(theta)
            found = (
                known
                if known is not None
                else missed_mass(
                    self.density, theta, log_p, log_q, q.log_density, log_z, rng, around, along
                )
            )
            known = None
            explored += 1
            middle = theta.mean(axis=0), theta.std(axis=0)
            of_q = Misses(self.density, q.log_density, edge_of(log_q), log_z, *middle)
            if self._fit_in(found, of_q, most, rng):
                q, log_z = weighted_mixture(self.density, self.components, rng)
        return q

    def _beside(self, basin: Basin, rng: np.random.Generator) -> Array:
        """A draw (D,) of the basin's Gaussian, of a few the first at which p̃ has a density; not its
        mean: a path that starts at a mode shows no curvature."""
        for _ in range(MOST_BESIDE):
            beside = basin.q.forward(rng.standard_normal((1, basin.q.latent_dimension)))[0]
            with np.errstate(all="ignore"):
                if np.isfinite(self.density.log_density(beside)[0]):
                    break
        return beside[0]

    def _is_new(
        self, q: Component, missed_by: Misses, before: int, rng: np.random.Generator
    ) -> bool:
        """Whether it lies where neither the mixture nor a component from ``before`` on has mass."""
        points = _draws(q, rng)[0]
        return missed_by(points) and all(
            is_outside(points, c.log_density, edge_of(_draws(c, rng)[1]))
            for c in self.components[before:]
        )

    def _fit_in(
        self, found: MissedMass, missed_by: Misses, most: int, rng: np.random.Generator
    ) -> bool:
        """A map in each basin that matters; whether any is a new one."""
        before, misses = len(self.components), 0
        for basin in filter(lambda basin: basin.matters, found.basins):
            if len(self.components) == most or self.stopped is not None:
                break
            if misses == MISSES:
                break
            beside = self._beside(basin, rng)
            # a path may have led where p̃ has no top, and a fit runs away until it is refused
            with np.errstate(over="ignore", invalid="ignore"):
                new, links = self.fitted(beside, Hierarchical(paths=1, necks=False))
            if self._is_new(new, missed_by, before, rng):
                self.take(new, links)
                misses = 0
            elif self._is_new(basin.q, missed_by, before, rng):
                self.take(basin.q)  # the map left it, as a basin that ends at a wall has no top
                misses = 0
            else:
                misses += 1
        return len(self.components) > before


def _draws(q: Component, rng: np.random.Generator) -> tuple[Array, Array]:
    return q.forward(rng.standard_normal((SEARCH_DRAWS, q.latent_dimension)))


def _found(q: PosteriorMixture) -> str:
    if len(q.components) == 1:
        return "one basin found"
    weights = ", ".join(f"{w:.3g}" for w in np.sort(np.exp(q.log_weights))[::-1])
    return f"{len(q.components)} basins found, of weights {weights}"
