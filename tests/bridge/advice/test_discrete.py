"""Discrete latents: who meets them says what to do; summed out, they are fitted and recovered."""

from __future__ import annotations

from importlib.metadata import version
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.stats import beta, binom, halfnorm, norm

import bridge
import pymc_ext as px
from pymc_ext import requirements
from pymc_ext.models import discrete
from tests.needed import needs
from tests.tolerances import monte_carlo

SITES, VISITS = 40, 4
POINTS = 60  # of each axis of the grids below
NEAR = 0.02  # of probabilities, in draws worth 400 and more whose probabilities have an sd of .1


@pytest.fixture(scope="module")
def outcomes() -> np.ndarray:
    """60 numbers of two kinds, a third of them of the upper one."""
    rng = np.random.default_rng(1)
    upper = rng.random(60) < 0.35
    return np.where(upper, rng.normal(2.5, 1, 60), rng.normal(-0.5, 1, 60))


@pytest.fixture(scope="module")
def seen() -> np.ndarray:
    """On how many of four visits an animal was seen at each site; absent at two fifths of them."""
    rng = np.random.default_rng(2)
    return rng.binomial(VISITS, 0.4 * (rng.random(SITES) < 0.6))


def mixture(y: np.ndarray) -> pm.Model:
    with pm.Model(coords={"row": np.arange(len(y))}) as model:
        share = pm.Beta("share", 2, 2)
        low = pm.Normal("low", 0, 3)
        gap = pm.HalfNormal("gap", 3)
        kind = pm.Bernoulli("kind", share, dims="row")
        pm.Normal("y", low + gap * kind, 1.0, observed=y, dims="row")
    return model


def occupancy(seen: np.ndarray) -> pm.Model:
    with pm.Model(coords={"site": np.arange(len(seen))}) as model:
        psi = pm.Beta("psi", 1, 1)
        p = pm.Beta("p", 1, 1)
        there = pm.Bernoulli("there", psi, dims="site")
        pm.Binomial("seen", VISITS, there * p, observed=seen, dims="site")
    return model


SENTENCE = (
    r"families need continuous parameters, got discrete free variables \['kind'\]: sum them out by "
    r"pymc_extras.marginalize\(model, \['kind'\]\)"
)


@pytest.mark.parametrize("family", ["laplace", "hierarchical", "bernstein", "basins"])
def test_families_name_the_variables_and_the_way_out(family, outcomes) -> None:
    with pytest.raises(ValueError, match=SENTENCE):
        px.fit(family, model=mixture(outcomes))


def test_the_logistic_families_do_too() -> None:
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1)
        kind = pm.Bernoulli("kind", 0.5)
        pm.Bernoulli("y", logit_p=beta + kind, observed=[0, 1])
    for family in ("viper", "jaakkola", "matching"):
        with pytest.raises(ValueError, match=SENTENCE):
            px.fit(family, model=model)


def test_missing_entries_of_counts_are_rows_to_leave_out() -> None:
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2, 1)
        with pytest.warns(pm.exceptions.ImputationWarning):
            pm.Poisson("y", rate, observed=np.ma.masked_values([3, -1, 2], -1))
    with pytest.raises(ValueError, match=r"leave out the rows in which \['y'\] are missing"):
        px.fit("laplace", model=model)
    with pytest.raises(ValueError, match=r"leave out the rows in which \['y'\] are missing"):
        bridge.pymc_target(model)


def test_a_target_says_the_same(outcomes) -> None:
    with pytest.raises(ValueError, match=SENTENCE):
        bridge.pymc_target(mixture(outcomes))


