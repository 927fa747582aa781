"""The two attempts of a run: chains in a map's coordinates, and chains that adapt by themselves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from pymc_ext.density import CountedDensity, TransportMap
from pymc_ext.density.check import DensityError
from pymc_ext.interrupts import Interrupts
from pymc_ext.maths.types import Array
from pymc_ext.sampling.blocks import Chains, Constrain, Fold
from pymc_ext.sampling.diagnostics import ENERGY_FMI_LEAST, TRANSITIONS_TO_TELL, Diagnostics
from pymc_ext.sampling.hmc import HMC
from pymc_ext.sampling.options import START_RADIUS, START_TRIES, Sampling
from pymc_ext.sampling.progress import now
from pymc_ext.sampling.protocol import Sampler, Source
from pymc_ext.sampling.threads import Threads

logger = logging.getLogger(__name__)

# Chains of a sampler, as everywhere, and of HMC in step, where more cost little else than draws: of
# 16 half-chains the worst R̂ of many is below 1.02 from some 700 effective draws on.
CHAINS, CHAINS_IN_STEP = 4, 8

# Draws of each chain before the first judgement: from 50 on half-chains of 25 tell chains that mix
# from chains that do not; from 100 on R̂ may condemn a map.
FIRST_DRAWS, DRAWS_TO_CONDEMN = 50, 100

# Gradients that a map is allowed before it may be given up: a fifth of the 40,000 that the cheapest
# of 20 posteriors took Stan's own default of four chains, so that a map that does not serve costs
# at most that share of a run without one.
GRADIENTS_TO_CONDEMN = 8_000

# R̂ from which on chains in a map's coordinates count as stuck, once these were spent; a lower one
# counts where the E-FMI is too low as well. In trials maps that served came to 1.15 by then with
# E-FMIs above 0.36, maps that did not to 1.2 and more with E-FMIs below 0.25.
RHAT_CONDEMNS, RHAT_DOUBTFUL = 1.5, 1.1

# The largest tree depth in a map's coordinates, where trajectories of 63 steps reach across a
# standard normal of 10,000 dimensions; and the share of transitions that may end there.
MAP_DEPTH, DEEP_SHARE = 6, 0.1

# Acceptance rates that step sizes are adapted to anew, one after the other, where more transitions
# diverge than draws that are trusted may have: Stan's own advice, and enough on centred eight
# schools, where 0.9 was not always.
CAREFUL = (0.9, 0.95)

# Share of divergent transitions, ten times what is trusted, from which on the shortest steps of
# these do not help: the sampler is given its own adaptation.
DIVERGENT_CONDEMNS = 0.01

# Most by which a block multiplies the draws (an ESS from few draws is not to be extrapolated
# further), factor on the draws that it predicts, and the fewest draws worth a block.
GROWTH, MARGIN, FEWEST = 2.0, 1.1, 10

# Blocks after which R̂ − 1, had the chains mixed, would have fallen with the number of draws: to an
# eighth where draws doubled. Where it has not even halved, more draws will not let them meet.
BLOCKS_TO_MEET = 3

REACHED, SPENT = "the ESS asked for was reached", "the budget of gradients was spent"
INTERRUPTED = "interrupted"
APART = "R̂ no longer falls with more draws, as where chains stay in basins of their own"
DIVERGENT = "more than 1 % of the transitions diverge, which more of them would not mend"
CONDEMNED, DIVERGES = "the map does not serve", "steps are too long"
HIDES = "the map hides a region that chains without it enter"
HANDED_ON = "trajectories of one length do not serve"

# Gradients after which chains in step are handed on to a sampler whose trajectories find their own
# lengths: what nutpie's default takes on 32 models of users in median, without any map
# (`python -m benchmarks.speed.users`).
MOST_IN_STEP = 75_000


@dataclass
class SamplingRun:
    """What a run shares between its attempts."""

    density: CountedDensity
    sampler: Sampler
    options: Sampling
    constrain: Constrain | None
    rng: np.random.Generator
    fold: Fold | None = None
    interrupts: Interrupts = field(default_factory=Interrupts)
    given_up: int = 0  # gradients of an attempt whose draws are not used
    notes: tuple[str, ...] = ()
    made: list[Chains] = field(default_factory=list)  # all of them, to be closed

    def chains(
        self,
        starts: Array,
        options: Sampling,
        transport: TransportMap | None = None,
        scale: Array | None = None,
    ) -> Chains:
        """Chains from ``starts`` (M, D), each with random numbers of its own, not yet warm."""
        density = self.density.density
        density = getattr(density, "for_chains", density)
        made = [
            self.sampler.chain(
                density, start, transport=transport, scale=scale,
                seed=int(self.rng.integers(2**31)), options=options,
            )
            for start in starts
        ]  # fmt: skip
        now(f"NUTS: {len(made)} chains warm up")
        share = None if transport is None else self.sampler.share
        return self._kept(Threads(made, self.interrupts, share), transport)

    def in_step(self, starts: Array, options: Sampling, transport: TransportMap) -> Chains:
        """The same by HMC in v, all in step."""
        now(f"HMC: {len(starts)} chains warm up")
        seed = int(self.rng.integers(2**31))
        source = HMC(self.density.density, transport, starts, seed, options, self.interrupts)
        return self._kept(source, transport)

    def _kept(self, source: Source, transport: TransportMap | None) -> Chains:
        chains = Chains(source, self.density, transport, self.constrain, self.fold)
        self.made.append(chains)
        return chains

    def spent(self, chains: Chains) -> int:
        """Gradients so far."""
        return self.given_up + chains.gradients


def in_map(
    run: SamplingRun, transport: TransportMap, starts: Array, extra: Array, in_step: bool
) -> tuple[Chains, str]:
    """Chains in v, and why they ended: `CONDEMNED` where v does not do.

    From as many of ``starts`` (M, D) as the options say, and all of ``extra``. By HMC, ``in_step``,
    and where that does not do, or else, by the sampler, with shorter steps where it diverges.
    """
    options = replace(run.options, max_depth=min(run.options.max_depth, MAP_DEPTH))
    if in_step:
        begin = np.concatenate([starts[: chains_from_q(run.options, True)], extra])
        chains, why = _in_step(run, transport, begin, options)
        slow = why == APART and not len(extra)  # all began in one q
        if why != HANDED_ON and not slow:
            return chains, why
        run.given_up += chains.gradients
    starts = np.concatenate([starts[: chains_from_q(run.options, False)], extra])
    chains, why = _warmed_in_map(run, transport, starts, options)
    for acceptance in CAREFUL:
        if why == DIVERGES and acceptance > options.target_accept:
            before = chains
            run.given_up += chains.gradients
            options = replace(options, target_accept=acceptance)
            # from the same starts: a chain that was stuck would begin where it stuck
            chains, why = _warmed_in_map(run, transport, starts, options)
            if why == INTERRUPTED and chains.draws < before.draws:
                return kept_instead(run, before, chains), why
    return chains, why


def kept_instead(run: SamplingRun, before: Chains, chains: Chains) -> Chains:
    """The chains of an earlier attempt, whose gradients were given up, in place of later ones."""
    run.given_up += chains.gradients - before.gradients
    run.notes = (*run.notes, "these are the draws before the sampler adapted anew")
    return before


def _in_step(
    run: SamplingRun, transport: TransportMap, starts: Array, options: Sampling
) -> tuple[Chains, str]:
    """Chains of HMC, `HANDED_ON` where they diverge or take long: then the map leaves a neck to
    them, along which longer trajectories get farther."""
    chains = run.in_step(starts, options, transport)
    chains.warm_up(run.options.budget - run.given_up)

    def verdict(found: Diagnostics) -> str | None:
        if _condemned(run, chains, found):
            return CONDEMNED
        long = run.spent(chains) > MOST_IN_STEP and not found.enough(run.options.ess)
        return HANDED_ON if long or found.diverges else None

    return chains, _draw(run, chains, verdict)


def _warmed_in_map(
    run: SamplingRun, transport: TransportMap, starts: Array, options: Sampling
) -> tuple[Chains, str]:
    chains = run.chains(starts, options, transport)
    chains.warm_up(run.options.budget - run.given_up)

    def verdict(found: Diagnostics) -> str | None:
        if _condemned(run, chains, found):
            return CONDEMNED
        if not found.diverges:
            return None
        if options.target_accept < CAREFUL[-1]:
            return DIVERGES
        share = found.divergences / found.transitions
        return CONDEMNED if share > DIVERGENT_CONDEMNS else None

    return chains, _draw(run, chains, verdict)


def alone(run: SamplingRun, starts: Array, scale: Array | None) -> tuple[Chains, str]:
    """Chains in θ from ``starts`` (M, D), with the sampler's own adaptation, and why they ended."""
    chains = run.chains(starts, run.options, scale=scale)
    chains.warm_up(run.options.budget - run.given_up)

    def verdict(found: Diagnostics) -> str | None:
        many = found.divergences > DIVERGENT_CONDEMNS * found.transitions
        return DIVERGENT if many and found.transitions >= TRANSITIONS_TO_TELL else None

    return chains, _draw(run, chains, verdict)


