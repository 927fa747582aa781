"""Likelihood matching: non-Gaussian likelihoods replaced once, in closed form, by Gaussians.

Which to take: `MatchedClassifier` for logistic and multinomial regression with scikit-learn's
verbs; `MatchingState` for the same without scikit-learn, exact under updates in any order, merges
and files; `class_sites` and `matched_targets` for models of your own; `px.gp.Matching` for
Gaussian processes and `px.MatchingVI` for PyMC models. `AssumedDensityFilter` is the baseline.

To add a density: its formula as a method of each class of `methods` and `logit_normal`, a function
``match_...`` of its parameters and ``method`` in `table`; export it here; add its rows to
``tests/pymc_ext/matching/test_table.py``, which compares every method with quadrature.

>>> from pymc_ext.matching import MatchingState
>>> state = MatchingState([0, 1], n_features=2, link="logit")
>>> state.update(X, y)
>>> state.posterior.mean.shape  # one latent; two weights and the intercept
(1, 3)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pymc_ext.matching.active import ActiveRun, Pool, active_learning
from pymc_ext.matching.adf import AssumedDensityFilter
from pymc_ext.matching.alpha import AlphaChoice, choose_alpha, elbo, train_log_likelihood
from pymc_ext.matching.metrics import calibration_bins, expected_calibration_error
from pymc_ext.matching.state import MatchingState
from pymc_ext.matching.table import (
    METHODS,
    Matched,
    match_beta,
    match_chi_square,
    match_exponential,
    match_gamma,
    match_inverse_gamma,
)
from pymc_ext.matching.targets import class_sites, matched_targets

if TYPE_CHECKING:
    from pymc_ext.matching.classifier import MatchedClassifier

__all__ = [
    "METHODS",
    "ActiveRun",
    "AlphaChoice",
    "AssumedDensityFilter",
    "Matched",
    "MatchedClassifier",
    "MatchingState",
    "Pool",
    "active_learning",
    "calibration_bins",
    "choose_alpha",
    "class_sites",
    "elbo",
    "expected_calibration_error",
    "match_beta",
    "match_chi_square",
    "match_exponential",
    "match_gamma",
    "match_inverse_gamma",
    "matched_targets",
    "train_log_likelihood",
]


def __getattr__(name: str) -> type[MatchedClassifier]:
    if name != "MatchedClassifier":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pymc_ext.matching.classifier import MatchedClassifier
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "sklearn":
            raise
        raise ImportError(
            "MatchedClassifier needs scikit-learn: pip install scikit-learn "
            "(MatchingState does the same without it)"
        ) from error
    return MatchedClassifier
