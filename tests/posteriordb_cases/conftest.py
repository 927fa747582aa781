"""Copies of the embedded database that tests may damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from posteriordb_cases import EMBEDDED, write_reference_draws

NAME = "eight_schools-eight_schools_noncentered"


@pytest.fixture(autouse=True)
def no_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A POSTERIORDB_PATH of whoever runs the tests must not redirect them."""
    monkeypatch.delenv("POSTERIORDB_PATH", raising=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A writable copy laid out as a posteriordb clone, its root returned."""
    shutil.copytree(EMBEDDED, tmp_path / "clone" / "posterior_database")
    return tmp_path / "clone"


@pytest.fixture
def draws() -> dict[str, np.ndarray]:
    """Made-up draws of the eight schools: 4 chains of 25."""
    rng = np.random.default_rng(3)
    return {
        "theta_trans": rng.normal(size=(4, 25, 8)),
        "mu": rng.normal(size=(4, 25)),
        "tau": rng.lognormal(size=(4, 25)),
        "theta": rng.normal(size=(4, 25, 8)) * 1e5,
    }


@pytest.fixture
def info() -> dict:
    """A minimal info file of reference draws."""
    fields = ("inference", "diagnostics", "checks_made", "comments", "versions")
    who = {"name": NAME, "added_by": "test", "added_date": "2026-01-01"}
    return dict.fromkeys(fields) | who


@pytest.fixture
def with_draws(clone: Path, draws: dict[str, np.ndarray], info: dict) -> Path:
    """The copy with the made-up draws in place of the eight schools' reference."""
    write_reference_draws(clone / "posterior_database", draws, info)
    return clone
