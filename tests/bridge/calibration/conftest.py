"""A conjugate model, its exact posterior as a method, and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

from bridge.methods.method import Fit, Method, Problem

ROWS = 3  # observations of each of two means, whose prior and noise are standard normal


def conjugate() -> pm.Model:
    with pm.Model(name="means") as model:
        mu = pm.Normal("mu", 0, 1, shape=2)
        pm.Normal("y", mu[:, None], 1, observed=np.zeros((2, ROWS)))
    return model


@pytest.fixture
def model() -> pm.Model:
    return conjugate()


def observed(problem: Problem) -> np.ndarray:
    (rv,) = problem.model.observed_RVs
    return problem.model.rvs_to_values[rv].get_value()


@dataclass(frozen=True)
class Normal:
    """N(m, s²) for each mean: m and s in terms of the posterior's."""

    scale: float = 1.0
    shift: float = 0.0
    ignores_data: bool = False

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        y, rng = observed(problem), np.random.default_rng(seed)
        n = 0 if self.ignores_data else ROWS
        sd = 1 / np.sqrt(1 + n)
        mean = y.sum(axis=1) * (n > 0) * sd**2 + self.shift * sd
        theta = mean + self.scale * sd * rng.standard_normal((draws, 2))
        lq = norm.logpdf(theta, mean, self.scale * sd).sum(axis=1)
        lp = problem.target.log_density(theta)
        return Fit(problem.target, theta[None], lp[None], 0.0, lq[None])


@dataclass(frozen=True)
class WithoutWeights:
    """The same as chains, which take no weights and no search for modes."""

    run: Callable[[Problem, int, int], Fit]

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        found = self.run(problem, draws, seed)
        return Fit(found.target, found.theta, found.lp, 0.0, info={"trusted": True})


def chains(name: str, run: Callable[[Problem, int, int], Fit]) -> Method:
    return Method(name, name, "pymc", WithoutWeights(run), sampler=True)
