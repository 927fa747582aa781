"""Every threshold of the polish, with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from pymc_ext.variational.core.weights import KHAT_USABLE


@dataclass(frozen=True)
class Policy:
    """When a fit is polished, how far, and what is kept.

    "Tried": each value at half and twice, on eight schools centred (20,000 steps, with the weighted
    phase: k̂ .56 and .49 by the policy as it is, seeds 1 and 2) and non-centred (4000 steps,
    without: .24 and .15), k̂ of 100,000 fresh draws. What no remark speaks of changed nothing there,
    but for ``fewest_...`` and ``standard_errors``, which decide nothing there.
    ``benchmarks/papers/results/polish_policy.json`` has all runs.

    Parameters
    ----------
    fewest_steps
        Of an ELBO phase that is polished: the weighted phase takes as many (a choice).
    good_khat, good_ess
        A fit that reaches one of them is left as it is: k̂ 0.3 is well below the 0.5 from which
        weights have no variance, and a relative ESS of .999 is an error of .03 = √(1 − .999)
        posterior sd. Tried: k̂ 0.6 leaves the non-centred fits at .54 and .58.
    fair_khat
        k̂ below which nothing is trained: half way between good and 0.5. Tried: 0.8 leaves the
        centred fits at .70 and .73.
    nearly_right
        Relative ESS beyond which widening alone may do; below it the shape is wrong (a choice).
    reliable_khat
        k̂ beyond which weights are of no use: Vehtari et al. (2024), JMLR 25(72). Tried: 0.35
        leaves the centred fits at .70 and .73.
    scatter
        A smaller change of k̂ is none: its standard deviation, (1 + k̂)/√M at k̂ 0.3 for the
        M = 3√N largest ratios of N = 50,000. Tried: 0.1 gives the stretching up, .34 for .15.
    fewest_ratios
        Finite ratios that have a k̂: its tail is a fifth of them (a choice).
    largest_loss
        Nats of ELBO below q's beyond which no proposal is widened or stretched (a choice above the
        dearest widening).
    largest_price
        Nats of ELBO for which a trained phase is never kept; where one is of use it costs some
        hundredths (.07 and .16 here).
    widening_costs
        Nats that a widening costs where q was right, in the order tried. Tried: half leaves the
        non-centred fits at .33, twice takes twice the ELBO for .10.
    leading_share
        Share of that borne by a model's leading scalars, on which all else depends. Tried (none
        but .35 to .85): .18 to .25 as before; all of it gives .35 and .25.
    stretching_draws, stretching_rounds
        Draws behind a fit of the tails, and how often it is made with new weights. Tried: the
        centred k̂ is .50 to .62 with all of them, the non-centred one the same within .01.
    stretching_lengths
        Multiples of the fitted tails that are tried: the largest weights are missing from any
        finite number of draws. Tried: half gives .62 and .65 (centred), twice .43 and .32, but a
        lower ELBO by .17 and 1.6 nats.
    longest_stretch
        Largest amount fitted: at 4 a draw of three sd moves by 1.4, and the longest that is tried,
        6, is within the 10 to which `excess_inverse` is exact. Tried: 2 gives .57 and .59, 8
        .55 and .48.
    standard_errors
        Monte Carlo standard errors by which q may fall behind its base without being worse: one in
        700 by chance.
    """

    fewest_steps: int = 3000
    good_khat: float = 0.3
    good_ess: float = 0.999
    fair_khat: float = 0.4
    nearly_right: float = 0.9
    reliable_khat: float = KHAT_USABLE
    scatter: float = 0.05
    fewest_ratios: int = 100
    largest_loss: float = 0.06
    largest_price: float = 1.0
    widening_costs: tuple[float, ...] = (0.015, 0.02, 0.03, 0.045)
    leading_share: float = 0.7
    stretching_draws: int = 50_000
    stretching_rounds: int = 2
    stretching_lengths: tuple[float, ...] = (1.0, 1.5)
    longest_stretch: float = 4.0
    standard_errors: float = 3.0


POLICY = Policy()
