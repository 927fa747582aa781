"""A small database with a Gaussian case whose reference draws are exact, and methods for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from bridge.methods.method import Fit, Method, Problem
from bridge.methods.table import METHODS
from posteriordb_cases import EMBEDDED, load_case, write_reference_draws

GAUSSIAN = "correlated_5-gaussian"
SCALED_GAUSSIAN = "badly_scaled_20-gaussian"  # where a diagonal metric serves


@pytest.fixture(scope="session")
def gaussian_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded database with independent exact draws as the Gaussian cases' references."""
    database = tmp_path_factory.mktemp("posteriordb") / "posterior_database"
    shutil.copytree(EMBEDDED, database)
    fields = ("inference", "diagnostics", "checks_made", "comments", "versions")
    added = {"added_by": "test", "added_date": "2026-01-01"}
    for name in (GAUSSIAN, SCALED_GAUSSIAN):
        data = load_case(name).data
        z = np.random.default_rng(0).standard_normal((10, 1000, int(data["D"])))
        info = dict.fromkeys(fields) | {"name": name} | added
        write_reference_draws(database, {"x": data["mu"] + z @ data["scale_tril"].T}, info)
    return database


def gaussian_fit(problem: Problem, draws: int, seed: int, *, shift: float, scale: float) -> Fit:
    """q = N(mu + shift·L e₁, scale² L Lᵀ): every score is known in closed form."""
    data = problem.data
    L = data["scale_tril"]
    q = multivariate_normal(data["mu"] + shift * L[:, 0], scale**2 * L @ L.T)
    theta = np.atleast_2d(q.rvs(draws, random_state=seed))
    return Fit(
        target=problem.target,
        theta=theta[None],
        lp=problem.target.log_density(theta)[None],
        lq=q.logpdf(theta)[None],
        log_q=q.logpdf,
        seconds=0.1,
        losses=np.arange(5000.0),
    )


@pytest.fixture
def gaussian_methods() -> Iterator[list[str]]:
    """Replace the table of methods by three Gaussians and one that fails."""

    def method(name: str, **changes: float) -> Method:
        return Method(name, name, "pymc", lambda p, n, s: gaussian_fit(p, n, s, **changes))

    def broken(problem: Problem, draws: int, seed: int) -> Fit:
        raise FloatingPointError("no fit on purpose")

    table = [
        method("equal", shift=0.0, scale=1.0),
        method("shifted", shift=0.5, scale=1.0),
        method("wide", shift=0.0, scale=1.5),
        Method("broken", "always fails", "pymc", broken),
    ]
    before = dict(METHODS)  # put back whole: its order is that of reports
    _replace({entry.name: entry for entry in table})
    yield [entry.name for entry in table]
    _replace(before)


def _replace(methods: dict[str, Method]) -> None:
    METHODS.clear()
    METHODS.update(methods)
