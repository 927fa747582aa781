"""Whether draws may be taken for the posterior, and why: the one rule of fits and of comparisons.

Of an approximation `by_weights` looks at k̂, at what its draws are worth, and at the error and k̂ of
each mean and sd; mass outside it, which none of these can see, is what `bridge.trust.missed` looks
for. `of_chains` judges what a sampler drew. `docs/trust.md` states the rule with how often it was
wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bridge.measures.khat import KHat, pareto_khat
from bridge.measures.limits import (
    ESS_SHARE_NEGLIGIBLE,
    KHAT_GOOD,
    KHAT_USABLE,
    KHAT_WITHOUT_MEAN,
)
from bridge.methods.method import Fit, WeightedDraws
from pymc_ext.density.protocol import labels_of, spoken_names
from pymc_ext.sampling.diagnostics import Diagnostics
from pymc_ext.sampling.quantities import scalars
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.precision import Precision, weighted_precision
from pymc_ext.variational.core.weights import EXACT, serve

__all__ = ["REPETITIONS", "Judgement", "by_weights", "of_chains"]

REFUSED = "refused: "  # as verdicts of what is not taken begin
REPETITIONS = 5  # batches of the draws: their spread is the spread of k̂


@dataclass(frozen=True)
class Judgement:
    """Of all draws that an approximation has given so far.

    Parameters
    ----------
    k, of_all
        k̂ in batches, and of all draws together.
    good, verdict
        Whether they may be taken, if no mass is missed, and why.
    precision, names
        Of means and sds, and of which coordinates; None where weights do not serve.
    checks
        All that was looked at.
    """

    k: KHat
    of_all: KHat
    good: bool
    verdict: str
    precision: Precision | None
    names: list[str]
    checks: tuple[Check, ...] = ()

    @property
    def draws(self) -> int:
        """How many there were."""
        return self.of_all.draws

    def is_settled(self, ess: float, wanted: float) -> bool:
        """Whether more draws could only confirm it."""
        if self.k.exact:
            return True
        share = self.k.ess / self.k.draws
        if self.k.value - self.k.sd > KHAT_WITHOUT_MEAN and share < ESS_SHARE_NEGLIGIBLE:
            return True
        if not self.good or self.precision is None:
            return False
        clear = self.k.value < (KHAT_USABLE if share >= ESS_SHARE_NEGLIGIBLE else KHAT_GOOD)
        weights = self.of_all.weights
        assert weights is not None
        worth = 1 / float(weights.ravel() @ weights.ravel())
        return clear and worth >= wanted and not self.precision.doubt(self.names, KHAT_GOOD, ess)


def by_weights(
    draws: WeightedDraws,
    names: list[str],
    limit: float,
    ess: float,
    repetitions: int = REPETITIONS,
) -> Judgement:
    """Judge weighted draws, as far as the mass that they reach.

    Parameters
    ----------
    draws
        Independent ones, of q or of its proposal.
    names
        Of the unconstrained coordinates.
    limit
        The k̂ that is too large, of the weights and of each mean and sd.
    ess
        What the draws must be worth; means and sds may be off by 1/√``ess`` sds.
    repetitions
        Batches in which k̂ is taken.

    Examples
    --------
    >>> theta = np.random.default_rng(1).standard_normal((1, 4000, 1))
    >>> lq = scipy.stats.norm.logpdf(theta)[..., 0]
    >>> by_weights(WeightedDraws(theta, lq + 1, lq), ["x"], 0.7, 400).verdict
    'exact wherever it draws: its log ratios to the posterior are constant there'
    """
    lp, lq = draws.lp.ravel(), draws.lq.ravel()
    size = lp.size // repetitions
    lp_batches, lq_batches = (x[: size * repetitions].reshape(repetitions, size) for x in (lp, lq))
    k = pareto_khat(lp_batches, lq_batches)
    of_all = pareto_khat(lp, lq)
    good, found = _of_khat(k, limit, ess)
    if good and of_all.weights is None:  # some batch had no k̂ of its own
        good, found = False, f"no k̂ ({of_all.reason})"
    verdict = found if good else f"{REFUSED}{found}"
    checks = _as_checks(k, good, found, limit, ess)
    if not good or k.exact or of_all.weights is None:
        return Judgement(k, of_all, good, verdict, None, names, checks)
    theta = draws.theta.reshape(-1, draws.theta.shape[-1])
    with np.errstate(invalid="ignore"):  # −∞ where p̃ is zero
        log_ratios = lp - lq
    precision = weighted_precision(theta, log_ratios, of_all.weights.ravel())
    of_moments = precision.check(names, limit, ess)
    if not of_moments.passed:
        good, verdict = False, f"{REFUSED}{of_moments.found}"
    return Judgement(k, of_all, good, verdict, precision, names, (*checks, of_moments))


def _as_checks(k: KHat, good: bool, found: str, limit: float, ess: float) -> tuple[Check, ...]:
    """Of weights as a whole, and of what all draws are worth, where they have weights."""
    if k.exact or np.isnan(k.value):
        return (Check("weights", good, found, -np.inf if k.exact else np.nan, limit),)
    draws, share = k.draws * len(k.per_repetition), k.ess / k.draws
    does, few = serve(k.value, share, limit), share * draws < ess
    of_tail = f"k̂ = {k.value:.2f} < {limit:g}" if does and few else found
    worth = found if few and does else f"{draws:,} draws are worth {share * draws:,.0f}"
    return (
        Check("weights", bool(does and (good or few)), of_tail, k.value, limit),
        Check("effective draws", bool(not few), worth, float(share * draws), ess),
    )


def _of_khat(k: KHat, limit: float, ess: float) -> tuple[bool, str]:
    """Whether weights make draws of the posterior of it, and why."""
    if k.exact:
        return True, EXACT
    if np.isnan(k.value):
        return False, f"no k̂ ({k.reason})"
    draws, share = k.draws * len(k.per_repetition), k.ess / k.draws
    worth = f"draws worth {share:#.2g} of as many"
    if not serve(k.value, share, limit):
        if np.isinf(k.value):
            return False, f"no k̂, as a few draws have all the weight; {worth}"
        return False, f"k̂ = {k.value:.2f} >= {limit:g}, {worth}"
    if share * draws < ess:
        return False, f"{draws:,} draws are worth {share * draws:.0f}, fewer than {ess:g}"
    if k.value >= limit:
        return True, f"good enough: {worth}, so that k̂ = {k.value:.2f} does not matter"
    return True, f"good enough: k̂ = {k.value:.2f} < {limit:g}, {worth}"


def of_chains(chains: Fit, ess: float) -> tuple[bool, str]:
    """Whether the draws of a sampler may be taken for the posterior, and why.

    By R̂, bulk and tail ESS and the errors of sds of all coordinates, of log p̃ and of the
    constrained values, by divergences and by E-FMI, with the limits of
    `pymc_ext.sampling.diagnostics`.

    Parameters
    ----------
    chains
        What the sampler drew; where it judges itself (``trusted`` and ``verdict`` of its ``info``),
        that is the answer.
    ess
        Effective draws that every quantity must have.
    """
    if "trusted" in chains.info:
        return bool(chains.info["trusted"]), str(chains.info.get("verdict"))
    theta, target = chains.theta, chains.target
    derived = scalars(target.constrain(theta.reshape(-1, theta.shape[-1])), theta.shape[:2])
    names = spoken_names(target.density)
    found = Diagnostics.of_draws(
        theta, chains.lp, names, derived, chains.statistics, labels=labels_of(target.density)
    )
    doubts = found.doubts(ess)
    if doubts:
        return False, "not trusted: " + "; ".join(doubts)
    told = {"diverging": "divergences", "energy": "energies"}
    untold = [what for name, what in told.items() if name not in chains.statistics]
    unseen = f"; it does not tell its {' and '.join(untold)}" if untold else ""
    return True, f"trusted: R̂ = {found.rhat:.3f}, {found.ess:.0f} effective draws{unseen}"
