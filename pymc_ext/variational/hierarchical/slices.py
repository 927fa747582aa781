r"""The marginal of one governor from slices: log p̃ along it, all that it governs carried along.

At latents v with v_j = t, the others drawn from N(0, I), the mean of log p̃ − log q,

.. math:: s(t) = E[\log\tilde p(\theta) - \log q(\theta) \mid v_j = t] \le \log Z + \log
    \frac{p(v_j = t)}{\phi(t)},

is the logarithm of how much too little mass q has there, up to what its conditional law of all
other coordinates lacks. Where that is right, some ten values of log p̃ at each t tell tails that
q's own draws reach once in ten thousand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.marginal_fit import best_marginal, lines
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.gaussian.numbers import antithetic
from pymc_ext.variational.hierarchical.map import HierarchicalMap

PLACES = np.linspace(-4, 4, 17)  # of t; beyond lies 6e-5 of q
DRAWS = 10  # at each: log ratios of a conditional law that fits have an sd of .3
FEWEST = 5  # places known, from which a marginal of five numbers is fitted
MOST_SLICED = 8  # governors whose slices are looked at: each takes 170 values
MIDDLE = np.abs(PLACES) <= 1
DRAWN = np.abs(PLACES) <= 3.5  # of 4,096 draws of q two lie beyond
# sd of the log ratios of one slice beyond which the law there is another one: weights of that sd
# leave a third of the draws. In thousands of dimensions that of the middle is as large: then three
# times more.
FAILS, FAILS_MORE = 1.0, 3.0
# |t| from which q has less than 1 % of its draws on each side, nats by which it has too little mass
# there, a third, and standard errors by which that is known.
FAR, LACKING, SURE = 2.5, 0.3, 2.0


@dataclass(frozen=True)
class Slices:
    """s(t) of one latent, at `PLACES`, with standard errors.

    Parameters
    ----------
    place
        j, in the map's order.
    mean, error
        (K,); −∞ where a draw is outside of where p̃ has a density.
    """

    place: int
    mean: Array
    error: Array

    @classmethod
    def along(
        cls, density: CountedDensity, q: HierarchicalMap, place: int, rng: np.random.Generator
    ) -> Slices:
        """From `DRAWS` mirrored draws, the same at each t."""
        v = np.tile(antithetic(rng, DRAWS, q.dimension), (len(PLACES), 1))
        v[:, place] = np.repeat(PLACES, DRAWS)
        theta, log_q = q.forward(v)
        with np.errstate(all="ignore"):
            log_ratios = (density.log_density(theta) - log_q).reshape(-1, DRAWS)
        log_ratios = np.where(np.isfinite(log_ratios), log_ratios, -np.inf)
        with np.errstate(invalid="ignore"):
            error = log_ratios.std(axis=1) / np.sqrt(DRAWS)
        return cls(place, log_ratios.mean(axis=1), error)

    def fitted(self, q: HierarchicalMap) -> HierarchicalMap | None:
        """q with the marginal, location and scale of this latent that the slices ask for; None
        where too few of them are known."""
        j, usable = self.place, self.fits & np.isfinite(self.mean)
        if usable.sum() < FEWEST:  # where the law is off, s is a bound, and no close one
            usable = np.isfinite(self.mean)
        if usable.sum() < FEWEST:
            return None
        own = q.marginal.of(np.array([j]))

        def log_p(y: Array) -> Array:
            t = own.inverse(y[:, None])
            slope = own.forward(t)[1][:, 0]
            along = lines(t[:, 0], PLACES[usable], self.mean[usable])
            return along + standard_normal_logp(t) - np.log(slope)

        found = best_marginal(log_p, np.array([0.0, 0.0, own.skew[0], *own.tails[:, 0]]))
        if found is None:
            return None
        shifted, log_factor, made = found
        marginal = q.marginal
        skew, tails = marginal.skew.copy(), marginal.tails.copy()
        skew[j], tails[:, j] = made.skew[0], made.tails[:, 0]
        shift, factor = np.zeros(q.dimension), np.ones(q.governors)
        shift[j], factor[j] = shifted, np.exp(log_factor)
        return replace(q.moved(shift, factor), marginal=Marginal(skew, tails))

    @property
    def sd(self) -> Array:
        """Of the log ratios of each slice, (K,)."""
        return self.error * np.sqrt(DRAWS)

    @property
    def fits(self) -> NDArray[np.bool_]:
        """Where q's law of the others is about as right as in the middle, (K,)."""
        return self.sd < FAILS + FAILS_MORE * np.median(self.sd[MIDDLE])

    @property
    def misfit(self) -> float:
        """Of q's law of the others; far off it counts by its logarithm."""
        return float(np.sum(np.log1p(np.nan_to_num(self.sd[DRAWN], nan=np.inf) ** 2)))

    @property
    def law_fails(self) -> bool:
        """Whether q's law of the others, given this latent, fits far worse somewhere than in the
        middle."""
        return not self.fits[DRAWN].all()

    @property
    def lacks_tail(self) -> bool:
        """Whether q has too little mass far out along this latent."""
        middle = np.median(self.mean[MIDDLE])
        excess = self.mean - middle - SURE * self.error
        return bool(np.any(excess[np.abs(PLACES) >= FAR] > LACKING))


def governors_of(q: HierarchicalMap) -> list[int]:
    """Places that govern others' scales, those of the most first, at most `MOST_SLICED`."""
    linked = np.count_nonzero(q.scales, axis=0)
    places = np.argsort(-linked, kind="stable")[:MOST_SLICED]
    return places[linked[places] > 0].tolist()


def lacking(density: CountedDensity, q: HierarchicalMap, rng: np.random.Generator) -> Array:
    """Unit vectors of the governors along which q lacks mass far out, (S, D)."""
    found = [Slices.along(density, q, place, rng) for place in governors_of(q)]
    places = [of.place for of in found if of.lacks_tail]
    along = np.zeros((len(places), q.dimension))
    along[np.arange(len(places)), places] = 1.0
    return along