@pytest.mark.parametrize(
    ("pymc", "said"),
    [
        ("6.3.2", r"\(pip install pymc-extras\), or"),
        (
            "6.4.0",
            r"\(pip install .* 0\.15\.1 takes PyMC below 6\.4: pip .* in the place of 6\.4\.0\)",
        ),
    ],
)
def test_without_pymc_extras_the_sentence_says_how_to_get_it(monkeypatch, pymc, said) -> None:
    monkeypatch.setattr(discrete, "find_spec", lambda name: None)
    monkeypatch.setattr(requirements.metadata, "version", {"pymc": pymc}.__getitem__)
    with pm.Model() as model:
        pm.Bernoulli("kind", 0.5)
    with pytest.raises(ValueError, match=f"{SENTENCE} where they take finitely many values {said}"):
        discrete.refuse_discrete(model)


# ---------------------------------------------------------------- summed out by pymc-extras


@pytest.fixture(scope="module")
def pmx():
    return needs("pymc_extras")


def recovered(pmx, model: pm.Model, name: str) -> np.ndarray:
    """P(name = 1 | data) from the draws of `bridge.fit` on the model without it.

    The variable's own draws, independent given those, are coins of these probabilities: asserted.
    """
    summed = pmx.marginalize(model, [name])
    advice = bridge.fit(summed, random_seed=1, progressbar=False)
    assert advice.trusted
    found = px.recover_discrete(advice.idata, model=summed, random_seed=1)["posterior"]
    over = ("chain", "draw")
    given = np.exp(found[f"lp_{name}"])[..., 1]
    probability = given.mean(over).values
    errors = np.sqrt((given * (1 - given)).mean(over).values / given[..., 0].size)
    off = abs(found[name].mean(over).values - probability)
    assert all(o < monte_carlo(max(se, 1e-12)) for o, se in zip(off, errors, strict=True))
    return probability


def expected(log_p: np.ndarray, given: np.ndarray) -> np.ndarray:
    """The mean over grid points, log p (N,), of probabilities given each, (N, rows)."""
    weights = np.exp(log_p - log_p.max())
    return weights / weights.sum() @ given


def test_assignments_of_a_mixture_are_recovered(pmx, outcomes) -> None:
    axes = np.linspace(0.05, 0.8, POINTS), np.linspace(-1.6, 0.6, POINTS), np.linspace(1, 4.5, 60)
    share, low, gap = (x.ravel() for x in np.meshgrid(*axes))
    upper = np.log(share)[:, None] + norm.logpdf(outcomes, (low + gap)[:, None])
    lower = np.log1p(-share)[:, None] + norm.logpdf(outcomes, low[:, None])
    both = np.logaddexp(upper, lower)
    prior = np.log(share * (1 - share)) + norm.logpdf(low, 0, 3) + halfnorm.logpdf(gap, 0, 3)
    truth = expected(prior + both.sum(axis=1), np.exp(upper - both))
    assert np.all(abs(recovered(pmx, mixture(outcomes), "kind") - truth) < NEAR)


def test_presence_in_an_occupancy_model_is_recovered(pmx, seen) -> None:
    middle = (np.arange(4 * POINTS) + 0.5) / (4 * POINTS)
    psi, p = (x.ravel() for x in np.meshgrid(middle, middle))
    there = psi[:, None] * binom.pmf(seen, VISITS, p[:, None])
    both = there + (1 - psi)[:, None] * (seen == 0)
    truth = expected(np.log(both).sum(axis=1), there / both)
    assert 0.05 < truth.min() < 0.95 and truth.max() == pytest.approx(1)
    assert np.all(abs(recovered(pmx, occupancy(seen), "there") - truth) < NEAR)


