"""log p̃ of draws in ``sample_stats``: evaluated when it is read, of the data that were there."""

import copy
import pickle

import arviz as az
import numpy as np
import pymc as pm
import pytest

import pymc_ext as px

EXACT = 1e-12  # the same function of the same numbers, in rows of other lengths


@pytest.fixture
def fitted():
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        x = pm.Data("x", rng.normal(size=(30, 2)))
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Normal("y", x @ beta, 1, observed=rng.normal(size=30))
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    return model, approx


@pytest.fixture
def counted(fitted, monkeypatch):
    """The approximation, with how many points log p̃ was asked at."""
    _, approx = fitted
    seen, log_density = [], approx.density.log_density

    def counting(theta):
        seen.append(len(theta))
        return log_density(theta)

    monkeypatch.setattr(approx.density, "log_density", counting)
    return approx, seen


def test_nothing_is_evaluated_until_it_is_read_and_that_once(counted):
    approx, seen = counted
    idata = approx.sample(10, chains=2, random_seed=2)
    assert "..." in repr(idata["sample_stats"])
    some = idata["sample_stats"].isel(draw=slice(3))
    assert seen == []
    weights = idata["sample_stats"]["log_weight"].values
    lp = idata["sample_stats"]["lp"].values
    assert seen == [20] and lp.shape == weights.shape == (2, 10)
    np.testing.assert_array_equal(some["lp"].values, lp[:, :3])
    assert seen == [20] and np.exp(weights).sum() == pytest.approx(1)


def test_it_is_of_the_data_that_the_draws_were_taken_under(fitted):
    model, approx = fitted
    theta, lp, _ = approx.draws_with_logs(20, random_seed=2)
    idata = approx.sample(20, random_seed=2)
    with model:
        pm.set_data({"x": np.ones((30, 2))})
    now = approx.log_p(theta)
    np.testing.assert_allclose(idata["sample_stats"]["lp"].values[0], lp, rtol=EXACT)
    assert abs(now - lp).min() > 1e-3
    np.testing.assert_array_equal(approx.log_p(theta), now)  # and the model keeps the new


def test_copies_pickles_and_files_have_the_numbers(counted, tmp_path):
    approx, seen = counted
    idata = approx.sample(10, random_seed=2)
    copied = copy.deepcopy(idata)
    assert seen == []
    sent = pickle.loads(pickle.dumps(idata))
    idata.to_netcdf(str(tmp_path / "draws.nc"))
    lp = approx.draws_with_logs(10, random_seed=2)[1]
    for held in (idata, copied, sent, az.from_netcdf(str(tmp_path / "draws.nc"))):
        np.testing.assert_allclose(held["sample_stats"]["lp"].values[0], lp, rtol=EXACT)


def test_what_is_written_to_is_a_copy(fitted):
    _, approx = fitted
    idata = approx.sample(5, random_seed=2)
    idata["sample_stats"]["lp"].values[:] = 0
    np.testing.assert_array_equal(idata["sample_stats"]["lp"].values, np.zeros((1, 5)))
    assert np.isfinite(idata["sample_stats"]["log_weight"].values).all()


def test_an_error_comes_when_it_is_read_and_leaves_the_data(fitted, monkeypatch):
    model, approx = fitted
    idata = approx.sample(5, random_seed=2)
    new = np.ones((30, 2))
    with model:
        pm.set_data({"x": new})

    def failing(theta):
        raise FloatingPointError("an Op of the user's")

    with monkeypatch.context() as broken:
        broken.setattr(approx.density, "log_density", failing)
        with pytest.raises(FloatingPointError, match="an Op of the user's"):
            idata["sample_stats"]["lp"].load()
    np.testing.assert_array_equal(model["x"].get_value(), new)
    assert np.isfinite(idata["sample_stats"]["lp"].values).all()


def test_a_deterministic_that_has_come_since_is_among_the_draws(fitted):
    model, approx = fitted
    before = approx.sample(5, random_seed=2)
    with model:
        pm.Deterministic("twice", 2 * model["beta"])
    after = approx.sample(5, random_seed=2)
    assert "twice" not in before["posterior"]
    np.testing.assert_array_equal(
        after["posterior"]["twice"].values, 2 * before["posterior"]["beta"].values
    )


@pytest.mark.parametrize("use", ["sample", "diagnose", "log_p", "px.sample"])
def test_a_model_that_has_another_likelihood_since_is_refused(fitted, use):
    model, approx = fitted
    with model:
        pm.Normal("more", model["beta"][0], 0.1, observed=3.0)
    does = {
        "sample": lambda: approx.sample(5),
        "diagnose": lambda: px.diagnose(approx),
        "log_p": lambda: approx.log_p(np.zeros((1, 2))),
        "px.sample": lambda: px.sample(approx, progressbar=False),
    }
    with pytest.raises(ValueError, match=r"has changed since it was fitted \(more\)"):
        does[use]()
