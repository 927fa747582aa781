"""Targets against SciPy densities with hand-written Jacobians, finite differences, round trips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.blocking import DictToArrayBijection, RaveledVars
from scipy import stats
from scipy.special import expit

from bridge.targets.agreement import check_agreement
from bridge.targets.pymc import PyMCTarget, pymc_target
from bridge.targets.stan import stan_target
from pymc_ext.density.rows import ELEMENTS, FEWEST_ROWS
from tests.tolerances import EXACT, NUMERIC

ROUNDED = 2e-9 * 20  # PyMC's log(2 pi) is short of digits: 1.9e-9 a normal variable
DATA = np.array([[0.3, -1.2], [0.8, 2.1], [-0.4, 0.1]])


def hierarchical() -> pm.Model:
    """Half-normal, interval, vector and matrix variables, deterministics, a matrix of data."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 2.0)
        u = pm.Uniform("u", -1.0, 3.0)
        v = pm.Normal("v", u, tau, shape=3)
        w = pm.MvNormal("w", np.zeros(2), np.array([[1.0, 0.5], [0.5, 2.0]]), shape=(3, 2))
        pm.Deterministic("effect", v[:, None] * w)
        pm.Deterministic("three", pt.constant(3.0))
        pm.Normal("y", v[:, None] + w, 0.5, observed=DATA)
    return model


@pytest.fixture(scope="module")
def target() -> PyMCTarget:
    return pymc_target(hierarchical(), "hierarchical")


@pytest.fixture(scope="module")
def theta() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(50, 11))


def by_hand(theta: np.ndarray) -> np.ndarray:
    """log p̃ of `hierarchical` from SciPy, transforms and Jacobians written out."""
    tau, u = np.exp(theta[:, 0]), -1 + 4 * expit(theta[:, 1])
    v, w = theta[:, 2:5], theta[:, 5:].reshape(-1, 3, 2)
    lp = stats.halfnorm.logpdf(tau, scale=2) + theta[:, 0]
    lp += stats.uniform.logpdf(u, -1, 4) + np.log((u + 1) * (3 - u) / 4)
    lp += stats.norm.logpdf(v, u[:, None], tau[:, None]).sum(axis=1)
    lp += stats.multivariate_normal([0, 0], [[1, 0.5], [0.5, 2]]).logpdf(w).sum(axis=1)
    return lp + stats.norm.logpdf(DATA, v[:, :, None] + w, 0.5).sum(axis=(1, 2))


def test_log_density_has_every_constant_and_jacobian(target: PyMCTarget, theta: np.ndarray) -> None:
    assert target.name == "hierarchical"
    assert target.dimension == 11
    assert target.parameter_names == ("tau", "u", "v", "w")
    difference = target.log_density(theta) - by_hand(theta)
    assert np.ptp(difference) < EXACT
    assert abs(difference).max() < ROUNDED


def test_gradient_against_finite_differences(target: PyMCTarget, theta: np.ndarray) -> None:
    value, gradient = target.log_density_gradient(theta)
    assert value == pytest.approx(target.log_density(theta), rel=EXACT)
    h = 1e-5
    for i, step in enumerate(h * np.eye(11)):
        numeric = (by_hand(theta + step) - by_hand(theta - step)) / (2 * h)
        assert gradient[:, i] == pytest.approx(numeric, rel=NUMERIC, abs=NUMERIC)


def test_names_may_look_like_numbers() -> None:
    """As bambi names groups: PyTensor takes a name such as 1|group for a misspelt type."""
    with pm.Model() as model:
        pm.HalfNormal("1|group_sigma")
    target = pymc_target(model)
    assert target.unconstrain({"1|group_sigma": np.ones(2)}) == pytest.approx(np.zeros((2, 1)))


def test_deterministics_may_be_left_out() -> None:
    with pm.Model() as model:
        pm.Deterministic("double", 2 * pm.Normal("x"))
    theta = np.ones((2, 1))
    assert set(pymc_target(model).constrain(theta)) == {"x", "double"}
    assert set(pymc_target(model, leave_out=["double"]).constrain(theta)) == {"x"}