@pytest.mark.slow
def test_a_hidden_markov_model_is_fitted_without_its_states(pmx) -> None:
    """Evidence and mean as of the forward algorithm."""
    P, steps = np.array([[0.9, 0.1], [0.2, 0.8]]), 30
    rng = np.random.default_rng(3)
    states = [0]
    for _ in range(steps - 1):
        states.append(rng.choice(2, p=P[states[-1]]))
    y = rng.normal(np.array([-1.0, 1.0])[states], 0.8)
    with pm.Model() as model:
        gap = pm.HalfNormal("gap", 2)
        start = pm.Categorical.dist([0.5, 0.5])
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start, shape=steps)
        pm.Normal("y", gap * (2 * state - 1), 0.8, observed=y)
    grid = np.linspace(0.005, 4, 800)
    likelihood = norm.pdf(y[:, None, None], np.stack([-grid, grid], axis=1), 0.8)
    forward, log_p = 0.5 * likelihood[0], halfnorm.logpdf(grid, scale=2)
    for each in likelihood[1:]:
        forward = (forward @ P) * each
    log_p += np.log(forward.sum(axis=1))
    advice = bridge.fit(pmx.marginalize(model, ["state"]), random_seed=1, progressbar=False)
    assert advice.trusted
    evidence, error = advice.log_evidence
    truth = np.log(np.trapezoid(np.exp(log_p), grid))
    assert abs(evidence - truth) < monte_carlo(max(error, 1e-3))
    mean = expected(log_p, grid[:, None])[0]
    assert abs(advice.idata["posterior"]["gap"].values.mean() - mean) < NEAR


def test_states_of_a_hidden_markov_model_are_recovered(pmx) -> None:
    """Against the sum over all paths, at each point of a grid of the parameters."""
    steps = 8
    y = np.array([-1.1, -0.4, 0.9, 1.3, 0.2, -0.1, -0.9, 0.4])
    with pm.Model() as model:
        gap = pm.HalfNormal("gap", 2)
        stay = pm.Beta("stay", 4, 2)
        P = pm.math.stack([[stay, 1 - stay], [1 - stay, stay]])
        start = pm.Categorical.dist([0.5, 0.5])
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start, shape=steps)
        pm.Normal("y", gap * (2 * state - 1), 0.8, observed=y)
    paths = np.array(list(product((0, 1), repeat=steps)))
    axes = (np.arange(80) + 0.5) / 20, (np.arange(80) + 0.5) / 80
    gaps, stays = (x.ravel() for x in np.meshgrid(*axes))
    moves = np.sum(paths[:, 1:] != paths[:, :-1], axis=1)
    emitted = norm.logpdf(y, gaps[:, None, None] * (2 * paths - 1), 0.8).sum(axis=-1)
    jumps = np.multiply.outer(np.log1p(-stays), moves)
    log_p = emitted + jumps + np.multiply.outer(np.log(stays), steps - 1 - moves)
    log_p += (halfnorm.logpdf(gaps, scale=2) + beta.logpdf(stays, 4, 2))[:, None]
    p = np.exp(log_p - log_p.max()).sum(axis=0)
    truth = p @ paths / p.sum()
    assert np.ptp(truth) > 0.5
    assert np.all(abs(recovered(pmx, model, "state") - truth) < NEAR)


def test_families_fit_what_is_left(pmx, seen) -> None:
    summed = pmx.marginalize(occupancy(seen), ["there"])
    idata = px.fit("batch-match", model=summed, random_seed=1, progressbar=False)
    assert np.isfinite(idata["posterior"].attrs["elbo"])
    assert set(idata["posterior"].data_vars) == {"psi", "p"}


def test_a_chain_of_unknown_length_is_said_to_be_one(pmx) -> None:
    with pm.Model(coords={"day": np.arange(3)}) as model:
        mu = pm.Normal("mu", 0, 1)
        P, start = np.full((2, 2), 0.5), pm.Categorical.dist([0.5, 0.5])
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start, dims="day")
        pm.Normal("y", mu * state, 1, observed=[0.0, 1.0, 2.0], dims="day")
    summed = pmx.marginalize(model, ["state"])
    if version("pymc-extras") >= "0.15":
        pytest.skip("pymc-extras from 0.15 on takes symbolic lengths")
    for fit in (bridge.fit, lambda model: px.fit("laplace", model=model)):
        with pytest.raises(ValueError, match=r"length of a DiscreteMarkovChain.*freeze the model"):
            fit(summed)
