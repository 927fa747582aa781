"""Moment errors against errors known by construction."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import pytest
from scipy import stats

from bridge.measures.moments import moment_errors, reference_moments, worst
from tests.tolerances import EXACT, monte_carlo

CHAINS, DRAWS = 4, 1000


@pytest.fixture(scope="module")
def reference() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    L = np.zeros((CHAINS, DRAWS, 2, 2))
    L[..., 0, 0] = 1 / 3
    L[..., 1, 0] = rng.normal(size=(CHAINS, DRAWS))
    L[..., 1, 1] = rng.gamma(3, size=(CHAINS, DRAWS))
    return {"mu": 5 + 2 * rng.normal(size=(CHAINS, DRAWS)), "L": L}


def flat(reference: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: value.reshape(-1, *value.shape[2:]) for name, value in reference.items()}


def test_the_reference_has_no_error_against_itself(reference: dict[str, np.ndarray]) -> None:
    errors = moment_errors(flat(reference), reference)
    assert list(errors.index) == ["mu", "L[0, 0]", "L[0, 1]", "L[1, 0]", "L[1, 1]"]
    for statistic in ("mean", "sd", "q5", "q50", "q95"):
        assert errors[f"{statistic}_error"].abs().max() < EXACT
        assert errors[f"{statistic}_error_mcse"].abs().max() < EXACT
        assert errors[statistic].to_numpy() == pytest.approx(errors[f"{statistic}_reference"])


def test_shift_and_scale_of_known_size(reference: dict[str, np.ndarray]) -> None:
    sd = reference["mu"].std(ddof=1)
    mean = reference["mu"].mean()
    draws = flat(reference) | {"mu": mean + 0.5 * sd + 1.25 * (flat(reference)["mu"] - mean)}
    row = moment_errors(draws, reference).loc["mu"]
    assert row["mean_error"] == pytest.approx(0.5, rel=EXACT)
    assert row["sd_error"] == pytest.approx(0.25, rel=EXACT)
    for name, prob in (("q5", 0.05), ("q50", 0.5), ("q95", 0.95)):
        quantile = np.quantile(reference["mu"], prob)
        expected = (0.5 * sd + 0.25 * (quantile - mean)) / sd
        assert row[f"{name}_error"] == pytest.approx(expected, rel=1e-9)
        assert row[f"{name}_reference"] == pytest.approx(quantile, rel=EXACT)


def test_mcse_units_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(2)
    truth = stats.gamma(3)
    z: dict[str, list[float]] = {name: [] for name in ("mean", "sd", "q5", "q50", "q95")}
    exact = {"mean": 3.0, "sd": np.sqrt(3)} | {
        name: truth.ppf(prob) for name, prob in (("q5", 0.05), ("q50", 0.5), ("q95", 0.95))
    }
    for _ in range(200):
        table = reference_moments({"x": rng.gamma(3, size=(4, 250))})
        for name, values in z.items():
            row = table.loc["x"]
            values.append((row[name] - exact[name]) / row[f"{name}_mcse"])
    for name, values in z.items():
        # the sd of a skewed sample and its standard error are dependent: a bias of order 1/sqrt(N)
        assert abs(np.mean(values)) < monte_carlo(1 / np.sqrt(200)) + 0.1, name
        assert np.std(values) == pytest.approx(1, abs=monte_carlo(1 / np.sqrt(400))), name


def test_mcse_knows_about_autocorrelation() -> None:
    from scipy.signal import lfilter

    rng = np.random.default_rng(3)
    x = lfilter([1], [1, -0.9], rng.normal(size=(4, 2500)) * np.sqrt(1 - 0.81), axis=1)
    table = reference_moments({"x": x, "iid": rng.normal(size=(4, 2500))})
    # effective size N (1 - rho) / (1 + rho) for the mean, with rho^2 for the sd
    assert table.loc["x", "mean_mcse"] * 100 == pytest.approx(np.sqrt(19), rel=0.25)
    ratio = np.sqrt((1 + 0.81) / (1 - 0.81))
    assert table.loc["x", "sd_mcse"] * 100 * np.sqrt(2) == pytest.approx(ratio, rel=0.25)
    assert table.loc["iid", "mean_mcse"] * 100 == pytest.approx(1, rel=0.1)
    assert table.loc["iid", "sd_mcse"] * 100 * np.sqrt(2) == pytest.approx(1, rel=0.1)


def test_importance_weights_correct_the_moments() -> None:
    rng = np.random.default_rng(4)
    p, q = stats.norm(1, 1), stats.norm(0, 1.5)
    reference = {"x": p.rvs(size=(4, 5000), random_state=rng)}
    x = q.rvs(size=40_000, random_state=rng)
    weights = np.exp(p.logpdf(x) - q.logpdf(x))
    plain = moment_errors({"x": x}, reference).loc["x"]
    weighted = moment_errors({"x": x}, reference, weights=weights).loc["x"]
    assert plain["mean_error"] == pytest.approx(-1, abs=0.05)
    assert plain["sd_error"] == pytest.approx(0.5, abs=0.05)
    # both samples err: 20,000 reference draws and an effective sample of the weighted ones
    se = np.sqrt(1 / 20_000 + np.sum(weights**2) / np.sum(weights) ** 2)
    for name, factor in (("mean", 1), ("sd", 1), ("q5", 2.2), ("q50", 1.3), ("q95", 2.2)):
        assert weighted[f"{name}_error"] == pytest.approx(0, abs=monte_carlo(factor * se)), name


def test_one_draw_with_all_the_weight_has_no_spread(reference: dict[str, np.ndarray]) -> None:
    errors = moment_errors(flat(reference), reference, weights=np.eye(CHAINS * DRAWS)[7])
    assert (errors["sd"] == 0).all()
    np.testing.assert_allclose(errors["sd_error"][~errors["constant"]], -1, rtol=EXACT)
    assert np.isfinite(worst(errors).mean)


def test_equal_weights_change_nothing(reference: dict[str, np.ndarray]) -> None:
    draws = flat(reference)
    plain = moment_errors(draws, reference)
    weighted = moment_errors(draws, reference, weights=np.full((4, 1000), 0.7))
    for name in ("mean", "sd"):
        assert weighted[name].to_numpy() == pytest.approx(plain[name].to_numpy(), rel=1e-9)
    for name in ("q5", "q50", "q95"):  # another interpolation between neighbours
        assert weighted[name].to_numpy() == pytest.approx(plain[name].to_numpy(), abs=0.01)


def test_weighted_quantiles_are_symmetric_where_the_draws_are() -> None:
    x = np.arange(-5.0, 6.0)
    row = moment_errors(
        {"x": x}, {"x": np.random.default_rng(5).normal(size=(2, 100))}, weights=1 / (1 + x**2)
    ).loc["x"]
    assert row["mean"] == pytest.approx(0, abs=EXACT)
    assert row["q50"] == pytest.approx(0, abs=EXACT)
    assert row["q5"] == pytest.approx(-row["q95"], rel=EXACT)


def test_constants_have_no_error_or_an_infinite_one(reference: dict[str, np.ndarray]) -> None:
    errors = moment_errors(flat(reference), reference)
    assert list(errors["constant"]) == [False, True, True, False, False]
    assert (errors.loc[["L[0, 0]", "L[0, 1]"], "mean_error"] == 0).all()
    wrong = flat(reference)
    wrong["L"] = wrong["L"].copy()
    wrong["L"][:, 0, 1] = -0.1
    row = moment_errors(wrong, reference).loc["L[0, 1]"]
    assert row["mean_error"] == -np.inf and row["mean_error_mcse"] == -np.inf
    assert row["sd_error"] == 0
    assert np.isinf(worst(moment_errors(wrong, reference)).mean)


def test_inference_data_and_its_summary_are_references_too(
    reference: dict[str, np.ndarray],
) -> None:
    draws = {name: value * 1.1 for name, value in flat(reference).items()}
    idata = az.from_dict({"posterior": reference}) if _arviz1() else az.from_dict(reference)
    expected = moment_errors(draws, reference)
    for form in (idata, reference_moments(idata)):
        table = moment_errors(draws, form)
        assert sorted(table.index) == sorted(expected.index)
        assert table.loc[expected.index].equals(expected)


def _arviz1() -> bool:
    return int(az.__version__.split(".")[0]) >= 1


def test_worst_is_the_largest_error_of_any_parameter(reference: dict[str, np.ndarray]) -> None:
    draws = {name: value.copy() for name, value in flat(reference).items()}
    draws["mu"] += 3 * draws["mu"].std(ddof=1)
    draws["L"][:, 1, 1] = 2 * (draws["L"][:, 1, 1] - draws["L"][:, 1, 1].mean()) + 3
    errors = moment_errors(draws, reference)
    summary = worst(errors)
    assert summary.mean == pytest.approx(3, rel=1e-9)
    assert summary.sd == pytest.approx(1, rel=1e-9)
    assert summary.sd_ratio == pytest.approx(2, rel=1e-9)
    assert summary.quantile == pytest.approx(3, rel=1e-9)
    assert summary.mean_mcse == errors.loc["mu", "mean_error_mcse"] > 100
    draws["mu"] = draws["mu"].mean() + (draws["mu"] - draws["mu"].mean()) / 3
    assert worst(moment_errors(draws, reference)).sd_ratio == pytest.approx(1 / 3, rel=1e-9)


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({"L": 0}, r"draws lack the reference's variables \['mu'\]"),
        ({"mu": np.zeros((10, 2))}, r"draws of mu must have shape \('N',\)"),
        (
            {"mu": np.r_[np.zeros(3999), np.nan]},
            "draws of mu must be finite: 1 of 4000",
        ),
        ({"mu": np.zeros(10)}, r"draws must share one length, got \[10, 4000\]"),
        ({"mu": np.float64(1)}, r"draws of mu must have shape"),
    ],
)
def test_draws_are_checked(
    reference: dict[str, np.ndarray], draws: dict[str, Any], message: str
) -> None:
    given = draws if "L" in draws else flat(reference) | draws
    with pytest.raises(ValueError, match=message):
        moment_errors(given, reference)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3999), "expected 4000, got 3999"),
        (np.r_[np.ones(3999), -1], "nonnegative"),
        (np.r_[np.ones(3999), np.nan], "finite"),
        (np.zeros(4000), "not all zero"),
    ],
)
def test_weights_are_checked(
    reference: dict[str, np.ndarray], weights: np.ndarray, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        moment_errors(flat(reference), reference, weights=weights)


@pytest.mark.parametrize("bad", [np.zeros(10), np.full((4, 100), np.nan)])
def test_reference_draws_are_checked(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="reference draws of x must be finite"):
        reference_moments({"x": bad})
