"""Whether draws have reached the tails of a field's globals: by its nested Laplace law."""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.weights import weighted_moments
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.hierarchical.reach import in_words

# Draws of the law, so many at a time, and of how many they must be worth for its tails to be
# believed. The sd of a kurtosis of 50 errs by 3 %.
DRAWS, TOGETHER, LEAST_ESS = 16_000, 4_000, 400


def missed_in_field(density: CountedDensity, q: FieldMap, theta: Array) -> str | None:
    """A tail of globals in which draws (N, D) have far less spread than weighted draws of q."""
    rng, places = np.random.default_rng(0), q.order[: q.globals]
    log_ratios, values = np.empty(DRAWS), np.empty((DRAWS, q.globals))
    for first in range(0, DRAWS, TOGETHER):
        rows = slice(first, first + TOGETHER)
        drawn, log_q = q.forward(rng.standard_normal((TOGETHER, q.dimension)))
        with np.errstate(all="ignore"):
            log_ratios[rows] = density.log_density(drawn) - log_q
        values[rows] = drawn[:, places]
    log_ratios = np.nan_to_num(log_ratios, nan=-np.inf, neginf=-np.inf)
    if not np.isfinite(log_ratios).any():
        return None
    weights = np.exp(psislw(log_ratios)[0])
    if 1 / (weights @ weights) < LEAST_ESS:
        return None
    sds = weighted_moments(values, weights)[1]
    along = zip(places, theta[:, places].std(axis=0), sds, strict=True)
    return in_words(list(along), value_names(density))
