"""The density of a PyMC model: values and scores against PyMC's own and finite differences."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import pymc_ext as px
from pymc_ext import pytensor_modes
from pymc_ext.density import CountedDensity, PyMCDensity, rows
from pymc_ext.density import model as module
from tests.tolerances import EXACT


def regression():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(20, 2))
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 2, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", x @ beta, sigma, observed=x @ [1.0, -1.0] + rng.normal(size=20))
        pm.Potential("nudge", -(beta[0] ** 2))
    return model


def differences(f, x, h=1e-6):
    return np.array([(f(x + e) - f(x - e)) / (2 * h) for e in h * np.eye(len(x))])


def test_entries_are_named_by_coords_where_these_tell_them_apart():
    coords = {"site": ["north", "south"], "year": [1999, 2001], "twice": ["a", "a"], "kind": "xyz"}
    with pm.Model(coords=coords) as model:
        pm.HalfNormal("s", dims="site")
        pm.Normal("b", dims=("site", "year"))
        pm.Normal("t", dims="twice")
        pm.Dirichlet("p", np.ones(3), dims="kind")
        pm.Deterministic("double", 2 * model["b"], dims=("site", "year"))
    density = PyMCDensity(model)
    assert density.unconstrained_names == [
        "s_log__[north]", "s_log__[south]",
        "b[north,1999]", "b[north,2001]", "b[south,1999]", "b[south,2001]",
        "t[0]", "t[1]", "p_simplex__[0]", "p_simplex__[1]",
    ]  # fmt: skip
    assert density.bounded_names[:2] == ["s_log__[north]", "s_log__[south]"]
    counted = CountedDensity(density)
    assert counted.labels("double", (2, 2))[-1] == "double[south,2001]"
    assert counted.labels("p", (3,)) == ["p[x]", "p[y]", "p[z]"]
    assert counted.labels("not of the model", (1,)) == ["not of the model[0]"]


def test_values_and_scores_are_the_models():
    model = regression()
    density, theta = PyMCDensity(model), np.random.default_rng(1).normal(size=(7, 3))
    logp, dlogp = model.compile_logp(), model.compile_dlogp()
    points = [{"beta": t[:2], "sigma_log__": t[2]} for t in theta]
    lp, gradient = density.log_density_gradient(theta)
    np.testing.assert_allclose(lp, [logp(p) for p in points], rtol=EXACT)
    np.testing.assert_allclose(gradient, [dlogp(p) for p in points], rtol=1e-8)
    np.testing.assert_allclose(density.log_density(theta), lp, rtol=EXACT)
    assert density.unconstrained_names == ["beta[0]", "beta[1]", "sigma_log__"]
    assert density.bounded_names == ["sigma_log__"]
    assert density.blocks == [("beta", 2, False), ("sigma", 1, True)]
    assert density.clock.seconds > 0


def test_exact_hessian_against_differences_of_the_score():
    density, theta = PyMCDensity(regression()), np.array([0.3, -0.2, 0.1])
    score = lambda t: density.log_density_gradient(t[None])[1][0]  # noqa: E731
    np.testing.assert_allclose(density.hessian(theta), differences(score, theta), rtol=1e-6)


def test_rows_outside_the_support_are_minus_infinity_and_harm_no_others():
    with pm.Model() as model:
        x = pm.Normal("x", 1.0, 0.3)
        pm.Normal("y", 0.0, x, observed=np.ones(3))  # x is the scale, and may be negative
    lp, gradient = PyMCDensity(model).log_density_gradient(np.array([[-0.5], [1.0]]))
    assert lp[0] == -np.inf and np.isfinite(lp[1]) and np.isfinite(gradient[1]).all()


def test_many_values_are_compiled_without_the_score(monkeypatch):
    monkeypatch.setattr(module, "VALUE_ROWS", 10)
    density, theta = PyMCDensity(regression()), np.zeros((6, 3))
    first = density.log_density(theta)
    assert "_value" not in density.__dict__
    np.testing.assert_allclose(density.log_density(theta), first, rtol=EXACT)
    assert "_value" in density.__dict__


def test_long_calls_are_cut_into_blocks(monkeypatch):
    monkeypatch.setattr(rows, "MOST_ROWS", 16)
    weight = pytensor.shared(0.7, "weight")
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Potential("p", weight * x)
    density = PyMCDensity(model, trained=[weight])
    theta, w = np.random.default_rng(2).normal(size=(50, 1)), np.linspace(0, 1, 50)
    lp, scores, extra = density.weighted_gradients(theta, w)
    assert lp.shape == (50,) and scores.shape == (50, 1)
    np.testing.assert_allclose(extra, [w @ theta[:, 0]], rtol=EXACT)
    np.testing.assert_allclose(scores, 0.7 - theta, rtol=EXACT)


def test_gradients_of_hyperparameters_and_trained_variables():
    shift = pytensor.shared(np.array([0.2, -0.1]), "shift")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", x + shift, sigma, observed=np.array([[0.5, 1.0], [2.0, -1.0]]))
    approx = px.LaplaceVI(hyperparameters=["sigma"], model=model).approx
    density = approx.make_density(trained=[shift])
    theta = np.random.default_rng(1).normal(size=(5, 2))
    w = np.array([0.1, 0.4, 0.2, 0.2, 0.1])
    start = density.extra
    assert density.extra_size == 3
    _, _, gradient = density.weighted_gradients(theta, w)

    def total(extra):
        density.extra = extra
        return w @ density.log_density(theta)

    np.testing.assert_allclose(gradient, differences(total, start), rtol=1e-6)
    density.extra = start
    logp = model.compile_logp(jacobian=False)  # a hyperparameter's prior has no Jacobian
    point = {"sigma_log__": start[0]}
    expected = [logp({"x": t, **point}) for t in theta]
    np.testing.assert_allclose(density.log_density(theta), expected, rtol=EXACT)


def test_minibatches_give_new_estimates_and_say_so():
    y = np.random.default_rng(0).normal(2.0, 1.0, size=500)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1, observed=pm.Minibatch(y, batch_size=50), total_size=500)
    density = PyMCDensity(model, random_seed=1)
    assert density.noisy and not PyMCDensity(regression()).noisy
    values = [density.log_density_gradient(np.array([[2.0]]))[0][0] for _ in range(200)]
    assert len(set(values)) > 100
    with pm.Model() as full:
        mu = pm.Normal("mu", 0, 10)
        pm.Normal("y", mu, 1, observed=y)
    exact = PyMCDensity(full).log_density(np.array([[2.0]]))[0]
    assert abs(np.mean(values) - exact) < 4 * np.std(values) / np.sqrt(200)
    again = PyMCDensity(model, random_seed=1).log_density_gradient(np.array([[2.0]]))[0][0]
    assert again == PyMCDensity(model, random_seed=1).log_density_gradient(np.array([[2.0]]))[0][0]


def test_a_model_with_a_scan_is_evaluated_row_by_row():
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=4)
        path = pytensor.scan(
            lambda step, level: 0.5 * level + step,
            sequences=[b],
            outputs_info=[pt.zeros(())],
            return_updates=False,
        )
        pm.Normal("y", path, 1, observed=np.arange(4.0))
    density, theta = PyMCDensity(model), np.random.default_rng(5).normal(size=(6, 4))
    logp = model.compile_logp()
    lp, gradient = density.log_density_gradient(theta)
    np.testing.assert_allclose(lp, [logp({"b": t}) for t in theta], rtol=EXACT)
    value = lambda t: density.log_density(t[None])[0]  # noqa: E731
    np.testing.assert_allclose(gradient[2], differences(value, theta[2]), rtol=1e-6)


def test_draws_go_one_after_another_where_the_data_are_long(monkeypatch):
    monkeypatch.setattr(pytensor_modes, "_compiles_c", lambda: True)
    theta = np.random.default_rng(6).normal(size=(5, 3))
    density = PyMCDensity(regression(), interpreted=False)
    truth = density.log_density_gradient(theta)
    assert density.rows_per_call > 1
    monkeypatch.setattr(pytensor_modes, "LONG", 4)
    density = PyMCDensity(regression(), interpreted=False)
    for own, other in zip(density.log_density_gradient(theta), truth, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(density.log_density(theta), truth[0], rtol=1e-12)
    assert density.rows_per_call == 1
    monkeypatch.setattr(pytensor_modes, "backend_asked_for", lambda: True)  # JAX for all, say
    density = PyMCDensity(regression(), interpreted=False)
    density.log_density(theta)
    assert density.rows_per_call > 1


def test_batches_of_long_data_are_of_all_draws_of_a_call(monkeypatch):
    monkeypatch.setattr(pytensor_modes, "_compiles_c", lambda: True)
    monkeypatch.setattr(pytensor_modes, "LONG", 4)
    y = np.random.default_rng(1).normal(2, 1, 500)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 10), 1, observed=pm.Minibatch(y, batch_size=50),
                  total_size=500)  # fmt: skip
    lp, _ = PyMCDensity(model, random_seed=1).log_density_gradient(np.full((3, 1), 2.0))
    assert lp[0] == lp[1] == lp[2]  # at one point: they would differ by batches of their own


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match=r"theta must have shape \(N, 3\), got \(2, 2\)"):
        PyMCDensity(regression()).log_density(np.zeros((2, 2)))


def test_threads_take_turns_in_the_compiled_function() -> None:
    """A sampler's thread with one point, and who evaluates its draws with many."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=3)
        pm.Normal("y", x.sum(), 1, observed=np.arange(50.0))
    density = PyMCDensity(model)
    points = np.random.default_rng(1).normal(size=(60, 3))
    truth = density.log_density_gradient(points)

    def evaluate(size: int) -> bool:
        same = True
        for first in range(0, 60, size):
            some = slice(first, first + size)
            found = density.log_density_gradient(points[some])
            same &= all(np.allclose(a, b[some]) for a, b in zip(found, truth, strict=True))
        return same

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(evaluate, [1, 60, 1, 20] * 10))


def test_a_determinant_for_each_draw_is_compiled() -> None:
    """PyTensor 2.38's own rewrite of log(det) fails on pm.LKJCorr in many rows."""
    with pm.Model() as model:
        pm.LKJCorr("r", n=3, eta=2)
    density, theta = PyMCDensity(model), np.random.default_rng(1).normal(size=(4, 3))
    (name,) = (v.name for v in model.value_vars)
    logp, dlogp = model.compile_logp(), model.compile_dlogp()
    lp, scores = density.log_density_gradient(theta)
    np.testing.assert_allclose(lp, [logp({name: t}) for t in theta], rtol=EXACT)
    np.testing.assert_allclose(scores, [dlogp({name: t}) for t in theta], rtol=1e-8)
