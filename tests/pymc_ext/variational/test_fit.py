"""``px.fit``: the families by name, and what comes back."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from bridge.methods.families import FAMILY_METHODS, made
from pymc_ext.variational.core import Algorithm
from pymc_ext.variational.names import family, family_names
from tests.contracts import FAMILIES
from tests.tolerances import EXACT, NUMERIC, monte_carlo

SITES = ["north", "south"]
MEAN, SD = np.array([1.0, -2.0]), np.array([0.5, 3.0])
Y = np.array([[0.5, -1.0], [2.0, 1.0]])


@pytest.fixture
def model() -> pm.Model:
    """Gaussian, with coords, a Deterministic, constant and observed data."""
    with pm.Model(coords={"site": SITES, "row": [10, 20]}) as model:
        shift = pm.Data("shift", [1.0, 0.0], dims="site")
        level = pm.Normal("level", MEAN, SD, dims="site")
        mu = pm.Deterministic("mu", level + shift, dims="site")
        pm.Normal("y", mu, 1.0, observed=Y, dims=("row", "site"))
    return model


def posterior() -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of ``level``."""
    precision = 1 / SD**2 + len(Y)
    return (MEAN / SD**2 + (Y - [1.0, 0.0]).sum(axis=0)) / precision, precision**-0.5


def test_a_name_gives_draws_and_numbers_with_the_models_coords(model, tmp_path) -> None:
    idata = px.fit("laplace", model=model, draws=4_000, random_seed=1, progressbar=False)
    mean, sd = posterior()
    draws = idata["posterior"]["level"]
    assert draws.dims == ("chain", "draw", "site") and draws.shape == (4, 1_000, 2)
    assert list(draws["site"].values) == SITES
    error = monte_carlo(1) * sd / np.sqrt(4_000)
    assert np.all(abs(draws.values.mean((0, 1)) - mean) < error)
    shift = idata["posterior"]["mu"] - draws
    np.testing.assert_allclose(shift, np.broadcast_to([1.0, 0.0], shift.shape), atol=EXACT)
    fit = idata["fit"]
    np.testing.assert_allclose(fit["mean_vector"].sel(rows="level[south]"), mean[1], rtol=NUMERIC)
    wanted = np.diag(sd**2)
    np.testing.assert_allclose(fit["covariance_matrix"], wanted, rtol=NUMERIC, atol=NUMERIC)
    assert list(fit["columns"].values) == ["level[north]", "level[south]"]
    np.testing.assert_array_equal(idata["observed_data"]["y"], Y)
    np.testing.assert_array_equal(idata["constant_data"]["shift"], [1.0, 0.0])
    stats = idata["sample_stats"]
    assert {"lp", "lq", "log_weight"} <= set(stats)
    assert np.exp(stats["log_weight"]).values.sum() == pytest.approx(1)
    idata.to_netcdf(str(tmp_path / "kept.nc"))
    kept = az.from_netcdf(str(tmp_path / "kept.nc"))
    for attributes in (kept[group].attrs for group in ("posterior", "fit", "fit_stats")):
        assert attributes["method"] == "laplace" and attributes["random_seed"] == 1
        assert attributes["verdict"].startswith("exact") and attributes["khat"] == -np.inf
        assert attributes["options"].startswith("Laplace(")
        assert attributes["gradient_evaluations"] > 0
        assert attributes["trusted_posteriors_version"]


def test_weights_make_draws_of_q_those_of_the_posterior() -> None:
    """The Gaussian of a Student-t is too narrow; weighted, its draws have the sd."""
    with pm.Model():
        pm.StudentT("x", nu=20, mu=1.0, sigma=2.0)
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    idata = approx.sample(20_000, chains=2, random_seed=1)
    x, weights = idata["posterior"]["x"].values, np.exp(idata["sample_stats"]["log_weight"].values)
    assert weights.shape == (2, 20_000) and weights.sum() == pytest.approx(1)
    sd = 2.0 * np.sqrt(20 / 18)
    assert x.std() < 0.99 * sd
    found = np.sqrt((weights * (x - 1.0) ** 2).sum())
    assert found == pytest.approx(sd, rel=monte_carlo(2 / np.sqrt(x.size)))
    assert "log_weight" not in approx.sample(20, logs=False)["sample_stats"]
    assert np.exp(approx.sample(1)["sample_stats"]["log_weight"]).item() == 1


def test_it_works_in_a_context_and_a_seed_means_a_result(model) -> None:
    with model:
        first, second = (
            px.fit("batch-match", random_seed=2, draws=50, progressbar=False) for _ in range(2)
        )
    np.testing.assert_array_equal(first["posterior"]["level"], second["posterior"]["level"])


