"""The embedded reference draws: complete, admitted, and right where the answer is known."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest
from scipy import integrate, stats

from posteriordb_cases import EMBEDDED, Case, list_cases, load_case
from tests.posteriordb_cases.densities import LOG_JOINT
from tests.tolerances import monte_carlo


def standard_error(x: np.ndarray) -> float:
    """Monte Carlo standard error of the mean of (chain, draw) values."""
    return float(x.std() / np.sqrt(az.ess(x, method="mean")))


@pytest.fixture(scope="module", params=list_cases(EMBEDDED))
def case(request: pytest.FixtureRequest) -> Case:
    return load_case(request.param, EMBEDDED)


def test_ten_chains_of_a_thousand_draws_of_every_variable(case: Case) -> None:
    posterior = case.reference_draws()["posterior"]
    for name, n in case.dimensions.items():
        assert posterior[name].shape == ((10, 1000) if n == 1 else (10, 1000, n))


def test_all_admission_checks_are_recorded_as_passed(case: Case) -> None:
    checks = case.reference_info["checks_made"]
    assert len(checks) == 7 and all(checks.values())
    assert case.reference_info["versions"]["stan_version"]
    assert case.reference_path.stat().st_size < 2_000_000


def test_means_and_standard_deviations_are_the_exact_ones(case: Case) -> None:
    posterior = case.reference_draws()["posterior"]
    for name in case.dimensions:
        columns = posterior[name].values.reshape(10, 1000, -1)
        means, sds = (np.atleast_1d(case.exact[moment][name]) for moment in ("mean", "sd"))
        for i, (mean, sd) in enumerate(zip(means, sds, strict=True)):
            x = columns[..., i]
            assert abs(x.mean() - mean) < monte_carlo(standard_error(x)), (name, i)
            squares = (x - mean) ** 2
            error = standard_error(squares) / (2 * sd)  # d sqrt(v) = dv / (2 sqrt(v))
            assert abs(np.sqrt(squares.mean()) - sd) < monte_carlo(error), (name, i)


def test_gaussian_draws_have_the_whole_covariance() -> None:
    """Whitened draws are standard normal: their n covariances have variance (1 + [i = j]) / n."""
    for alias in ("gaussian_correlated", "gaussian_badly_scaled"):
        case = load_case(alias, EMBEDDED)
        x = case.reference_draws()["posterior"]["x"].values.reshape(10_000, -1)
        z = np.linalg.solve(case.data["scale_tril"], (x - case.data["mu"]).T)
        error = np.sqrt((1 + np.eye(len(z))) / 10_000)
        assert np.all(np.abs(z @ z.T / 10_000 - np.eye(len(z))) < monte_carlo(1) * error)


def test_bernoulli_draws_follow_the_beta_posterior() -> None:
    p = load_case("bernoulli", EMBEDDED).reference_draws()["posterior"]["p"].values.ravel()
    assert stats.kstest(p, stats.beta(3.1, 1.1).cdf).pvalue > 0.001


def test_cauchy_draws_are_balanced_between_the_modes() -> None:
    case = load_case("cauchy", EMBEDDED)
    posterior = case.reference_draws()["posterior"]
    joint = LOG_JOINT["cauchy_location"]
    above = integrate.quad(
        lambda x: np.exp(joint(case.data, {"xi": np.array(x)}) - case.exact["log_evidence"]),
        0, 12, epsabs=1e-10, limit=200,
    )[0]  # fmt: skip
    indicator = (posterior["xi"].values > 0).astype(float)
    error = np.sqrt(above * (1 - above) / float(az.ess(indicator)))
    assert abs(indicator.mean() - above) < monte_carlo(error)


def test_derived_variables_are_those_of_the_parameters() -> None:
    posterior = load_case("eight_schools", EMBEDDED).reference_draws()["posterior"]
    theta = posterior["mu"] + posterior["tau"] * posterior["theta_trans"].rename(
        theta_trans_dim_0="theta_dim_0"
    )
    np.testing.assert_allclose(posterior["theta"], theta, atol=1e-5)  # 8 digits are kept


@pytest.mark.corpus
def test_eight_schools_agree_with_posteriordbs_draws(corpus) -> None:
    ours = load_case("eight_schools", EMBEDDED).reference_draws()["posterior"]
    theirs = load_case("eight_schools", corpus / "posteriordb").reference_draws()["posterior"]
    for name in ("mu", "tau"):
        pair = (ours[name].values.ravel(), theirs[name].values.ravel())
        assert stats.ks_2samp(*pair).pvalue > 0.001, name