def test_constrain_and_unconstrain_are_inverse(target: PyMCTarget, theta: np.ndarray) -> None:
    draws = target.constrain(theta)
    shapes = {name: value.shape[1:] for name, value in draws.items()}
    assert shapes == {
        "tau": (), "u": (), "v": (3,), "w": (3, 2), "effect": (3, 2), "three": (),
    }  # fmt: skip
    assert draws["tau"] == pytest.approx(np.exp(theta[:, 0]), rel=EXACT)
    assert draws["u"] == pytest.approx(-1 + 4 * expit(theta[:, 1]), rel=EXACT)
    assert draws["effect"] == pytest.approx(draws["v"][:, :, None] * draws["w"], rel=EXACT)
    assert draws["three"] == pytest.approx(np.full(50, 3.0))
    assert target.unconstrain(draws) == pytest.approx(theta, rel=EXACT, abs=EXACT)


def test_order_is_that_of_pymcs_own_flattening(target: PyMCTarget, theta: np.ndarray) -> None:
    info = DictToArrayBijection.map(target.model.initial_point()).point_map_info
    logp = target.model.compile_logp()
    points = [DictToArrayBijection.rmap(RaveledVars(row, info)) for row in theta[:5]]
    expected = np.array([logp(x) for x in points])
    assert target.log_density(theta[:5]) == pytest.approx(expected, rel=EXACT)


def test_order_is_that_of_stock_variational_approximations(target: PyMCTarget) -> None:
    with target.model:
        approximation = pm.fit(n=0, method="fullrank_advi", random_seed=1, progressbar=False)
    ordering = approximation.groups[0].ordering
    expected = {v.name: s for v, s in zip(target.model.value_vars, slices(target), strict=True)}
    assert {name: part[1] for name, part in ordering.items()} == expected
    assert approximation.mean.eval().shape == (target.dimension,)


def slices(target: PyMCTarget) -> list[slice]:
    point = target.model.initial_point()
    ends = np.cumsum([point[v.name].size for v in target.model.value_vars])
    return [slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def awkward() -> pm.Model:
    """Transforms that change shape or depend on other variables; shapes with ones."""
    with pm.Model() as model:
        tau = pm.HalfNormal("tau", 2.0)
        pm.Uniform("u", 0, tau)
        pm.Dirichlet("s", np.ones(3))
        pm.ZeroSumNormal("z", shape=4)
        increasing = pm.distributions.transforms.ordered
        pm.Normal("o", np.arange(3.0), transform=increasing, shape=3)
        pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0))
        pm.Normal("one", shape=(1, 1))
        pm.Potential("penalty", -(tau**4))
    return model


def test_awkward_transforms_agree_with_pymc_and_round_trip() -> None:
    model = awkward()
    with pytensor.config.change_flags(mode="Mode", linker="py"):  # else a minute of compilation
        target = pymc_target(model)
        theta = np.random.default_rng(2).normal(size=(7, target.dimension)) / 2
        value, gradient = target.log_density_gradient(theta)
        draws = target.constrain(theta)
        back = target.unconstrain(draws)
        logp = model.compile_logp()
    info = DictToArrayBijection.map(model.initial_point()).point_map_info
    points = [DictToArrayBijection.rmap(RaveledVars(row, info)) for row in theta]
    assert value == pytest.approx(np.array([logp(x) for x in points]), rel=EXACT)
    h = 1e-5
    for i, step in enumerate(h * np.eye(target.dimension)):
        numeric = (target.log_density(theta + step) - target.log_density(theta - step)) / (2 * h)
        assert gradient[:, i] == pytest.approx(numeric, rel=NUMERIC, abs=NUMERIC)
    assert draws["s"].sum(axis=1) == pytest.approx(np.ones(7))
    assert (draws["u"] < draws["tau"]).all() and (np.diff(draws["o"]) > 0).all()
    assert back == pytest.approx(theta, abs=1e-9)


