"""Whether draws have reached the tails of a field's globals: by its nested Laplace law."""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.hierarchical.reach import in_words

# Draws of the law, and of how many they must be worth as weights for its tails to be believed; and
# of its globals alone, which cost nothing: the sd of a kurtosis of 50 errs by a hundredth.
DRAWS, LEAST_ESS, OF_GLOBALS = 4_000, 400, 100_000


def missed_in_field(density: CountedDensity, q: FieldMap, theta: Array) -> str | None:
    """A tail of globals in which draws (N, D) have far less spread than q has."""
    rng = np.random.default_rng(0)
    drawn, log_q = q.forward(rng.standard_normal((DRAWS, q.dimension)))
    with np.errstate(all="ignore"):
        log_p = np.nan_to_num(density.log_density(drawn), nan=-np.inf, neginf=-np.inf)
    if not np.isfinite(log_p).any():
        return None
    weights = np.exp(psislw(log_p - log_q)[0])
    if 1 / (weights @ weights) < LEAST_ESS:
        return None
    law, places = q.of_globals, q.order[: q.globals]
    sds = law.values(law.axes(rng.standard_normal((OF_GLOBALS, q.globals)))).std(axis=0)
    along = zip(places, theta[:, places].std(axis=0), sds, strict=True)
    return in_words(list(along), value_names(density))
