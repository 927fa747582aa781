"""The hub: puts cases, methods and truth together, and judges every result.

``compare`` runs methods on cases, ``sweep`` all on all; ``fit`` takes the first method that can be
trusted, of ours or a ``Method`` of yours that answers with a ``Fit``; ``pymc_target`` and
``stan_target`` give log p̃ on the unconstrained space, ``stan_model`` makes a PyMC model of a Stan
program; ``pareto_khat``, ``bridge_sampling``, ``kl_from_q``, ``kl_to_q`` and ``moment_errors``
judge any draws with ``lp`` and ``lq``.

The rooms, each with its own description: `bridge.targets`, `bridge.stan`, `bridge.measures`,
`bridge.methods`, `bridge.comparison`, `bridge.reference`, `bridge.report`.
"""

import pymc_ext  # noqa: F401  # first: it refuses versions of PyMC and ArviZ that do not fit
from bridge.advice import fit
from bridge.comparison.compare import compare
from bridge.comparison.sweep import sweep
from bridge.measures.divergence import kl_from_q, kl_to_q
from bridge.measures.evidence import bridge_sampling, log_evidence
from bridge.measures.khat import pareto_khat
from bridge.measures.moments import moment_errors
from bridge.methods.base import Fit, Method
from bridge.stan.stan_to_pymc import stan_model
from bridge.targets.base import Target
from bridge.targets.pymc import pymc_target
from bridge.targets.stan import stan_target

__all__ = [
    "Fit",
    "Method",
    "Target",
    "bridge_sampling",
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