def test_many_draws_are_cut_into_blocks_without_a_trace(target: PyMCTarget) -> None:
    target.log_density(np.zeros((1, 11)))
    rows = target.density.rows_per_call
    assert FEWEST_ROWS <= rows < ELEMENTS
    theta = np.random.default_rng(3).normal(size=(2 * rows + 7, 11))
    assert target.log_density(theta) == pytest.approx(by_hand(theta), rel=EXACT, abs=ROUNDED)
    assert target.constrain(theta)["w"].shape == (len(theta), 3, 2)
    assert target.log_density(theta[:0]).shape == (0,)


def test_wide_models_take_fewer_draws_a_call() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.StudentT("y", nu=4, mu=mu, sigma=1, observed=np.arange(1000.0))
    wide = pymc_target(model)
    wide.log_density(np.zeros((1, 1)))
    assert wide.density.rows_per_call == ELEMENTS // 1000


def test_data_stay_live() -> None:
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        mu = pm.Normal("mu")
        pm.Potential("score", -(x.sum() * mu))
    target = pymc_target(model)
    at_one = np.ones((1, 1))
    before = target.log_density(at_one)
    with model:
        pm.set_data({"x": np.ones(5)})
    assert target.log_density(at_one) == pytest.approx(before - 5)


def test_points_outside_the_density_are_returned_as_they_are() -> None:
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("positive", pm.math.switch(x > 0, 0.0, -np.inf))
    value = pymc_target(model).log_density(np.array([[-1.0], [1.0], [np.nan]]))
    assert value[0] == -np.inf and np.isfinite(value[1]) and not np.isfinite(value[2])


def test_discrete_variables_are_named() -> None:
    with pm.Model() as model:
        pm.Normal("x")
        pm.Poisson("count", 3)
        pm.Bernoulli("switch", 0.5)
    with pytest.raises(ValueError, match=r"discrete free variables \['count', 'switch'\]"):
        pymc_target(model)


def test_a_model_without_parameters_is_refused() -> None:
    with pm.Model() as model:
        pm.Normal("y", observed=1.0)
    with pytest.raises(ValueError, match="no free variable"):
        pymc_target(model)


def test_a_random_log_density_is_refused() -> None:
    with pm.Model() as model:
        mu = pm.Normal("mu")
        batch = pm.Minibatch(np.arange(100.0), batch_size=10)
        pm.Normal("y", mu, 1, observed=batch, total_size=100)
    with pytest.raises(ValueError, match=r"rows of \['y'\] are a pm.Minibatch"):
        pymc_target(model)
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Potential("p", -((pm.Uniform.dist(0, 1) * mu) ** 2))
    with pytest.raises(ValueError, match=r"log density is random, as it contains \['uniform"):
        pymc_target(model)


@pytest.mark.parametrize("bad", [np.zeros(11), np.zeros((3, 10)), np.zeros((1, 3, 11))])
def test_points_are_checked(target: PyMCTarget, bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"theta must have shape \(N, 11\), got"):
        target.log_density(bad)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"v": None}, r"draws lack the parameters \['v'\]"),
        ({"v": np.zeros((50, 2))}, r"draws of v must have shape \('N', 3\), got \(50, 2\)"),
        ({"v": np.zeros((49, 3))}, r"must share one first axis, got lengths"),
        ({"tau": np.full(50, -1.0)}, "50 of 50 draws of tau lie outside its support"),
        ({"u": np.r_[np.zeros(49), 3.5]}, "1 of 50 draws of u lie outside its support"),
    ],
)
def test_draws_are_checked(
    target: PyMCTarget, theta: np.ndarray, change: dict[str, Any], message: str
) -> None:
    draws = {k: v for k, v in (target.constrain(theta) | change).items() if v is not None}
    with pytest.raises(ValueError, match=message):
        target.unconstrain(draws)


