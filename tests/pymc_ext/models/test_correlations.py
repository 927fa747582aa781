"""Log scales and correlations for coordinates of an LKJ prior: the same posterior."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bridge
from bridge.methods.problems import as_problem
from bridge.targets.pymc import pymc_target
from pymc_ext.models.correlations import with_correlations


def prior(n: int) -> pm.Model:
    with pm.Model(coords={"effect": range(n), "group": range(4)}) as model:
        sds = pm.Exponential.dist(1.5, shape=n)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=n, eta=2, sd_dist=sds)
        pm.MvNormal("b", 0, chol=chol, dims=("group", "effect"))
        pm.HalfNormal("sigma")
    return model


@pytest.mark.parametrize("n", [2, 3])
def test_the_density_is_pymcs_with_the_jacobian_of_the_change(n) -> None:
    """By finite differences; there and back again; the same factor, sds and correlations."""
    model = prior(n)
    changed = with_correlations(model)
    theirs, ours = pymc_target(model), pymc_target(changed)
    rng = np.random.default_rng(n)
    theta = 0.7 * rng.standard_normal((5, ours.dimension))
    values = ours.constrain(theta)
    free = {rv.name: values[rv.name] for rv in model.free_RVs}
    np.testing.assert_allclose(ours.unconstrain(free), theta, atol=1e-9)
    own = theirs.unconstrain(free)
    same = theirs.constrain(own)
    for name in ("chol", "chol_corr", "chol_stds", "sigma"):
        np.testing.assert_allclose(same[name], values[name], atol=1e-9)
    size, h = n * (n + 1) // 2, 1e-6
    for k, at in enumerate(theta):
        steps = np.eye(size, len(at)) * h
        moved = ours.constrain(np.vstack([at + steps, at - steps]))
        ends = theirs.unconstrain({rv.name: moved[rv.name] for rv in model.free_RVs})[:, :size]
        jacobian = (ends[:size] - ends[size:]) / (2 * h)
        expected = theirs.log_density(own[k : k + 1])[0] + np.linalg.slogdet(jacobian)[1]
        assert ours.log_density(at[None])[0] == pytest.approx(expected, abs=1e-6)


def test_its_coordinates_have_names_of_their_own() -> None:
    names = pymc_target(with_correlations(prior(3))).density.unconstrained_names
    assert names[:2] == [
        "chol_sds-and-correlations__[log sd 0]",
        "chol_sds-and-correlations__[log sd 1]",
    ]
    assert "chol_sds-and-correlations__[correlation 2, 1]" in names


def test_a_model_that_it_does_not_serve_stays_what_it_is() -> None:
    """One without such a prior, of one row, with a start of its own, within another."""
    with pm.Model() as none:
        pm.Normal("x")
    assert with_correlations(none) is none
    one = prior(1)
    assert with_correlations(one) is one
    with pm.Model() as started:
        pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.Exponential.dist(1, shape=2))
        pm.Normal("x", initval=1.0)
    assert with_correlations(started) is started
    with pm.Model(), pm.Model("inner") as inner:
        pm.LKJCholeskyCov("c", n=2, eta=2, sd_dist=pm.Exponential.dist(1, shape=2))
    assert with_correlations(inner) is inner


def test_bridge_fit_has_the_draws_that_the_users_model_has() -> None:
    """The sds' prior is exponential, (r + 1) / 2 ~ Beta(2, 2)."""
    with pm.Model(coords={"effect": ["a", "b"]}) as model:
        pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=pm.Exponential.dist(1.0, shape=2))
        pm.Normal("x", 0, 1, dims="effect")
    problem = as_problem(model, None)
    assert problem.model.value_vars[0].name == "chol_sds-and-correlations__"
    assert model.value_vars[0].name == "chol_cholesky-cov-packed__"
    answer = bridge.fit(model, random_seed=1, progressbar=False)
    posterior = answer.idata["posterior"]
    assert answer.trusted and list(posterior["x"].coords["effect"].values) == ["a", "b"]
    sds = posterior["chol_stds"].to_numpy().reshape(-1, 2)
    r = posterior["chol_corr"].to_numpy().reshape(-1, 2, 2)[:, 0, 1]
    draws = len(r)
    assert np.all(np.abs(sds.mean(axis=0) - 1) < 5 / np.sqrt(draws / 2))
    assert abs(r.mean()) < 5 * np.sqrt(0.2 / (draws / 2))
    assert r.var() == pytest.approx(0.2, rel=0.1)  # 4 times 1/20
