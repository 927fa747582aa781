"""The hub: puts cases, methods and truth together, and judges every result.

``compare`` runs methods on cases, ``sweep`` all on all; ``fit`` takes the first method that can be
trusted, of ours or a ``Method`` of yours that answers with a ``Fit``; ``calibrate`` asks whether
what a method says of simulated data is true of what made them; ``pymc_target`` and
``stan_target`` give log p̃ on the unconstrained space, ``stan_model`` makes a PyMC model of a Stan
program; ``pareto_khat``, ``bridge_sampling``, ``kl_from_q``, ``kl_to_q`` and ``moment_errors``
judge any draws with ``lp`` and ``lq``.

The rooms, each with its own description: `bridge.targets`, `bridge.stan`, `bridge.measures`,
`bridge.methods`, `bridge.comparison`, `bridge.calibration`, `bridge.reference`, `bridge.report`,
`bridge.command_line`.
Names are imported when they are first asked for: a Stan program is fitted without PyMC.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import bridge.namesake  # noqa: F401  # first: it refuses a pymc_ext that is not ours,
import pymc_ext  # noqa: F401  # and this versions of PyMC and ArviZ that do not fit

if TYPE_CHECKING:
    from bridge.advice import fit
    from bridge.calibration.calibrate import calibrate
    from bridge.comparison.compare import compare
    from bridge.comparison.sweep import sweep
    from bridge.measures.divergence import kl_from_q, kl_to_q
    from bridge.measures.evidence import bridge_sampling, log_evidence
    from bridge.measures.khat import pareto_khat
    from bridge.measures.moments import moment_errors
    from bridge.methods.base import Fit, Method, WeightedDraws
    from bridge.stan.stan_to_pymc import stan_model
    from bridge.targets.base import Target
    from bridge.targets.pymc import pymc_target
    from bridge.targets.stan import stan_target

_HOMES = {
    "Fit": "bridge.methods.base",
    "Method": "bridge.methods.base",
    "Target": "bridge.targets.base",
    "WeightedDraws": "bridge.methods.base",
    "bridge_sampling": "bridge.measures.evidence",
    "calibrate": "bridge.calibration.calibrate",
    "compare": "bridge.comparison.compare",
    "fit": "bridge.advice",
    "kl_from_q": "bridge.measures.divergence",
    "kl_to_q": "bridge.measures.divergence",
    "log_evidence": "bridge.measures.evidence",
    "moment_errors": "bridge.measures.moments",
    "pareto_khat": "bridge.measures.khat",
    "pymc_target": "bridge.targets.pymc",
    "stan_model": "bridge.stan.stan_to_pymc",
    "stan_target": "bridge.targets.stan",
    "sweep": "bridge.comparison.sweep",
}

__all__ = [
    "Fit",
    "Method",
    "Target",
    "WeightedDraws",
    "bridge_sampling",
    "calibrate",
    "compare",
    "fit",
    "kl_from_q",
    "kl_to_q",
    "log_evidence",
    "moment_errors",
    "pareto_khat",
    "pymc_target",
    "stan_model",
    "stan_target",
    "sweep",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'bridge' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