class PlainDensity:
    """What `stan_models` gives: `hierarchical` in another parameter order, without log 2."""

    dimension = 11
    order = np.r_[5:11, 0:5]
    parameter_names = ("w", "tau", "u", "v")

    def to_a(self, theta: np.ndarray) -> np.ndarray:
        points = np.empty_like(theta)
        points[:, self.order] = theta
        return points

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        return by_hand(self.to_a(theta)) - np.log(2)

    def log_density_gradient(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.log_density(theta), np.zeros_like(theta)

    def constrain(self, theta: np.ndarray, transformed: bool = True) -> dict[str, np.ndarray]:
        x = self.to_a(theta)
        tau, u = np.exp(x[:, 0]), -1 + 4 * expit(x[:, 1])
        draws = {"w": x[:, 5:].reshape(-1, 3, 2), "tau": tau, "u": u, "v": x[:, 2:5]}
        return draws | ({"twice": 2 * tau} if transformed else {})

    def unconstrain(self, draws: dict[str, np.ndarray]) -> np.ndarray:
        assert set(draws) == {"tau", "u", "v", "w"}  # Stan's refuses what it does not know
        logit = np.log((draws["u"] + 1) / (3 - draws["u"]))
        parts = [np.log(draws["tau"])[:, None], logit[:, None], draws["v"]]
        return np.concatenate([*parts, draws["w"].reshape(-1, 6)], axis=1)[:, self.order]


class ScaledDensity(PlainDensity):
    """tau's coordinate is 3 (log tau - 1): a Jacobian between the two spaces."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        x = np.array(theta)
        x[:, 6] = theta[:, 6] / 3 + 1
        return super().log_density(x) - np.log(3)

    def unconstrain(self, draws: dict[str, np.ndarray]) -> np.ndarray:
        theta = super().unconstrain(draws)
        theta[:, 6] = 3 * (theta[:, 6] - 1)
        return theta


def test_stan_target_adapts_a_density(theta: np.ndarray) -> None:
    density = PlainDensity()
    stan = stan_target(density, "plain")
    assert (stan.name, stan.dimension) == ("plain", 11)
    assert stan.parameter_names == ("w", "tau", "u", "v")
    assert stan.log_density(theta) == pytest.approx(density.log_density(theta))
    draws = stan.constrain(theta)
    assert "twice" in draws
    assert stan.unconstrain(draws) == pytest.approx(theta, rel=1e-8, abs=1e-8)
    with pytest.raises(ValueError, match=r"lack the parameters \['tau', 'u', 'v'\]"):
        stan.unconstrain({"w": draws["w"]})
    with pytest.raises(ValueError, match=r"theta must have shape \(N, 11\)"):
        stan.log_density(theta[:, :4])


def test_agreement_is_the_constant_between_two_programs(target: PyMCTarget) -> None:
    constant, deviation = check_agreement(target, stan_target(PlainDensity()))
    assert constant == pytest.approx(np.log(2), abs=ROUNDED)
    assert deviation < 1e-9


def test_agreement_takes_other_transforms_into_account(target: PyMCTarget) -> None:
    constant, deviation = check_agreement(target, stan_target(ScaledDensity()))
    assert constant == pytest.approx(np.log(2), abs=1e-7)
    assert deviation < 1e-7


def test_disagreement_is_seen(target: PyMCTarget) -> None:
    class Improper(PlainDensity):
        def log_density(self, theta: np.ndarray) -> np.ndarray:
            return super().log_density(theta) - theta[:, 6]  # forgot the Jacobian of tau

    assert check_agreement(target, stan_target(Improper())).deviation > 1


def test_agreement_needs_one_dimension(target: PyMCTarget) -> None:
    with pm.Model() as model:
        pm.Normal("tau")
    with pytest.raises(ValueError, match="dimensions 1 and 11 differ"):
        check_agreement(pymc_target(model), target)
