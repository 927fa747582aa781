"""The table of modes found: a density that is normalised with its score, and what is counted."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from benchmarks.speed.missed_modes import ALONE, MAIN, Beside, alarms, behind_walls, beside, table
from posteriordb_cases.zoo import ZOO


@pytest.mark.parametrize("kind", MAIN)
def test_the_mixture_is_normalised_and_has_its_score(kind) -> None:
    density = Beside(MAIN[kind](1), np.array([5.0]), 0.2)
    x = np.linspace(-300, 300, 600_001)
    assert np.trapezoid(np.exp(density.log_density(x[:, None])), x) == pytest.approx(1, abs=1e-5)
    for at in (-1.0, 3.9, 4.6, 5.1):
        exact = approx_fprime(np.array([at]), lambda t: density.log_density(t[None])[0], 1e-7)
        np.testing.assert_allclose(
            density.log_density_gradient(np.array([[at]]))[1][0], exact, rtol=1e-4
        )


def test_a_mode_is_found_and_counted() -> None:
    found = beside("normal", 2, 0.4, 15, seed=1)
    assert found.matters and found.heaviest.log_ratio == pytest.approx(0, abs=0.1)
    lines = table("normal", 1, seeds=1).splitlines()
    assert len(lines) == 5 and lines[3].startswith("  0.4 as wide  100  100  100  100  100")


def test_modes_behind_walls_are_counted() -> None:
    lines = behind_walls(2, seeds=1).splitlines()
    assert len(lines) == 5 and lines[1].startswith("    5 nats a sd  100  100")


def test_alone_are_targets_whose_mass_is_known() -> None:
    for name in ALONE:
        assert np.isfinite(ZOO[name].make().log_z), name
    assert "0 of 1 alarms" in alarms("gaussian-1", seeds=1)
