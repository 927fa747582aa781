"""Stochastic learning: exact gradients, the full batch as a special case, the same optimum."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.gp.minibatch import InducingGaussian, batch_terms
from pymc_ext.gp.sparse import SparsePrior
from tests.pymc_ext.gp.problems import observations, prior, solver_of, sparse
from tests.tolerances import NUMERIC


def test_one_full_batch_step_after_another_is_the_variational_fixed_point() -> None:
    X, m, _ = prior(9)
    likelihood, phi, y = observations("logit", X)
    inputs = sparse(X, m, X[:4])
    p, q = SparsePrior(*inputs), InducingGaussian.standard(4)
    for _ in range(60):
        terms = batch_terms(q, p, likelihood, y, phi, 9)
        q = terms.target
    solution = solver_of("cvi", likelihood).solve(y, phi, inputs)
    value = batch_terms(q, p, likelihood, y, phi, 9).value - q.divergence()
    assert value == pytest.approx(solution.value, rel=1e-9)
    np.testing.assert_allclose(q.factor()[1], solution.fixed_point.posterior.beta, rtol=1e-6)


def test_gradients_at_fixed_whitened_posterior_match_differences() -> None:
    X, m, _ = prior(9)
    likelihood, phi, y = observations("student-t", X)
    inputs = (phi, *sparse(X, m, X[:4] + 0.1))  # at Z in X residuals are at their limit 0
    rng = np.random.default_rng(0)
    A = rng.normal(size=(4, 4))
    q = InducingGaussian(rng.normal(size=4), np.eye(4) + A @ A.T)

    def value(inputs):
        return batch_terms(q, SparsePrior(*inputs[1:]), likelihood, y, inputs[0], 30).value

    bars = batch_terms(q, SparsePrior(*inputs[1:]), likelihood, y, phi, 30).bars
    for i, (x, bar) in enumerate(zip(inputs, bars, strict=True)):
        d, h = rng.uniform(0.5, 1, size=x.shape), 1e-5
        d = d + d.T if i == 2 else d
        up, down = ([*inputs[:i], x + s * h * d, *inputs[i + 1 :]] for s in (1, -1))
        assert np.sum(bar * d) == pytest.approx((value(up) - value(down)) / (2 * h), rel=NUMERIC)


@pytest.mark.slow
def test_minibatch_learning_comes_close_to_the_full_optimum() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    y = (np.sin(2 * X[:, 0]) + 0.3 * rng.logistic(size=400) > 0).astype(int)
    with pm.Model() as model:
        ls = pm.InverseGamma("ls", 3, 3)
        gp = px.gp.Approximate(
            cov_func=4 * pm.gp.cov.ExpQuad(2, ls=ls), likelihood=px.gp.BernoulliLogit(),
            rule=px.gp.CVI(rho=0.3),
        )  # fmt: skip
        gp.marginal_likelihood("y", X=X, y=y, Xu=X[:15])
        best = px.gp.fit_hyperparameters(gp)
        found = px.gp.fit_hyperparameters(
            gp, "minibatch", max_iterations=30, batch_size=100, learning_rate=0.02, random_seed=1
        )
    assert model is not None
    assert found.steps == 120 and len(found.trace) == 30
    assert best.objective - 0.5 < found.objective <= best.objective + 1e-6
    assert found.point["ls"] == pytest.approx(best.point["ls"], rel=0.1)


def test_minibatch_needs_inducing_inputs() -> None:
    with pm.Model():
        ls = pm.HalfNormal("ls", 1)
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.ExpQuad(1, ls=ls), likelihood=px.gp.BernoulliLogit()
        )
        gp.marginal_likelihood("y", X=np.zeros((2, 1)), y=[0, 1])
        with pytest.raises(ValueError, match="needs inducing inputs Xu"):
            px.gp.fit_hyperparameters(gp, "minibatch")


def test_minibatch_needs_one_latent() -> None:
    with pm.Model():
        gp = px.gp.Approximate(
            cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("ls", 1)),
            likelihood=px.gp.Categorical(3),
        )
        x = np.linspace(0, 1, 6)[:, None]
        gp.marginal_likelihood("y", X=x, y=np.arange(6) % 3, Xu=x[:2])
        message = r"likelihood of one latent, got Categorical\(3\) of 3: use 'l-bfgs' or 'alternat"
        with pytest.raises(ValueError, match=message):
            px.gp.fit_hyperparameters(gp, "minibatch")
