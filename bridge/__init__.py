"""The hub: puts cases, methods and truth together, and judges every result.

``compare`` runs methods on cases, ``sweep`` all on all; ``fit`` takes the first method that can be
trusted, of ours or a ``Method`` of yours that answers with a ``Fit``; ``calibrate`` asks whether
what a method says of simulated data is true of what made them; ``pymc_target`` and
``stan_target`` give log p̃ on the unconstrained space, ``stan_model`` makes a PyMC model of a Stan
program; ``pareto_khat``, ``bridge_sampling``, ``kl_from_q``, ``kl_to_q`` and ``moment_errors``
judge any draws with ``lp`` and ``lq``.

`verdict` judges draws and `trust` looks for what an approximation misses, for answers and for
comparisons; an `attempt` is one method that was tried, with both.

The rooms, each with its own description: `bridge.targets`, `bridge.stan`, `bridge.measures`,
`bridge.methods`, `bridge.advice`, `bridge.comparison`, `bridge.calibration`, `bridge.reference`,
`bridge.report`, `bridge.zoo`, `bridge.command_line`. A public name is one line of ``__init__.pyi``;
names are imported when they are first asked for, so that a Stan program is fitted without PyMC.
"""

from __future__ import annotations

import trusted_posteriors_namesake  # noqa: F401  # refuses a pymc_ext that is not ours

# isort: split
import pymc_ext  # noqa: F401  # refuses versions of PyMC and ArviZ that do not fit
from pymc_ext.exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
