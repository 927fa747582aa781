"""Stan's methods on targets whose posterior is known exactly."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time

import arviz as az
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from stan_models import StanDataError, StanRunError, advi, laplace, nuts, pathfinder
from stan_models.inference_data import constrained
from stan_models.results import Draws
from stan_models.runs import CmdStanRun
from tests.tolerances import EXACT, NUMERIC, monte_carlo

pytestmark = pytest.mark.stan

COUNTS = {"N": 5, "y": [3, 1, 4, 1, 5], "shape": 2.0, "scale": 0.5}
LOG_Z = -20.0  # far from 0: ADVI's stopping rule is relative to the ELBO
METHODS = [nuts, advi, laplace, pathfinder]


def gaussian_data(dimension=3, seed=1, power=1.0):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(dimension, dimension))
    cov = B @ B.T / dimension + 0.2 * np.eye(dimension)
    data = {"D": dimension, "mean": rng.normal(size=dimension), "cov": cov, "power": power}
    return {**data, "log_z": LOG_Z}


@pytest.fixture(scope="module")
def gaussian(program):
    return program("gaussian")


@pytest.fixture(scope="module")
def conjugate(program):
    return nuts(program("gamma_poisson"), COUNTS, chains=2, random_seed=1)


def components(idata):
    found = idata.variational_parameters
    return [
        (w, stats.multivariate_normal(m, c))
        for w, m, c in zip(
            found.weight.values, found["mean"].values, found["cov"].values, strict=True
        )
    ]


def assert_lq_is_the_density_of_its_own_draws(idata):
    """lq against scipy; Mahalanobis distances of the draws against the chi-square law."""
    theta = idata.unconstrained_posterior.theta.values[0]
    logs = [np.log(w) + normal.logpdf(theta) for w, normal in components(idata)]
    np.testing.assert_allclose(idata.sample_stats.lq.values[0], logsumexp(logs, 0), rtol=1e-8)
    path = idata.sample_stats.get("path", np.zeros(len(theta)))
    for k, (_, normal) in enumerate(components(idata)):
        offset = theta[np.ravel(path) == k] - normal.mean
        distance = np.einsum("ni,ij,nj->n", offset, np.linalg.inv(normal.cov), offset)
        assert stats.kstest(distance, stats.chi2(theta.shape[1]).cdf).pvalue > 1e-3
        z = offset.mean(0) / np.sqrt(np.diag(normal.cov) / len(offset))
        assert np.abs(z).max() < monte_carlo(1)


def mean_error(x):
    """Monte Carlo standard error of the mean of a variable (chain, draw)."""
    return float(x.values.std(ddof=1) / np.sqrt(az.ess(x.values, method="mean")))


def test_nuts_samples_a_conjugate_posterior(conjugate):
    exact = stats.gamma(COUNTS["shape"] + 14, scale=1 / (COUNTS["scale"] + 5))
    rate = conjugate.posterior.rate
    se = mean_error(rate)
    assert abs(rate.values.mean() - exact.mean()) < monte_carlo(se)
    squares = (rate - exact.mean()) ** 2
    se = mean_error(squares) / (2 * exact.std())  # delta method
    assert abs(np.sqrt(squares.values.mean()) - exact.std()) < monte_carlo(se)


def test_nuts_reports_lp_on_the_unconstrained_space(conjugate):
    theta = conjugate.unconstrained_posterior.theta.values[..., 0]
    np.testing.assert_allclose(np.exp(theta), conjugate.posterior.rate.values, rtol=EXACT)
    np.testing.assert_allclose(theta, conjugate.posterior.log_rate.values, rtol=1e-9, atol=1e-9)
    exact = stats.gamma(COUNTS["shape"] + 14, scale=1 / (COUNTS["scale"] + 5))
    constant = conjugate.sample_stats.lp.values - (exact.logpdf(np.exp(theta)) + theta)
    evidence = stats.nbinom(2, 0.5 / 1.5).logpmf(3)  # log p(y1), then chain rule for the rest
    shape, rate = 2.0 + 3, 1.5
    for y in COUNTS["y"][1:]:
        evidence += stats.nbinom(shape, rate / (rate + 1)).logpmf(y)
        shape, rate = shape + y, rate + 1
    np.testing.assert_allclose(constant, evidence, rtol=1e-9)


def test_nuts_keeps_warm_up_and_diagnostics(conjugate):
    names = {"acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy", "lp"}
    for prefix in ("", "warmup_"):
        stats_group = conjugate[f"{prefix}sample_stats"]
        assert set(stats_group.data_vars) == names
        assert dict(stats_group.sizes) == {"chain": 2, "draw": 1000}
        assert conjugate[f"{prefix}posterior"].rate.shape == (2, 1000)
        assert conjugate[f"{prefix}unconstrained_posterior"].theta.shape == (2, 1000, 1)
    assert conjugate.sample_stats.diverging.dtype == bool
    steps = sum(conjugate[f"{p}sample_stats"].n_steps.values.sum() for p in ("", "warmup_"))
    assert conjugate.posterior.attrs["gradient_evaluations"] == steps
    assert (np.ptp(conjugate.sample_stats.step_size.values, axis=1) == 0).all()
    assert (np.ptp(conjugate.warmup_sample_stats.step_size.values, axis=1) > 0).all()


def test_results_record_what_ran(conjugate, toolchain):
    attrs = conjugate.posterior.attrs
    assert attrs["engine"] == toolchain.engine and attrs["stan_version"] == toolchain.stan_version
    assert attrs["method"] == "nuts" and attrs["random_seed"] == 1 and attrs["seconds"] > 0
    assert json.loads(attrs["arguments"])["adapt_delta"] == 0.8


def test_generated_quantities_are_in_the_posterior(conjugate):
    """As in `az.from_cmdstanpy`, and as `bridge.fit` has them."""
    assert conjugate.posterior.next.shape == (2, 1000)
    assert json.loads(conjugate.posterior.attrs["generated_quantities"]) == ["next"]
    assert "next" not in conjugate.warmup_posterior


def test_results_survive_netcdf(gaussian, conjugate, tmp_path):
    fitted = pathfinder(gaussian, gaussian_data(), num_paths=2, draws=50, random_seed=1)
    for file, idata in (("fitted.nc", fitted), ("conjugate.nc", conjugate)):
        idata.to_netcdf(tmp_path / file)
        copy = az.from_netcdf(tmp_path / file)
        assert set(copy) == set(idata)
        for group in idata:
            for name, value in idata[group].data_vars.items():
                np.testing.assert_array_equal(copy[group][name], value)
        assert copy.posterior.attrs == idata.posterior.attrs


def test_seed_decides_the_draws(gaussian):
    data = gaussian_data()
    first, again, other = (
        advi(gaussian, data, draws=20, random_seed=seed).posterior.x.values for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_laplace_is_exact_on_a_gaussian(gaussian):
    data = gaussian_data()
    idata = laplace(gaussian, data, draws=500, random_seed=1)
    found = idata.variational_parameters
    # the optimiser stops on the density, so that is where its mode is close
    gap = found["mean"].values[0] - data["mean"]
    assert gap @ np.linalg.solve(data["cov"], gap) / 2 < 1e-6
    np.testing.assert_allclose(found["cov"][0], data["cov"], rtol=NUMERIC, atol=NUMERIC)
    log_ratios = idata.sample_stats.lp - idata.sample_stats.lq
    assert np.abs(log_ratios.values - LOG_Z).max() < 1e-3  # the mode is an optimiser's
    assert_lq_is_the_density_of_its_own_draws(idata)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_advi_approaches_a_gaussian(gaussian, covariance):
    data = gaussian_data()
    idata = advi(gaussian, data, covariance=covariance, draws=500, random_seed=1,
                 grad_samples=50)  # fmt: skip
    precision = np.linalg.inv(data["cov"])
    best = data["cov"] if covariance == "full" else np.diag(1 / np.diag(precision))
    mean, cov = components(idata)[0][1].mean, components(idata)[0][1].cov

    # KL(q || p) above the family's best, in closed form: stochastic optimisation, hence 0.05
    def kl(m, S):
        gap = m - data["mean"]
        return 0.5 * (np.trace(precision @ S) + gap @ precision @ gap - len(m)
                      + np.linalg.slogdet(data["cov"])[1] - np.linalg.slogdet(S)[1])  # fmt: skip

    assert 0 <= kl(mean, cov) - kl(data["mean"], best) < 0.05
    elbo = (idata.sample_stats.lp - idata.sample_stats.lq).values
    se = elbo.std() / np.sqrt(elbo.size)
    assert abs(elbo.mean() - LOG_Z + kl(mean, cov)) < monte_carlo(se)
    # Stan's own estimate from 100 draws of an earlier iterate
    assert abs(idata.posterior.attrs["elbo"] - elbo.mean()) < 0.5
    assert_lq_is_the_density_of_its_own_draws(idata)
    if covariance == "diagonal":
        assert np.count_nonzero(cov - np.diag(np.diag(cov))) == 0


def test_advi_counts_its_gradients(gaussian):
    settings = {"draws": 10, "random_seed": 1, "grad_samples": 3, "require_converged": False}
    idata = advi(gaussian, gaussian_data(), iter=250, eval_elbo=100, tol_rel_obj=1e-9, eta=0.1,
                 **settings)  # fmt: skip
    assert idata.posterior.attrs["converged"] == 0
    assert idata.posterior.attrs["gradient_evaluations"] == 3 * 250
    idata = advi(gaussian, gaussian_data(), adapt_iter=20, **settings)
    attrs = idata.posterior.attrs
    assert attrs["gradient_evaluations"] // 3 - attrs["iterations"] in {20, 40, 60, 80, 100}


@pytest.mark.parametrize("dimension", [2, 14])  # Stan's dense and sparse formulas
def test_pathfinder_is_a_mixture_of_its_paths(gaussian, dimension):
    idata = pathfinder(gaussian, gaussian_data(dimension), num_paths=3, draws=901, random_seed=1)
    parts = components(idata)
    assert [w for w, _ in parts] == [1 / 3] * 3
    path, theta = (
        idata.sample_stats["path"].values[0],
        idata.unconstrained_posterior.theta.values[0],
    )
    assert np.bincount(path).tolist() == [301, 300, 300]
    for k, (_, normal) in enumerate(parts):
        stans = idata.sample_stats.lp_approx.values[0, path == k]
        np.testing.assert_allclose(normal.logpdf(theta[path == k]), stans, rtol=1e-6)
    assert_lq_is_the_density_of_its_own_draws(idata)


def test_single_path(gaussian):
    single = pathfinder(gaussian, gaussian_data(), num_paths=1, draws=40, random_seed=1)
    assert single.posterior.sizes["draw"] == 40 and len(components(single)) == 1


def test_lost_paths_leave_the_others(gaussian, monkeypatch, caplog):
    """Stan leaves the rows of a failed path out; here the last two of four are taken away."""
    asked, call = [], CmdStanRun.call

    def losing(run, method, **arguments):
        fit = call(run, method, **arguments)
        asked.append(arguments["num_single_draws"])
        fit._draws = fit.draws()[: 2 * asked[-1]]
        return fit

    monkeypatch.setattr(CmdStanRun, "call", losing)
    idata = pathfinder(gaussian, gaussian_data(), draws=1000, random_seed=1)
    assert asked == [250 + 25, 500 + 25]
    assert np.bincount(idata.sample_stats["path"].values[0]).tolist() == [500, 500]
    assert idata.posterior.attrs["failed_paths"] == 2 and "2 of 4" in caplog.text
    assert_lq_is_the_density_of_its_own_draws(idata)


def test_no_path_left(gaussian):
    with pytest.raises(StanRunError, match=r"Pathfinder.*'gaussian'"):
        pathfinder(gaussian, gaussian_data(power=0.0), random_seed=1)


def test_few_draws_of_many_dimensions(gaussian):
    data = gaussian_data(20)
    idata = laplace(gaussian, data, draws=7, random_seed=1)
    assert idata.posterior.x.shape == (1, 7, 20)
    sd = np.sqrt(np.diag(data["cov"]))
    error = (idata.variational_parameters["cov"].values[0] - data["cov"]) / np.outer(sd, sd)
    assert np.abs(error).max() < NUMERIC


def test_unconverged_advi_is_an_error(gaussian):
    with pytest.raises(StanRunError, match="may not have converged"):
        advi(gaussian, gaussian_data(), iter=200, tol_rel_obj=1e-9, random_seed=1)


def test_methods_without_a_maximum_fail(gaussian):
    unbounded = gaussian_data(power=-1.0)
    with pytest.raises(StanRunError, match="Laplace approximation on 'gaussian' failed"):
        laplace(gaussian, unbounded, random_seed=1)
    with pytest.raises(StanRunError, match=r"ADVI \(diagonal covariance\) on 'gaussian' failed"):
        advi(gaussian, unbounded, random_seed=1)


@pytest.mark.parametrize("method", METHODS)
def test_wrong_data_reach_no_method(program, method):
    with pytest.raises(StanDataError, match=r"\by\b"):
        method(program("gamma_poisson"), {**COUNTS, "y": [-1] * 5})
    with pytest.raises(FileNotFoundError, match="nowhere"):
        method(program("gamma_poisson"), "nowhere.json")


@pytest.mark.parametrize("method", METHODS)
def test_wrong_arguments(gaussian, method):
    for draws in (0, -1, 2.5):
        with pytest.raises(ValueError, match=f"draws must be an integer >= 1, got {draws}"):
            method(gaussian, gaussian_data(), draws=draws)
    with pytest.raises(
        ValueError, match=r"random_seed must be None or an integer from .* got -1: give"
    ):
        method(gaussian, gaussian_data(), random_seed=-1)


def test_wrong_settings(gaussian):
    with pytest.raises(ValueError, match="'diagonal' or 'full', got 'banana'"):
        advi(gaussian, gaussian_data(), covariance="banana")
    with pytest.raises(ValueError, match="adapt_delta"):
        nuts(gaussian, gaussian_data(), adapt_delta=1.5)
    with pytest.raises(ValueError, match="ask for fewer draws"):
        laplace(gaussian, gaussian_data(), draws=10**9)


@pytest.mark.parametrize("method", METHODS)
def test_a_time_limit_of_no_time_is_refused(gaussian, method):
    for limit in (0, -1.0, "60", True):
        with pytest.raises(ValueError, match=f"timeout must be seconds above 0, .* got {limit!r}"):
            method(gaussian, gaussian_data(), timeout=limit)


@pytest.mark.parametrize("method", [nuts, laplace, pathfinder])
def test_starts_of_what_is_no_parameter_are_refused(gaussian, method):
    with pytest.raises(ValueError, match=r"inits must name parameters .*\(x\), got 'xx'"):
        method(gaussian, gaussian_data(), inits={"xx": np.zeros(3)})


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ([[1, 2, 0], [2, 1, 0], [0, 0, 1]], "symmetric and positive definite"),
        ([1, -1, 1], "symmetric and positive definite"),
        ([1, 1], r"shape \(3,\) or \(3, 3\), got \(2,\)"),
        ("a", '"inv_metric", numbers'),
    ],
)
def test_a_metric_that_is_none_is_refused(gaussian, tmp_path, written, words):
    file = tmp_path / "metric.json"
    file.write_text(json.dumps({"inv_metric": written}))
    with pytest.raises(ValueError, match=words):
        nuts(gaussian, gaussian_data(), metric=str(file))


@pytest.mark.parametrize("rate", [np.inf, 0.0, np.nan])
def test_draws_that_lost_their_point_are_refused(program, rate):
    """exp(θ) overflowed or underflowed: θ cannot be had back, so no density is made up for it."""
    table = np.array([[[-1.0, 2.0, np.log(2.0), 3.0], [-1.0, rate, 0.0, 3.0]]])
    names = ("lp__", "rate", "log_rate", "next")
    with pytest.raises(StanRunError, match=r"1 of 2 .* not finite"):
        Draws.read(program("gamma_poisson").density(COUNTS), names, table)


def test_laplace_of_a_posterior_too_wide_for_its_scale(program):
    flat = {"N": 0, "y": [], "shape": 1e-6, "scale": 1.0}  # sd of log(rate) is 1000
    with pytest.raises(StanRunError, match="poisson_rng: Rate parameter is"):
        laplace(program("gamma_poisson"), flat, random_seed=1)


def kill_when_running(started: list[subprocess.Popen]) -> None:
    """Kill the sampler among the processes started, once it runs."""
    for _ in range(600):
        for process in started:
            if any("method=sample" in str(word) for word in process.args):
                time.sleep(0.2)
                os.kill(process.pid, signal.SIGKILL)
                return
        time.sleep(0.05)


def test_killed_sampler_leaves_an_error_and_no_files(gaussian, tmp_path, monkeypatch):
    started: list[subprocess.Popen] = []
    popen = subprocess.Popen

    def recorded(*arguments, **options):
        started.append(popen(*arguments, **options))
        return started[-1]

    gaussian.compile()
    monkeypatch.setattr(subprocess, "Popen", recorded)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    killer = threading.Thread(target=kill_when_running, args=[started])
    killer.start()
    with pytest.raises(StanRunError, match="killed by SIGKILL"):
        nuts(gaussian, gaussian_data(), chains=1, draws=10_000_000, random_seed=1)
    killer.join()
    assert list(tmp_path.iterdir()) == []


def test_time_limit(gaussian):
    with pytest.raises(StanRunError, match="time limit"):
        nuts(gaussian, gaussian_data(), draws=10_000_000, random_seed=1, timeout=1)


def test_log_lik_is_the_log_likelihood():
    """As in `az.from_cmdstanpy` of ArviZ 0.x, so that `az.loo` finds it."""
    values = {"mu": np.zeros((2, 30)), "log_lik": np.ones((2, 30, 5))}
    groups = constrained(values, {"method": "nuts"})
    assert list(groups["posterior"]) == ["mu"] and groups["posterior"].attrs["method"] == "nuts"
    assert groups["log_likelihood"]["log_lik"].dims == ("chain", "draw", "log_lik_dim_0")
    assert list(constrained({"mu": values["mu"]})) == ["posterior"]
