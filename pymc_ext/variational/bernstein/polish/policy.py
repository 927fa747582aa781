"""Every threshold of the polish, with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """When a fit is polished, how far, and what is kept.

    Parameters
    ----------
    good_khat, good_ess
        A fit that reaches one of them is left as it is: k̂ 0.3 is well below the 0.5 from which
        weights have no variance, and a relative ESS of .999 is an error of .03 posterior sd.
    fair_khat
        k̂ below which nothing is trained: half way between good and 0.5.
    nearly_right
        Relative ESS beyond which widening alone may do; below it the shape is wrong.
    reliable_khat
        k̂ beyond which weights are of no use: Vehtari et al. (2024), JMLR 25(72).
    scatter
        About one standard deviation of k̂ from 50,000 draws: a smaller change is none.
    largest_loss
        Nats of ELBO below q's beyond which no proposal is widened or stretched.
    largest_price
        Nats of ELBO for which a trained phase is never kept; where one is of use it costs some
        hundredths.
    widening_costs
        Nats that a widening costs where q was right, in the order tried; smaller ones can raise k̂.
    leading_share
        Share of that borne by a model's leading scalars, on which all else depends.
    stretching_draws, stretching_rounds
        Draws behind a fit of the tails, and how often it is made with new weights.
    stretching_lengths
        Multiples of the fitted tails that are tried: the largest weights are missing from any
        finite number of draws.
    longest_stretch
        Largest amount fitted: at 4 a draw of three sd moves by one.
    standard_errors
        Monte Carlo standard errors by which q may fall behind its base without being worse.
    """

    good_khat: float = 0.3
    good_ess: float = 0.999
    fair_khat: float = 0.4
    nearly_right: float = 0.9
    reliable_khat: float = 0.7
    scatter: float = 0.05
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
