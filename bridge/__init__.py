"""The hub: puts cases, methods and truth together, and judges every result.

``compare`` runs methods on cases; ``fit`` takes the first method that can be trusted;
``pymc_target`` and ``stan_target`` give log p̃ on the unconstrained space, ``stan_model`` makes a
PyMC model of a Stan program; ``pareto_khat``, ``bridge_sampling``, ``kl_from_q``, ``kl_to_q`` and
``moment_errors`` judge any draws with ``lp`` and ``lq``.
"""

import pymc_ext  # noqa: F401  # first: it refuses versions of PyMC and ArviZ that do not fit
from bridge.advice import fit
from bridge.compare import compare
from bridge.divergence import bridge_sampling, kl_from_q, kl_to_q, log_evidence
from bridge.khat import pareto_khat
from bridge.moments import moment_errors
from bridge.stan_to_pymc import stan_model
from bridge.sweep import sweep
from bridge.target import Target, pymc_target, stan_target

__all__ = [
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
