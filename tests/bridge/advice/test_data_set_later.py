"""``advice.idata`` is made when it is first read, of the data that the model was fitted to."""

import numpy as np
import pymc as pm
import pytest

import bridge

EXACT = 1e-10


@pytest.fixture
def model():
    rng = np.random.default_rng(1)
    with pm.Model(coords={"row": range(20)}) as model:
        x = pm.Data("x", rng.normal(size=20), dims="row")
        y = pm.Data("observed", rng.normal(size=20), dims="row")
        a, b = pm.Normal("a"), pm.Normal("b")
        mean = pm.Deterministic("mean", a + b * x, dims="row")
        pm.Normal("y", mean, 1, observed=y, dims="row")
    return model


GROUPS = ("posterior", "sample_stats", "observed_data", "constant_data", "log_likelihood")


def same(ours, theirs):
    for group in GROUPS:
        for name, values in theirs[group].data_vars.items():
            np.testing.assert_allclose(ours[group][name].values, values.values, rtol=EXACT)
        for name, values in theirs[group].coords.items():
            np.testing.assert_array_equal(ours[group][name].values, values.values)


@pytest.mark.parametrize("rows", [20, 7])
def test_what_is_read_after_set_data_is_of_the_fit(model, rows) -> None:
    first, second = (
        bridge.fit(model, random_seed=1, log_likelihood=True, log_prior=True, progressbar=False)
        for _ in range(2)
    )
    read_at_once = first.idata, first.unresampled
    new, labels = np.full(rows, 9.0), np.arange(rows) + 100
    with model:
        pm.set_data({"x": new, "observed": new}, coords={"row": labels})
    same(second.idata, read_at_once[0])
    same(second.unresampled, read_at_once[1])
    np.testing.assert_array_equal(model["x"].get_value(), new)
    np.testing.assert_array_equal(model.coords["row"], labels)
    assert model.dim_lengths["row"].eval() == rows
    with model:  # and predictions are of the new
        predicted = pm.sample_posterior_predictive(second.idata, progressbar=False, random_seed=1)
    assert predicted["posterior_predictive"]["y"].shape[-1] == rows


def test_data_of_a_program_are_those_of_the_fit() -> None:
    data = {"N": 3, "y": np.array([1.0, 2.0, 0.5])}
    source = """data { int N; vector[N] y; }
    parameters { real mu; } model { mu ~ normal(0, 1); y ~ normal(mu, 1); }"""
    advice = bridge.fit(source, data, observed_data="y", random_seed=1, progressbar=False)
    data["y"][:] = 9.0
    np.testing.assert_array_equal(advice.idata["observed_data"]["y"].values, [1.0, 2.0, 0.5])


def test_log_likelihood_of_discrete_variables_too() -> None:
    with pm.Model() as model:
        y = pm.Data("observed", [1.0, 2.0, 0.5])
        on = pm.Bernoulli("on", 0.5)
        pm.Normal("y", on, 1, observed=y)
    advice = bridge.fit(model, random_seed=1, log_likelihood=True, progressbar=False)
    with model:
        pm.set_data({"observed": [50.0, 50.0, 50.0]})
    on = advice.idata["posterior"]["on"].values[..., None]
    expected = -0.5 * (np.array([1.0, 2.0, 0.5]) - on) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(advice.idata["log_likelihood"]["y"].values, expected, rtol=EXACT)