def test_an_instance_keeps_its_options_and_its_seed(model) -> None:
    inference = px.MixedVI("mu", model=model, random_seed=3)
    idata = px.fit(inference, draws=50, progressbar=False)
    attributes = idata["posterior"].attrs
    assert attributes["method"] == "mixed-mu" and attributes["random_seed"] == 3
    assert inference.approx.result.method == "mixed-mu"


def test_losses_come_with_the_draws(model) -> None:
    inference = px.MonteCarloVI(model=model, random_seed=1)
    idata = px.fit(inference, n=30, draws=10, progressbar=False)
    losses = idata["fit_stats"]["loss"]
    assert losses.dims == ("iteration",)
    np.testing.assert_array_equal(losses, inference.hist)
    assert len(losses) == 30 and np.all(np.isfinite(losses))


def test_q_that_is_no_gaussian_has_no_such_numbers(model) -> None:
    idata = px.fit("bernstein", model=model, n=20, draws=10, random_seed=1, progressbar=False)
    assert idata["posterior"].attrs["method"] == "bernstein"
    with pytest.raises(KeyError):
        idata["fit"]


def test_coordinates_are_named_as_they_are_unconstrained() -> None:
    with pm.Model(coords={"part": ["a", "b", "c"]}) as model:
        pm.Dirichlet("share", np.full(3, 5.0), dims="part")
        pm.HalfNormal("scale", 1.0)
        pm.MvNormal("plain", np.zeros(2), np.eye(2))
    fit = px.fit("batch-match", model=model, draws=10, random_seed=1, progressbar=False)["fit"]
    names = ["share_simplex__[0]", "share_simplex__[1]", "scale_log__", "plain[0]", "plain[1]"]
    assert list(fit["rows"].values) == names


def test_a_covariance_too_large_to_write_out_is_left_out(model, monkeypatch) -> None:
    monkeypatch.setattr("pymc_ext.variational.fit.MOST_COVARIANCE", 1)
    fit = px.fit("laplace", model=model, draws=10, random_seed=1, progressbar=False)["fit"]
    assert set(fit.data_vars) == {"mean_vector", "sd_vector"}
    np.testing.assert_allclose(fit["sd_vector"], posterior()[1], rtol=NUMERIC)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("laplas", "no family has the name 'laplas': did you mean 'laplace'"),
        ("hierachical", r"did you mean 'hierarchical'\?$"),
        ("nosuch", r"no family has the name 'nosuch': px has \['basins', .*'viper-full'\]"),
        ("BatchMatchVI", "did you mean 'batch-match'"),
        ("batch_match", "did you mean 'batch-match'"),
        ("advi", r"'advi' is no family of px: call pm.fit\(method='advi'\), PyMC's own"),
        ("NUTS", r"chains are run by pm.sample\(\) and by px.sample\(approx\)"),
        ("zzz", r"no family has the name 'zzz': px has \['basins', .*'viper-full'\]"),
    ],
)
def test_an_unknown_name_is_answered_with_the_near_ones(name, message, model) -> None:
    with pytest.raises(ValueError, match=message):
        px.fit(name, model=model)


def test_other_bad_input_is_refused_in_words(model) -> None:
    with pytest.raises(TypeError, match=r"instance of one, such as .* got the class LaplaceVI"):
        px.fit(px.LaplaceVI, model=model)
    with model, pytest.raises(TypeError, match=r"what PyMC has of its own goes to pm.fit"):
        px.fit(pm.ADVI())
    with pytest.raises(ValueError, match="model must be the one that the LaplaceVI was made for"):
        px.fit(px.LaplaceVI(model=model), model=pm.Model())
    with pytest.raises(ValueError, match="draws must be an integer >= 1, got 0"):
        px.fit("laplace", model=model, draws=0)
    with pytest.raises(TypeError, match="no model: pass model="):
        px.fit("laplace")


def test_a_rank_that_a_name_brings_is_at_most_the_number_of_parameters() -> None:
    with pm.Model() as model:
        pm.Normal("x", 0, 1, shape=2)
    assert family("batch-match-lr", model=model).algorithm.rank == 2


def test_every_method_of_bridge_and_every_contract_is_known_by_its_name() -> None:
    assert {*FAMILIES} | {method.name for method in FAMILY_METHODS} <= {*family_names()}
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=12)
        pm.Bernoulli("y", logit_p=beta.sum() * np.ones(3), observed=[0, 1, 1])
    for method in FAMILY_METHODS:
        wanted = made(method.run.algorithm)
        assert isinstance(wanted, Algorithm)
        assert family(method.name, model=model).algorithm == wanted, method.name
