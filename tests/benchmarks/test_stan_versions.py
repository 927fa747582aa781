"""Every Stan gives the recorded log densities and gradients, and what compares them sees a gap."""

import copy
import json

import numpy as np
import pytest

from benchmarks import stan_versions
from bridge.comparison.problem import CaseProblem
from posteriordb_cases import EMBEDDED, list_cases, load_case
from tests.tolerances import EXACT

RUNS = json.loads(stan_versions.RESULTS.read_text(encoding="utf-8"))["results"]
CASE, SCHOOLS = "cauchy_6-cauchy_location", stan_versions.SCHOOLS + "noncentered"


def test_the_recorded_versions_agree() -> None:
    first, *others = sorted(RUNS)
    assert others
    for other in others:
        gaps = stan_versions.density_gaps(RUNS[first], RUNS[other])
        assert set(gaps) == set(list_cases(EMBEDDED))
        assert max(map(max, gaps.values())) < EXACT
        moments = stan_versions.moment_gaps(RUNS[first], RUNS[other])
        assert len(moments) == 4  # two parameterisations, two seeds
        assert max(np.abs(z).max() for z in moments.values()) < 4


@pytest.mark.stan
@pytest.mark.parametrize("name", list_cases(EMBEDDED))
def test_the_installed_stan_agrees_with_the_record(name: str) -> None:
    now = {"densities": {name: stan_versions.densities(CaseProblem(load_case(name, EMBEDDED)))}}
    (gaps,) = stan_versions.density_gaps(RUNS[min(RUNS)], now).values()
    assert max(gaps) < EXACT


def test_gaps_are_seen() -> None:
    run = RUNS[min(RUNS)]
    other = copy.deepcopy(run)
    other["densities"][CASE]["lp"][3] *= 1 + 1e-6
    other["densities"][SCHOOLS]["gradient"][0][0] = float("nan")
    mu = other["nuts"][SCHOOLS]["2"]["mu"]
    mu["sd"] += 3 * np.sqrt(2) * mu["sd_mcse"]
    gaps = stan_versions.density_gaps(run, other)
    assert gaps[CASE] == pytest.approx((1e-6, 0), rel=1e-6)
    assert gaps[SCHOOLS] == (0, np.inf)
    z = stan_versions.moment_gaps(run, other)[f"{SCHOOLS}, seed 2"]
    assert np.abs(z).max() == pytest.approx(3)
    assert "largest gap 3.00" in stan_versions.told({"2.1": run, "2.2": other | {"engine": "x"}})


def test_other_points_are_refused() -> None:
    other = copy.deepcopy(RUNS[min(RUNS)])
    other["densities"][CASE]["theta"][0][0] += 1
    with pytest.raises(ValueError, match="different points"):
        stan_versions.density_gaps(RUNS[min(RUNS)], other)
