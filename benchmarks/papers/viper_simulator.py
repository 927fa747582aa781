"""Simulated logistic regressions of Komodromos et al. (2024), section 3.1 and appendix B.3."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from scipy.stats import wishart

SETTINGS = (1, 2, 3)


def covariance(setting: int, p: int, rng: np.random.Generator, source: str = "paper") -> np.ndarray:
    """Covariance of the predictors: independent, AR(0.3), or random.

    ``source`` matters for setting 3 only: the paper's text says W⁻¹ with W ~ Wishart(p + 3, I), its
    code uses W/(p + 5) with W ~ Wishart(p + 5, I).
    """
    if setting not in SETTINGS:
        raise ValueError(f"setting must be one of {SETTINGS}, got {setting!r}")
    if source not in ("paper", "code"):
        raise ValueError(f"source must be 'paper' or 'code', got {source!r}")
    if setting == 1:
        return np.eye(p)
    if setting == 2:
        return 0.3 ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    if source == "paper":
        return np.linalg.inv(wishart(p + 3, np.eye(p)).rvs(random_state=rng))
    return wishart(p + 5, np.eye(p)).rvs(random_state=rng) / (p + 5)


def simulate(
    n: int, p: int, setting: int = 3, *, random_seed: int, source: str = "code"
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """X (n, p), y (n,) in {0, 1} and the true coefficients (p,), |β_j| ~ U(0.2, 2)."""
    rng = np.random.default_rng(random_seed)
    root = np.linalg.cholesky(covariance(setting, p, rng, source))
    X = rng.standard_normal((n, p)) @ root.T
    beta = rng.uniform(0.2, 2.0, p) * rng.choice([-1, 1], p)
    return X, rng.binomial(1, expit(X @ beta)), beta
