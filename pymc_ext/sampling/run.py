"""Chains in an approximation's coordinates, block by block, until draws are worth enough."""

from __future__ import annotations

import time

import numpy as np

from pymc_ext.density import CountedDensity, Density, TransportMap
from pymc_ext.maths.types import Array
from pymc_ext.sampling import attempts
from pymc_ext.sampling.blocks import Chains, Constrain, Fold
from pymc_ext.sampling.hidden import hidden_by
from pymc_ext.sampling.hmc import HMC
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.protocol import Sampler
from pymc_ext.sampling.result import Sampled
from pymc_ext.sampling.starts import own_starts, require_law, weighted_starts
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.threads import threads_for
from pymc_ext.variational.core.weights import NO_DENSITY

NOTHING_DRAWN = "interrupted before the chains had drawn anything: nothing is kept"
GIVEN_UP = {  # why chains in a map's coordinates are, as users are told
    attempts.CONDEMNED: "the approximation's coordinates did not serve",
    attempts.HIDES: "the approximation's coordinates hide a region that chains without them enter",
}
FEWEST_DRAWS = 4  # of a chain that is judged: half-chains of two have a variance


class BudgetSpentError(ValueError):
    """The budget went before the chains had drawn anything; ``why`` is that without the advice,
    ``spent`` the gradients that went."""

    def __init__(self, why: str, spent: int) -> None:
        super().__init__(why, spent)
        self.why, self.spent = why, spent

    def __str__(self) -> str:
        return f"{self.why}; give a larger one"


def sample(
    density: Density,
    transport: TransportMap | None,
    sampler: Sampler,
    options: Sampling | None = None,
    *,
    seed: int | None = None,
    extra_starts: Array | None = None,
    constrain: Constrain | None = None,
    fall_back: bool = True,
    fold: Fold | None = None,
    in_step: bool = False,
) -> Sampled:
    r"""Draw from p̃ by chains in the coordinates of an approximation.

    Chains of v, with θ = T(v), start from importance-weighted draws of q, adapt their step size in
    a few iterations, and draw in blocks until bulk and tail ESS of every quantity and of log p̃
    reach ``options.ess`` and the chains agree. Where the first blocks show that the map does not
    serve, the chains go on in θ with the sampler's own adaptation, from where they are. No choice
    depends on a measured time: a seed means a result.

    Parameters
    ----------
    density
        log p̃ on R^D with its score.
    transport
        T: a fitted q with a pullback. None: the sampler adapts by itself.
    sampler
        What makes the chains.
    options
        ESS, budget, chains; the defaults of `Sampling` if None.
    seed
        Of all random numbers.
    extra_starts
        θ (M, D), unconstrained: M more chains from there, such as other basins and dispersed
        points, which starts from one q would never see. All chains are held to one R̂.
    constrain
        θ (N, D) -> values by name, (N, *shape): quantities that must have their ESS too.
    fall_back
        False: where the map does not serve the run ends, for who has run the sampler without one.
    fold
        θ (N, D) -> images under changes that leave p as it is, the same for all images of one
        point, as :meth:`.symmetry.Symmetry.one_order`: draws are judged, and handed back, so.
    in_step
        Whether HMC, whose chains go in step, comes before ``sampler`` in the map's coordinates.

    Returns
    -------
    Sampled
        Draws, verdict, cost. Ctrl-C keeps what is drawn, and says that it is short.

    Raises
    ------
    DensityError
        The dimensions do not fit, ``transport`` is no q with a pullback, or log p̃ is not finite
        where a chain is to start.
    TypeError
        ``sampler`` makes no chains.
    BudgetSpentError
        Nothing was drawn within the budget.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.sampling.nutpie import NutpieNUTS
    >>> from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
    >>> density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    >>> q = DiagonalGaussian(np.zeros(2), np.ones(2))
    >>> sample(density, q, NutpieNUTS(), seed=1).verdict
    'trusted'

    References
    ----------
    Hoffman, Sountsov, Dillon, Langmore, Tran & Vasudevan (2019), arXiv:1903.03704.
    """
    require_sampler(sampler)
    begin = time.perf_counter()
    counted = CountedDensity(density)
    compiled = counted.clock.seconds
    rng = np.random.default_rng(seed)
    run = attempts.SamplingRun(counted, sampler, options or Sampling(), constrain, rng, fold)
    try:
        with run.interrupts, threads_for(counted.dimension):
            chains, why = _attempts(run, transport, extra_starts, fall_back, in_step)
    finally:
        for made in run.made:
            made.close()
    compile_seconds = counted.clock.seconds - compiled
    seconds = max(time.perf_counter() - begin - compile_seconds, 0.0)
    return _answer(run, chains, why, seconds, compile_seconds, seed)


