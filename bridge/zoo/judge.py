"""One answer against the truth of its target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bridge.measures.limits import MEAN_WRONG, RATIO_WRONG
from posteriordb_cases.zoo import Truth, ZooDensity, summary_of
from pymc_ext.maths.types import Array

__all__ = ["Judged", "judged"]

# Mass that a mode lacks and that may not be trusted: a choice, what 95 % intervals leave outside.
MASS_WRONG = 0.05
# What is right: a refusal of it is a false one. A mean is known to .05 sds by 400 effective draws,
# the sd of a Gaussian to 3.5 %.
MEAN_RIGHT, RATIO_RIGHT = 0.05, 1.05
# Standard errors, at as many effective draws as are asked for, by which the share of a mode may be
# short before mass counts as missed.
ALLOWED, EFFECTIVE = 3.0, 400.0


@dataclass(frozen=True)
class Judged:
    """What is wrong with draws.

    Parameters
    ----------
    mean_error
        Largest error of a mean, in sds; of a heavy law of a median, in its quantiles' unit.
    sd_ratio
        The ratio of sds (of the distance of the 5 % and 95 % quantiles) farthest from 1.
    missed
        Mass that the most incomplete mode lacks, beyond Monte Carlo error.
    """

    mean_error: float
    sd_ratio: float
    missed: float

    @property
    def wrong(self) -> bool:
        """To trust it would be false trust; NaN is wrong too."""
        return not (
            self.mean_error <= MEAN_WRONG
            and 1 / RATIO_WRONG <= self.sd_ratio <= RATIO_WRONG
            and self.missed <= MASS_WRONG
        )

    @property
    def right(self) -> bool:
        """To refuse it would be a false refusal."""
        return (
            self.mean_error <= MEAN_RIGHT
            and 1 / RATIO_RIGHT <= self.sd_ratio <= RATIO_RIGHT
            and self.missed <= MASS_WRONG
        )


def judged(density: ZooDensity, truth: Truth, draws: Array, unknown: Sequence[int] = ()) -> Judged:
    """Hold draws against the truth.

    Parameters
    ----------
    density, truth
        The target.
    draws
        Of the answer, (N, D).
    unknown
        Coordinates of whose moments the answer says that draws do not tell them: they are judged by
        quantiles, as all are of a heavy law.

    Examples
    --------
    >>> from posteriordb_cases.zoo import ZOO, truth_of
    >>> density, rng = ZOO["modes-1"].make(), np.random.default_rng(1)
    >>> truth = truth_of(density)
    >>> judged(density, truth, density.draws(10_000, rng)).wrong
    False
    >>> judged(density, truth, rng.standard_normal((10_000, 1))).missed > 0.2  # one mode of two
    True
    """
    found = summary_of(draws)
    robust = np.full(density.dimension, truth.heavy)
    robust[list(unknown)] = True
    errors = np.where(
        robust, (found.median - truth.median) / truth.width, (found.mean - truth.mean) / truth.sd
    )
    ratios = np.where(robust, found.width / truth.width, found.sd / truth.sd)
    shares = np.bincount(density.mode_of(draws), minlength=density.modes) / len(draws)
    error = np.sqrt(truth.shares * (1 - truth.shares) / EFFECTIVE)
    with np.errstate(divide="ignore"):  # a spread of zero is infinitely wrong
        worst = ratios[np.argmax(np.abs(np.log(ratios)))]
    return Judged(
        mean_error=float(np.max(np.abs(errors))),
        sd_ratio=float(worst),
        missed=float(max(np.max(truth.shares - shares - ALLOWED * error), 0.0)),
    )
