"""Likelihood matching: non-Gaussian likelihoods replaced once, in closed form, by Gaussians."""

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

__all__ = [
    "METHODS",
    "Matched",
    "class_sites",
    "match_beta",
    "match_chi_square",
    "match_exponential",
    "match_gamma",
    "match_inverse_gamma",
    "matched_targets",
]