def require_sampler(sampler: object) -> None:
    """TypeError unless it makes chains."""
    if not callable(getattr(sampler, "chain", None)):
        raise TypeError(
            "sampler must make chains, as pymc_ext.sampling.nutpie.NutpieNUTS() does, got "
            f"{sampler!r}: give one, or leave it out"
        )


def _attempts(
    run: attempts.SamplingRun, transport: TransportMap | None, extra: Array | None,
    fall_back: bool, in_step: bool,
) -> tuple[Chains, str]:  # fmt: skip
    """In the map's coordinates if they serve, else in θ: the chains, and why they ended."""
    if transport is not None:
        require_law(transport, run.density.dimension)
    extra, extra_in_map = own_starts(run.density, extra, transport)
    starts, scale, condemned = None, None, None
    if transport is not None:
        chains, why, beyond = _in_map(run, transport, extra_in_map, in_step)
        if chains is not None:
            if why not in GIVEN_UP or not fall_back:
                return chains, why
            run.given_up += chains.gradients
            starts, scale = _from_map(run, chains, len(extra), beyond), chains.theta.std((0, 1))
            condemned = chains
        run.notes = (*run.notes, f"{GIVEN_UP[why]}: the sampler adapted by itself")
    if starts is None:
        starts = np.concatenate(
            [attempts.random_starts(run, attempts.chains_from_q(run.options, False)), extra]
        )
    chains, why = attempts.alone(run, starts, scale)
    if condemned is not None and (
        (why == attempts.SPENT and chains.draws < FEWEST_DRAWS)
        or (why == attempts.INTERRUPTED and chains.draws < condemned.draws)
    ):
        return attempts.kept_instead(run, condemned, chains), why
    return chains, why


def _in_map(
    run: attempts.SamplingRun, transport: TransportMap, extra: Array, in_step: bool
) -> tuple[Chains | None, str, Array | None]:
    """Chains in v, why they ended, and where they never were but chains in θ come to; no chains
    where q has no draw to begin at."""
    count = attempts.chains_from_q(run.options, in_step)
    begin = weighted_starts(run.density, transport, count, run.rng)
    if begin is None:
        return None, attempts.CONDEMNED, None
    chains, why = attempts.in_map(run, transport, begin.v, extra, in_step)
    # other modes, and other orders of labels, are no regions that the map hides
    looked = begin.nearly_right or run.fold is not None or len(extra) > 0
    if looked or why != attempts.REACHED:
        return chains, why, None
    try:
        beyond = hidden_by(run.density, transport, chains, run.rng)
    except KeyboardInterrupt:
        return chains, attempts.INTERRUPTED, None
    return chains, (why if beyond is None else attempts.HIDES), beyond


def _from_map(run: attempts.SamplingRun, chains: Chains, extra: int, beyond: Array | None) -> Array:
    """Where chains in θ begin after those in v: where some of these are, half of them ``beyond``
    if they never were there, and where all of the ``extra`` last ones are."""
    from_q = chains.count - extra
    kept = np.r_[: min(from_q, attempts.chains_from_q(run.options, False))]
    starts = chains.theta[np.r_[kept, from_q : chains.count], -1]
    if beyond is not None:
        half = starts[::2]
        half[:] = run.rng.choice(beyond, len(half), replace=len(beyond) < len(half))
    return starts


def _answer(
    run: attempts.SamplingRun, chains: Chains, why: str, seconds: float, compile_seconds: float,
    seed: int | None,
) -> Sampled:  # fmt: skip
    if chains.draws < FEWEST_DRAWS:
        if why == attempts.INTERRUPTED:
            raise KeyboardInterrupt(NOTHING_DRAWN)
        raise BudgetSpentError(
            f"the budget of {run.options.budget:,} gradients went before the chains had drawn "
            f"anything: {run.spent(chains):,} were spent on warm-up",
            run.spent(chains) + run.density.gradients,
        )
    found = chains.diagnostics()
    checks = found.checks(run.options.ess)
    if chains.infinite:
        said = (
            f"log p̃ is +∞ at {chains.infinite} of the points that the sampler tried: {NO_DENSITY}"
        )
        checks = (Check("density", False, said), *checks)
    if why != attempts.REACHED:
        checks = (Check("end", False, f"{why}, {chains.draws} draws a chain"), *checks)
    return Sampled(
        theta=chains.theta,
        lp=chains.lp,
        statistics=chains.statistics,
        diagnostics=found,
        checks=checks,
        notes=(*run.notes, *found.notes(run.options.ess)),
        sampler=HMC.name if isinstance(chains.source, HMC) else run.sampler.name,
        in_map=chains.transport is not None,
        stop_reason=why,
        gradient_evaluations=run.spent(chains) + run.density.gradients,
        density_evaluations=run.density.values,
        warm_up_gradients=run.given_up + chains.warm_up_gradients,
        seconds=seconds,
        compile_seconds=compile_seconds,
        random_seed=seed,
    )
