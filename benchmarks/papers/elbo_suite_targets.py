"""Targets of Blessing et al. (2024) that anyone can write down, with their log evidence.

Sonar and German credit need the data corpus; all else stands here. log Z is exact, by quadrature,
or estimated in `elbo_suite`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy import integrate
from scipy.special import logsumexp

from benchmarks.papers.bfvi_cases import CORPUS

DATA = CORPUS / "elbo_suite"
SEEDS_ROWS = np.array([
    [10, 23, 23, 26, 17, 5, 53, 55, 32, 46, 10, 8, 10, 8, 23, 0, 3, 22, 15, 32, 3],
    [39, 62, 81, 51, 39, 6, 74, 72, 51, 79, 13, 16, 30, 28, 45, 4, 12, 41, 30, 51, 7],
])  # fmt: skip
PLANT, EXTRACT = np.repeat([0.0, 1.0], [11, 10]), np.repeat([0.0, 1.0, 0.0, 1.0], [5, 6, 5, 5])
SEEN = np.r_[0:10, 20:30]  # steps of the Brownian motion that are observed
PLACES = np.array([
    0.21592641, 0.118771404, -0.07945447, 0.037677474, -0.27885845, -0.1484156, -0.3250906,
    -0.22957903, -0.44110894, -0.09830782, -0.8786016, -0.83736074, -0.7384849, -0.8939254,
    -0.7774566, -0.70238715, -0.87771565, -0.51853573, -0.6948214, -0.6202789,
])  # fmt: skip
STEPS = 30
WELLS, WELL_MASS = 16, 11784.50927  # the integral of exp(−.5 d + 6 d² − d⁴)
PINES_GRID, PINES_SCALE, PINES_VARIANCE = 40, 40 / 33, 1.91


@dataclass(frozen=True)
class SuiteTarget:
    """One of the suite.

    Parameters
    ----------
    model
        Makes it; None where its data are not here.
    dimension
        D.
    theirs
        The best ELBO of the samplers that the paper compares; None where it prints none.
    log_z
        Computes the log evidence; None where it is to be estimated.
    """

    model: Callable[[], pm.Model | None]
    dimension: int
    theirs: float | None = None
    log_z: Callable[[], float] | None = None


def _regression(file: str, scaled: Callable[[np.ndarray], np.ndarray]) -> tuple | None:
    path = DATA / file
    if not path.is_file():
        return None
    with np.load(path) as arrays:
        X, y = arrays["X"].astype(float), arrays["y"]
    X = np.column_stack([np.ones(len(X)), scaled(X)])
    return X, (y == y.max() if y.min() == 0 else y == 1).astype(int)


def credit() -> pm.Model | None:
    """German credit: a logistic likelihood alone, without a prior, of columns divided by sds."""
    data = _regression("german_credit.npz", lambda X: X / X.std(axis=0))
    if data is None:
        return None
    X, y = data
    with pm.Model() as model:
        w = pm.Flat("w", shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ w, observed=y)
    return model


def sonar() -> pm.Model | None:
    """Sonar: logistic, weights N(0, I), of standardised columns."""
    data = _regression("sonar.npz", lambda X: (X - X.mean(axis=0)) / X.std(axis=0))
    if data is None:
        return None
    X, y = data
    with pm.Model() as model:
        w = pm.Normal("w", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ w, observed=y)
    return model


def seeds() -> pm.Model:
    """Crowder's germination of seeds, a binomial regression with an effect of each plate."""
    germinated, of = SEEDS_ROWS
    with pm.Model() as model:
        tau = pm.Gamma("tau", 0.01, 0.01)
        a = pm.Normal("a", 0, 10, shape=4)
        b = pm.Normal("b", 0, 1 / pm.math.sqrt(tau), shape=len(of))
        eta = a[0] + a[1] * PLANT + a[2] * EXTRACT + a[3] * PLANT * EXTRACT + b
        pm.Binomial("r", of, logit_p=eta, observed=germinated)
    return model


def brownian() -> pm.Model:
    """A Brownian motion whose middle is not seen, with scales of steps and of noise unknown."""
    with pm.Model() as model:
        step, noise = pm.LogNormal("step", 0, 2), pm.LogNormal("noise", 0, 2)
        x = pm.GaussianRandomWalk("x", 0, step, init_dist=pm.Normal.dist(0, step), steps=STEPS - 1)
        pm.Normal("y", x[SEEN], noise, observed=PLACES)
    return model


def brownian_log_z(points: int = 281) -> float:
    """By a sum over both log scales of the exact likelihood of the places seen."""
    shared, s = np.minimum.outer(SEEN + 1.0, SEEN + 1.0), np.linspace(-9, 5, points)
    w, U = np.linalg.eigh(shared)
    squares = (U.T @ PLACES) ** 2
    variances = np.exp(2 * s[:, None, None]) * w + np.exp(2 * s[:, None])  # (steps, noises, seen)
    terms = -0.5 * np.sum(squares / variances + np.log(2 * np.pi * variances), axis=2)
    terms -= (s[:, None] ** 2 + s**2) / 8
    return float(logsumexp(terms) + 2 * np.log(s[1] - s[0]) - np.log(8 * np.pi))


def funnel() -> pm.Model:
    """Neal's funnel in ten dimensions."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        pm.Normal("x", 0, pm.math.exp(v / 2), shape=9)
    return model


def wells() -> pm.Model:
    """Sixteen double wells, each beside a normal: 2¹⁶ modes."""
    with pm.Model() as model:
        d = pm.Flat("d", shape=WELLS)
        pm.Normal("v", 0, 1, shape=WELLS)
        of_normals = WELLS * 0.5 * np.log(2 * np.pi)  # which are not normalised
        pm.Potential("energy", pm.math.sum(-0.5 * d + 6 * d**2 - d**4) + of_normals)
    return model


def wells_log_z() -> float:
    """The mass of a well by quadrature, and of a normal that is not normalised."""
    mass = integrate.quad(lambda d: np.exp(-0.5 * d + 6 * d**2 - d**4), -4, 4, limit=200)[0]
    return float(WELLS * (np.log(mass) + 0.5 * np.log(2 * np.pi)))


TARGETS = {
    "credit": SuiteTarget(credit, 25, -504.58),
    "sonar": SuiteTarget(sonar, 61, -108.83),
    "seeds": SuiteTarget(seeds, 26, -73.45),
    "brownian": SuiteTarget(brownian, 32, 1.06, brownian_log_z),
    "funnel": SuiteTarget(funnel, 10, None, lambda: 0.0),
    "many-well": SuiteTarget(wells, 32, None, wells_log_z),
}
