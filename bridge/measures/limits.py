"""The limits that draws are judged by: what each bounds, in which unit, and where it is from.

Those of chains are in `pymc_ext.sampling.diagnostics`, of reference draws in
`bridge.reference.admission`, of the zoo, where the truth is known, in `bridge.zoo.judge`.

[V] Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling,
JMLR 25(72), arXiv:1507.02646.
"""

from __future__ import annotations

from typing import Final

from pymc_ext.sampling.options import Sampling
from pymc_ext.variational.core import weights

# ---------------------------------------------------------------- k̂, the Pareto shape (no unit)

# Those of every fit, bridge or not.
KHAT_GOOD: Final = weights.KHAT_GOOD
KHAT_USABLE: Final = weights.KHAT_USABLE
KHAT_WITHOUT_MEAN: Final = weights.KHAT_WITHOUT_MEAN
ESS_SHARE_NEGLIGIBLE: Final = weights.ESS_SHARE_NEGLIGIBLE

# From this k̂ on the colour of a map stays the same: a choice for the eye, twice `KHAT_USABLE`, at
# which nothing is left to tell apart.
KHAT_WORST_SHOWN: Final = 1.4

# `pymc_ext.maths.psis.FEWEST_TAIL`, which a test holds it to: tables are read without SciPy.
KHAT_FEWEST_TAIL: Final = 6

# The fewest draws of a batch that has a k̂ of its own: by [V] the tail of 200 draws holds 40, with
# which the prior on its shape, worth 10 observations, has a fifth of the weight.
KHAT_FEWEST_DRAWS: Final = 200

# ---------------------------------------------------------------- what is trusted, and wrongly so

# Effective draws that an answer has, weighted or of chains: means are then known to .05 sds. The
# default of `bridge.fit` and of chains.
ESS_TRUSTED: Final = Sampling.ess

# What may not be trusted, in `px.diagnose` as here.
MEAN_WRONG: Final = weights.MEAN_WRONG
RATIO_WRONG: Final = weights.RATIO_WRONG

# ---------------------------------------------------------------- evidence and divergences

# The fewest effective terms on either side of a bridge whose estimate of Z is reliable: with 100 on
# both its relative error is sqrt(2 / 100), 14 %, and the delta method's standard error holds.
BRIDGE_FEWEST_TERMS: Final = 100

# The fewest effective draws that may carry the variance of log ratios whose mean is a divergence:
# with fewer the standard error is itself the outcome of a handful of draws.
KL_FEWEST_TERMS: Final = 20

# ---------------------------------------------------------------- moments and effort

# Error of a mean or an sd, in posterior standard deviations, that counts as small: of a normal it
# moves the coverage of a 90 % interval by 0.2 (mean) or 3.5 (sd) percentage points.
SMALL_ERROR: Final = 0.1

# Relative spread below which a quantity is a constant with rounding noise (a thousand roundings).
CONSTANT_QUANTITY: Final = 1e-12

# CPU seconds of a fit that somebody waits for at a screen: a choice of the reports, no measurement.
MOST_SECONDS: Final = 60.0