def chains_from_q(options: Sampling, in_step: bool) -> int:
    """How many start from weighted draws, or from random points."""
    return options.chains or (CHAINS_IN_STEP if in_step else CHAINS)


def random_starts(run: SamplingRun, count: int) -> Array:
    """Points with a finite log p̃ and score, uniform as Stan's own starts, (count, D)."""
    return points_inside(run.density, count, run.rng)


def points_inside(density: CountedDensity, count: int, rng: np.random.Generator) -> Array:
    """The same of any density."""
    found: list[Array] = []
    for _ in range(START_TRIES):
        shape = count - len(found), density.dimension
        points = rng.uniform(-START_RADIUS, START_RADIUS, shape)
        with np.errstate(all="ignore"):
            lp, score = density.log_density_gradient(points)
        found += list(points[np.isfinite(lp) & np.isfinite(score).all(axis=1)])
        if len(found) == count:
            return np.stack(found)
    raise DensityError(
        f"log p̃ and its score are finite at {len(found)} of {START_TRIES * count} points of "
        f"(−{START_RADIUS:g}, {START_RADIUS:g})^{density.dimension}: give px.sample "
        "extra_starts where they are, or write the model in variables on the real line"
    )


def _draw(run: SamplingRun, chains: Chains, verdict: Callable[[Diagnostics], str | None]) -> str:
    """Blocks until the draws are worth enough, or ``verdict`` has a reason against more of them."""
    try:
        return _in_blocks(run, chains, verdict)
    except KeyboardInterrupt:  # between blocks: what these have made is there
        return INTERRUPTED


