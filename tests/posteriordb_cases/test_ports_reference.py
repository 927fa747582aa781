"""Our Stan programs have the moments of posteriordb's reference draws, within Monte Carlo error."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from bridge.measures.moments import QUANTILES, reference_moments
from posteriordb_cases import Case, load_case
from stan_models import StanProgram, nuts

pytestmark = [pytest.mark.stan, pytest.mark.corpus, pytest.mark.slow]

STATISTICS = ("mean", "sd", *QUANTILES)
FALSE_ALARM = 1e-4  # chance that a right program fails, shared by all its comparisons
SETTINGS = {"chains": 4, "warmup": 1000, "draws": 2500, "metric": "dense_e", "random_seed": 1}

NES = tuple(f"nes{year}-nes" for year in (1972, 1976, 1980, 1988, 1992, 2000))
EARNINGS = ("earn_height", "log10earn_height", "logearn_height", "logearn_height_male")
EARNINGS += ("logearn_interaction", "logearn_logheight_male")
KIDIQ = ("interaction", "momhs", "momhsiq", "momiq")
MOM_WORK = ("interaction_c", "interaction_c2", "mom_work")
MESQUITE = ("mesquite", "logmesquite", "logmesquite_logva", "logmesquite_logvas")
MESQUITE += ("logmesquite_logvolume",)

POSTERIORS = (
    "arK-arK",
    "bball_drive_event_0-hmm_drive_0",
    "diamonds-diamonds",
    *(f"earnings-{name}" for name in EARNINGS),
    "eight_schools-eight_schools_noncentered",
    "garch-garch11",
    "gp_pois_regr-gp_pois_regr",
    "hmm_example-hmm_example",
    "hudson_lynx_hare-lotka_volterra",
    *(f"kidiq-kidscore_{name}" for name in KIDIQ),
    *(f"kidiq_with_mom_work-kidscore_{name}" for name in MOM_WORK),
    "kilpisjarvi_mod-kilpisjarvi",
    "low_dim_gauss_mix-low_dim_gauss_mix",
    *(f"mesquite-{name}" for name in MESQUITE),
    *NES,
    "one_comp_mm_elim_abs-one_comp_mm_elim_abs",
    "sblrc-blr",
)
# Their tails are too heavy for standard errors of moments: compared are their logarithms.
LOGARITHMS = ("K_m", "V_m", "tau")


def finite_variance(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        name: np.log(values) if name in LOGARITHMS else np.asarray(values)
        for name, values in draws.items()
    }


def z_scores(case: Case) -> np.ndarray:
    """Differences of all statistics of all scalars, in Monte Carlo standard errors."""
    idata = nuts(StanProgram(case.stan_code, name=case.model_name), case.data, **SETTINGS)
    reference = case.reference_draws()["posterior"]
    names = list(case.dimensions)
    ours = reference_moments(finite_variance({n: idata["posterior"][n].values for n in names}))
    truth = reference_moments(finite_variance({n: reference[n].values for n in names}))
    truth = truth.loc[ours.index]
    return np.concatenate(
        [(ours[s] - truth[s]) / np.hypot(ours[f"{s}_mcse"], truth[f"{s}_mcse"]) for s in STATISTICS]
    )


@pytest.mark.parametrize("name", POSTERIORS)
def test_moments_are_those_of_the_reference_draws(name: str, corpus: Path) -> None:
    z = z_scores(load_case(name, corpus / "posteriordb"))
    assert np.abs(z).max() < norm.isf(FALSE_ALARM / (2 * z.size))


def test_every_posterior_with_reference_draws_is_in_the_table(corpus: Path) -> None:
    folder = corpus / "posteriordb/posterior_database/reference_posteriors/draws/draws"
    assert {path.name.removesuffix(".json.zip") for path in folder.glob("*.zip")} == set(POSTERIORS)
