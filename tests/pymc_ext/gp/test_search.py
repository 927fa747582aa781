"""Bounds of the hyperparameter search, its walls, and what it refuses."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest

import pymc_ext as px


@pytest.fixture(autouse=True, scope="module")
def quick_compilation():
    """The graphs around our Ops are PyMC's own: compiling them to C takes ten times the tests."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


X = np.linspace(-2, 2, 9)[:, None]
LABELS = (X[:, 0] > 0.3).astype(int)


def with_mean(level, Xu=None, **kwargs):
    gp = px.gp.Approximate(
        cov_func=pm.gp.cov.ExpQuad(1, 0.5), mean_func=pm.gp.mean.Constant(level), **kwargs
    )
    gp.marginal_likelihood("y", X=X, y=LABELS, Xu=Xu)
    return gp


def fit(gp, **kwargs):
    return px.gp.fit_hyperparameters(gp, progressbar=False, **kwargs)


@pytest.mark.parametrize(
    ("pair", "found", "active"),
    [
        ((0.5, None), 0.5, True),
        ((None, -1.0), -1.0, True),
        ((0.5, 2.0), 0.5, True),
        ((None, 3.0), -0.2609, False),
    ],
)
def test_bounds_of_a_variable_with_an_upper_end_alone(pair, found, active) -> None:
    """Its unconstrained value falls as it grows."""
    with pm.Model():
        level = pm.TruncatedNormal("level", 0.0, 5.0, upper=3.0)
        gp = with_mean(level, likelihood=px.gp.BernoulliLogit())
        result = fit(gp, bounds={"level": pair})
    assert result.point["level"] == pytest.approx(found, abs=1e-3)
    assert bool(result.active_bounds) is active
    assert result.converged


@pytest.mark.parametrize("method", ["l-bfgs", "alternating", "minibatch"])
def test_an_edge_of_an_untransformed_prior_is_no_maximum(method: str) -> None:
    with pm.Model() as model:
        level = pm.Uniform("level", -2.0, -1.0, default_transform=None, initval=-1.5)
        inducing = X if method == "minibatch" else None
        gp = with_mean(level, Xu=inducing, likelihood=px.gp.BernoulliLogit())
        with pytest.raises(ValueError, match="log prior is -inf at the start: pass start="):
            fit(gp, start={"level": 0.5}, method=method)
        if method == "minibatch":
            with pytest.raises(px.gp.ConvergenceError, match=r"prior is -inf after \d+ steps"):
                fit(gp, method=method, learning_rate=0.1)
            return
        result = fit(gp, method=method)
    assert result.objective > model.compile_logp(jacobian=False)({"level": -1.5})
    assert result.point["level"] == pytest.approx(-1.0, abs=0.2)
    assert not result.converged
    assert "the log prior is -inf there" in result.stop_reason


def test_bounds_of_a_circular_variable() -> None:
    with pm.Model():
        gp = with_mean(pm.VonMises("angle", 0.0, 1.0), likelihood=px.gp.BernoulliLogit())
        bounds = {"angle": np.array([-1.0, 3.0])}
        result = fit(gp, start={"angle": 2.9}, bounds=bounds)
    assert result.converged
    assert -1.0 < result.point["angle"] < 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"level": 2.0}}, r"bounds of level must be a pair \(low, high\), got 2.0"),
        ({"bounds": {"level": (1, 2, 3)}}, r"must be a pair \(low, high\), got \(1, 2, 3\)"),
        ({"bounds": {"level": (2.0, 1.0)}}, "low < high"),
        ({"bounds": {"parts": (0.1, 0.9)}}, r"its entries depend on each other \(SimplexTransform"),
        ({"start": {"level": [1.0, 2.0]}}, r"level must have shape \(\), got \(2,\)"),
    ],
)
def test_bounds_and_starts_of_wrong_form_are_refused(options, message) -> None:
    with pm.Model():
        parts = pm.Dirichlet("parts", np.ones(2))
        gp = with_mean(pm.Normal("level") + parts[0], likelihood=px.gp.BernoulliLogit())
        with pytest.raises(ValueError, match=message):
            fit(gp, **options)


def test_models_that_it_cannot_search_are_refused() -> None:
    with pm.Model():
        gp = with_mean(1.0 * pm.Bernoulli("side", 0.5), likelihood=px.gp.BernoulliLogit())
        with pytest.raises(ValueError, match=r"side is discrete, .* use pm\.sample"):
            fit(gp)
    with pm.Model():
        inputs = pm.Normal("inputs", X, 1.0, shape=X.shape, initval=X)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.ExpQuad(1, 1.0), likelihood=px.gp.BernoulliLogit()
        )
        gp.marginal_likelihood("y", X=inputs, y=LABELS, Xu=X[::2])
        with pytest.raises(ValueError, match="takes rows of X, which here depends on inputs"):
            fit(gp, method="minibatch")


def test_single_precision_models_are_searched() -> None:
    with pytensor.config.change_flags(floatX="float32"), pm.Model():
        gp = with_mean(pm.Normal("level"), likelihood=px.gp.BernoulliLogit())
        found = fit(gp, bounds={"level": (-3.0, 3.0)}, start={"level": 0.5})
    with pm.Model():
        gp = with_mean(pm.Normal("level"), likelihood=px.gp.BernoulliLogit())
        expected = fit(gp)
    assert found.converged
    assert found.point["level"] == pytest.approx(expected.point["level"], abs=1e-4)