def _in_blocks(
    run: SamplingRun, chains: Chains, verdict: Callable[[Diagnostics], str | None]
) -> str:
    found: Diagnostics | None = None
    rhats = list[float]()
    while not (chains.interrupted or run.interrupts.seen):
        size = _next(run, chains, found)
        if size < FEWEST:
            return SPENT
        chains.extend(size)
        if chains.interrupted:
            break
        found = chains.progress(run.options.ess)
        logger.info("%d draws a chain, %d gradients: ESS %.0f, R̂ %.3f",
                    chains.draws, run.spent(chains), found.ess, found.rhat)  # fmt: skip
        now(f"NUTS: {chains.draws:,} draws a chain worth {min(found.ess, run.options.ess):.0f} of "
            f"{run.options.ess:g}, {run.spent(chains):,} gradients")  # fmt: skip
        against = verdict(found)
        if against is not None:
            return against
        if found.enough(run.options.ess):
            return REACHED
        rhats.append(found.rhat)
        if _stays_apart(rhats):
            return APART
    return INTERRUPTED


def _stays_apart(rhats: list[float]) -> bool:
    """Whether the chains will not meet, by R̂ of each block so far."""
    if len(rhats) <= BLOCKS_TO_MEET:
        return False
    recent = rhats[-1 - BLOCKS_TO_MEET :]
    # one near 1 is of chains that had not yet left the mode that all began in
    return min(recent) > RHAT_DOUBTFUL and recent[-1] - 1 > (recent[0] - 1) / 2


def _next(run: SamplingRun, chains: Chains, found: Diagnostics | None) -> int:
    """Draws of the next block: what the present ESS predicts, as far as the budget goes."""
    if found is None:
        size = FIRST_DRAWS
    else:
        short = max(found.shortage(run.options.ess), 1.0)
        size = int(np.ceil(chains.draws * (min(MARGIN * short, GROWTH) - 1)))
    left = run.options.budget - run.spent(chains)
    return int(min(max(size, FEWEST), left // (chains.steps * chains.count)))


def _condemned(run: SamplingRun, chains: Chains, found: Diagnostics) -> bool:
    """Whether the coordinates do not serve."""
    depths = chains.statistics.get("tree_depth")  # which chains in step have not
    deep = 0.0 if depths is None else np.mean(depths >= MAP_DEPTH)
    if deep > DEEP_SHARE and run.options.max_depth > MAP_DEPTH:
        return True
    if chains.draws < DRAWS_TO_CONDEMN or chains.gradients < GRADIENTS_TO_CONDEMN:
        return False
    slow = found.energy_fmi < ENERGY_FMI_LEAST
    return not found.rhat < (RHAT_DOUBTFUL if slow else RHAT_CONDEMNS)
