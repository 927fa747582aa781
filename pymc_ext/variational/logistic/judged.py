r"""How a closed form's q is judged: by fresh draws at the numbers of the model, without a graph.

.. math:: \log\tilde p(\beta) = c + b^\top\beta - \tfrac12 \beta^\top P \beta + \sum_i w_i
          \big[\log\tbinom{N_i}{y_i} + y_i \eta_i - N_i \log(1 + e^{\eta_i})\big], \quad
          \eta = a + X \beta
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import FRESH_DRAWS, fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.logistic.newton import Normal
from pymc_ext.variational.logistic.numbers import GaussianPrior, LogisticData

# Logits of all draws together, some .7 s on one core; of the fewest draws whose k̂ is worth telling
# as many as take some 3 s.
NUMBERS, MOST_NUMBERS, FEWEST = 20_000_000, 100_000_000, 1_000
TOGETHER = 2**20  # logits at a time: bounds the memory
TOO_MANY_ROWS = (
    f"{FEWEST:,} fresh draws at more than {MOST_NUMBERS // FEWEST:,} rows take longer than the "
    "fit: call px.diagnose(approx) for them"
)
IN_A_FILE = "fresh draws at all rows of a file take longer than the fit: fit some of them in memory"


@dataclass(frozen=True)
class LogisticNumbers:
    """log p̃ of a logistic model that is affine in β, by its prior and data.

    Parameters
    ----------
    prior, data
        The numbers.
    counted
        What counts its values.
    """

    prior: GaussianPrior
    data: LogisticData
    counted: CountedDensity

    def log_density(self, theta: Array) -> Array:
        """(N, D) -> (N,)."""
        self.counted.values += len(theta)
        found = self.prior.log_density(theta) + self.data.constant
        rows = max(1, TOGETHER // len(theta))
        for first in range(0, len(self.data.y), rows):
            found += self._likelihood(theta, slice(first, first + rows))
        return found

    def _likelihood(self, theta: Array, rows: slice) -> Array:
        data = self.data
        logits = theta @ data.X[rows].T + data.offset[rows]
        weight = data.weight[rows]
        return logits @ (weight * data.y[rows]) - np.logaddexp(0, logits) @ (
            weight * data.trials[rows]
        )


def judged(
    q: Normal,
    prior: GaussianPrior,
    data: LogisticData,
    counted: CountedDensity,
    rng: np.random.Generator,
) -> FreshDraws | None:
    """By 4,096 fresh draws, or by fewer where there are many rows; None where even 1,000 take long.

    Parameters
    ----------
    q
        Of β.
    prior, data
        The numbers of the model.
    counted
        Its density, which counts the values.
    rng
        Of the draws.
    """
    rows = max(1, len(data.y))
    if FEWEST * rows > MOST_NUMBERS:
        return None
    draws = min(FRESH_DRAWS, max(FEWEST, NUMBERS // rows))
    return fresh_draws(q, LogisticNumbers(prior, data, counted), rng, draws)
