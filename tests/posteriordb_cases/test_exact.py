"""The stored exact answers, recomputed from the SciPy densities by quadrature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from posteriordb_cases import EMBEDDED, Case, list_cases, load_case
from tests.posteriordb_cases.densities import LOG_JOINT

STORED = 1e-8  # answers are stored with 10 significant digits


def conditional_gaussian(log_density: Callable[[np.ndarray], np.ndarray], dimension: int):
    """Log integral, mean and covariance of exp(quadratic), from values at points of a cross.

    For a quadratic, central differences are exact and one Newton step finds the maximum.
    """
    unit = np.eye(dimension)
    plus, minus = log_density(unit), log_density(-unit)
    centre = log_density(np.zeros((1, dimension)))[0]
    gradient = (plus - minus) / 2
    pairs = log_density((unit[:, None] + unit[None]).reshape(-1, dimension))
    hessian = pairs.reshape(dimension, dimension) - plus[:, None] - plus[None] + centre
    covariance = np.linalg.inv(-hessian)
    mean = covariance @ gradient
    _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    return centre + gradient @ mean / 2 + log_det / 2, mean, covariance


def given_scale(
    log_joint: Callable[[float, np.ndarray], np.ndarray],
    linear: Callable[[float], np.ndarray],
    dimension: int,
):
    """Evidence and moments when the log joint is quadratic in all but one positive scale.

    ``linear(scale)`` is the matrix of the quantities wanted, each linear in the quadratic block.
    Integrates over u = log scale the vector [1, s, s^2, E(linear | s), E(linear^2 | s)].
    """
    offset = conditional_gaussian(lambda x: log_joint(1.0, x), dimension)[0]

    def integrand(u: float) -> np.ndarray:
        scale = np.exp(u)
        log_weight, mean, covariance = conditional_gaussian(
            lambda x: log_joint(scale, x), dimension
        )
        a = linear(scale)
        first = a @ mean
        second = np.einsum("ij,jk,ik->i", a, covariance, a) + first**2
        moments = np.concatenate([[1.0, scale, scale**2], first, second])
        return np.exp(log_weight - offset + u) * moments

    total, _ = integrate.quad_vec(integrand, -25, 25, epsrel=1e-11, points=[-5, 0, 2, 4])
    return _summary(total, offset, scale_first=True)


def _summary(total: np.ndarray, offset: float, scale_first: bool):
    evidence, moments = total[0], total[1:] / total[0]
    scale = moments[:2] if scale_first else np.empty(0)
    first, second = np.split(moments[len(scale) :], 2)
    sd = np.sqrt(second - first**2)
    out = {"log_evidence": np.log(evidence) + offset, "mean": first, "sd": sd}
    if scale_first:
        out |= {"scale_mean": scale[0], "scale_sd": np.sqrt(scale[1] - scale[0] ** 2)}
    return out


@pytest.fixture(scope="module")
def eight_schools() -> dict:
    """Block x = (mu, theta_trans); wanted: mu, theta_trans, theta = mu + tau theta_trans."""
    data = load_case("eight_schools", EMBEDDED).data
    joint = LOG_JOINT["eight_schools_noncentered"]

    def log_joint(tau: float, x: np.ndarray) -> np.ndarray:
        values = {"mu": x[:, 0], "theta_trans": x[:, 1:], "tau": np.full(len(x), tau)}
        return joint(data, values)

    def linear(tau: float) -> np.ndarray:
        theta = np.hstack([np.ones((8, 1)), tau * np.eye(8)])
        return np.vstack([np.eye(9), theta])

    return given_scale(log_joint, linear, dimension=9)


@pytest.fixture(scope="module")
def toy_regression() -> dict:
    data = load_case("toy_regression", EMBEDDED).data
    joint = LOG_JOINT["linear_regression"]

    def log_joint(sigma: float, x: np.ndarray) -> np.ndarray:
        return joint(data, {"w": x[:, :2], "b": x[:, 2], "sigma": np.full(len(x), sigma)})

    return given_scale(log_joint, lambda sigma: np.eye(3), dimension=3)


def one_parameter(case: Case, name: str, low: float, high: float) -> dict:
    """Evidence and moments of a posterior with a single parameter."""
    joint = LOG_JOINT[case.model_name]
    offset = case.exact["log_evidence"]

    def integrand(x: float) -> np.ndarray:
        density = np.exp(joint(case.data, {name: np.array(x)}) - offset)
        return density * np.array([1.0, x, x**2])

    total, _ = integrate.quad_vec(integrand, low, high, epsrel=1e-12, points=[0.0])
    return _summary(total, offset, scale_first=False)


def test_eight_schools_evidence_and_tau(eight_schools: dict) -> None:
    assert eight_schools["log_evidence"] == pytest.approx(-31.3113, abs=5e-5)
    assert eight_schools["scale_mean"] == pytest.approx(3.598, abs=5e-4)


@pytest.mark.parametrize("parametrisation", ["centered", "noncentered"])
def test_eight_schools_stored_answers(parametrisation: str, eight_schools: dict) -> None:
    exact = load_case(f"eight_schools-eight_schools_{parametrisation}", EMBEDDED).exact
    assert exact["log_evidence"] == pytest.approx(eight_schools["log_evidence"], rel=STORED)
    for moment in ("mean", "sd"):
        stored, found = exact[moment], eight_schools[moment]
        assert stored["tau"] == pytest.approx(eight_schools[f"scale_{moment}"], rel=STORED)
        assert stored["mu"] == pytest.approx(found[0], rel=STORED)
        assert stored["theta"] == pytest.approx(found[9:], rel=STORED)
        if parametrisation == "noncentered":
            assert stored["theta_trans"] == pytest.approx(found[1:9], rel=STORED)


def test_program_without_log_two_has_the_documented_evidence() -> None:
    exact = load_case("eight_schools", EMBEDDED).exact
    assert exact["log_evidence"] - np.log(2) == pytest.approx(-32.0045, abs=5e-5)
    assert "-32.0045" in exact["method"]


def test_centered_density_is_the_noncentered_one_after_the_change_of_variables() -> None:
    rng = np.random.default_rng(0)
    data = load_case("eight_schools", EMBEDDED).data
    mu, tau = rng.normal(size=7), rng.lognormal(size=7)
    theta_trans = rng.normal(size=(7, 8))
    values = {"mu": mu, "tau": tau, "theta_trans": theta_trans}
    values["theta"] = mu[:, None] + tau[:, None] * theta_trans
    centered = LOG_JOINT["eight_schools_centered"](data, values)
    noncentered = LOG_JOINT["eight_schools_noncentered"](data, values)
    np.testing.assert_allclose(centered, noncentered - 8 * np.log(tau), rtol=1e-12)


def test_toy_regression(toy_regression: dict) -> None:
    exact = load_case("toy_regression", EMBEDDED).exact
    assert toy_regression["log_evidence"] == pytest.approx(-13.0265, abs=5e-5)
    assert exact["log_evidence"] == pytest.approx(toy_regression["log_evidence"], rel=STORED)
    for moment in ("mean", "sd"):
        assert exact[moment]["w"] == pytest.approx(toy_regression[moment][:2], rel=STORED)
        assert exact[moment]["b"] == pytest.approx(toy_regression[moment][2], rel=STORED)
        assert exact[moment]["sigma"] == pytest.approx(
            toy_regression[f"scale_{moment}"], rel=STORED
        )


def test_cauchy() -> None:
    case = load_case("cauchy", EMBEDDED)
    found = one_parameter(case, "xi", -12, 12)
    assert found["log_evidence"] == pytest.approx(-21.430686, abs=5e-7)
    assert case.exact["log_evidence"] == pytest.approx(found["log_evidence"], rel=STORED)
    assert case.exact["mean"]["xi"] == pytest.approx(found["mean"][0], rel=STORED)
    assert case.exact["sd"]["xi"] == pytest.approx(found["sd"][0], rel=STORED)


def test_bernoulli() -> None:
    case = load_case("bernoulli", EMBEDDED)
    found = one_parameter(case, "p", 0, 1)
    assert case.exact["log_evidence"] == pytest.approx(found["log_evidence"], rel=STORED)
    assert case.exact["mean"]["p"] == pytest.approx(stats.beta(3.1, 1.1).mean(), rel=STORED)
    assert case.exact["sd"]["p"] == pytest.approx(found["sd"][0], rel=STORED)


@pytest.mark.parametrize("name", ["gaussian_correlated", "gaussian_badly_scaled"])
def test_gaussian_answers_are_those_of_its_data(name: str) -> None:
    case = load_case(name, EMBEDDED)
    covariance = case.data["scale_tril"] @ case.data["scale_tril"].T
    at_mean = LOG_JOINT["gaussian"](case.data, {"x": case.data["mu"]})
    _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
    assert case.exact["log_evidence"] == pytest.approx(at_mean + log_det / 2, rel=STORED)
    assert case.exact["log_evidence"] != 0
    assert case.exact["mean"]["x"] == pytest.approx(case.data["mu"], rel=STORED)
    assert case.exact["sd"]["x"] == pytest.approx(np.sqrt(np.diag(covariance)), rel=STORED)


def test_every_embedded_case_has_exact_answers_of_the_right_shape() -> None:
    for name in list_cases(EMBEDDED):
        case = load_case(name, EMBEDDED)
        for moment in ("mean", "sd"):
            sizes = {key: np.size(value) for key, value in case.exact[moment].items()}
            assert sizes == case.dimensions
