"""Hidden variables at fixed parameters, against the sum over all their values; refusals."""

from __future__ import annotations

import sys
from itertools import product
from types import ModuleType

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from pymc_ext.arviz_versions import from_groups
from pymc_ext.models.discrete import refuse_inexact_sums
from tests.needed import needs
from tests.tolerances import EXACT, monte_carlo

DRAWS = 4000  # in two chains, all at the same parameters
Y = np.array([-0.8, 0.3, 1.4, 0.9, -0.2, 2.1])


@pytest.fixture(scope="module")
def pmx() -> ModuleType:
    return needs("pymc_extras")


def start(pmx: ModuleType, states: int):
    return pm.Categorical.dist(np.arange(1, states + 1) / np.sum(np.arange(1, states + 1)))


def hidden_markov(pmx) -> tuple[pm.Model, dict, dict]:
    """Model, parameters, and the number of values of what is hidden."""
    with pm.Model(coords={"year": 2000 + np.arange(6)}) as model:
        P = pm.Dirichlet("P", np.ones((3, 3)))
        mu = pm.Normal("mu", 0, 2, shape=3)
        sigma = pm.HalfNormal("sigma", 1)
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start(pmx, 3), dims="year")
        pm.Normal("y", mu[state], sigma, observed=Y, dims="year")
    P = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.1, 0.5, 0.4]])
    return model, {"P": P, "mu": np.array([-1.0, 0.5, 2.0]), "sigma": np.array(0.9)}, {"state": 3}


def chains_with_initial_law(pmx) -> tuple[pm.Model, dict, dict]:
    """Two chains side by side, of which the initial law is a parameter, with two emissions."""
    with pm.Model() as model:
        first = pm.Beta("first", 1, 1)
        stay = pm.Beta("stay", 1, 1)
        P = pm.math.stack([[stay, 1 - stay], [0.3, 0.7]])
        initial = pm.Categorical.dist(pm.math.stack([first, 1 - first]))
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=initial, shape=(2, 4))
        pm.Normal(
            "y", 2.0 * state.T[..., None], 1, observed=np.arange(24).reshape(4, 2, 3) % 5 - 1.0
        )
        pm.Poisson("n", 1.0 + state, observed=np.arange(8).reshape(2, 4) % 3)
    return model, {"first": np.array(0.3), "stay": np.array(0.8)}, {"state": 2}


def mixture(pmx) -> tuple[pm.Model, dict, dict]:
    """Each entry has a kind and, of itself, one of two scales."""
    with pm.Model() as model:
        share = pm.Dirichlet("share", np.ones(3))
        kind = pm.Categorical("kind", share, shape=4)
        broad = pm.Bernoulli("broad", 0.3, shape=4)
        pm.Normal("y", 2.0 * (kind - 1), 1.0 + broad, observed=Y[:4])
    return model, {"share": np.array([0.5, 0.2, 0.3])}, {"kind": 3, "broad": 2}


def level_of_all(pmx) -> tuple[pm.Model, dict, dict]:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        level = pm.DiscreteUniform("level", -1, 2)
        pm.Normal("y", level, scale, observed=Y)
    return model, {"scale": np.array(2.0)}, {"level": (-1, 0, 1, 2)}


def kinds_in_chain(pmx) -> tuple[pm.Model, dict, dict]:
    """An emission depends on the chain's state and on an indicator of each step's own."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        outlier = pm.Bernoulli("outlier", 0.3, shape=5)
        P = np.array([[0.9, 0.1], [0.2, 0.8]])
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start(pmx, 2), shape=5)
        pm.Normal("y", mu * state, 1 + 3.0 * outlier, observed=Y[:5] + 4 * (np.arange(5) == 3))
    return model, {"mu": np.array(2.0)}, {"state": 2, "outlier": 2}


def regime_of_chain(pmx) -> tuple[pm.Model, dict, dict]:
    """Transitions and emissions of a chain depend on an indicator."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        slow = pm.Bernoulli("slow", 0.4)
        P = pm.math.switch(slow, np.array([[0.9, 0.1], [0.2, 0.8]]), np.full((2, 2), 0.5))
        state = pmx.DiscreteMarkovChain("state", P=P, init_dist=start(pmx, 2), shape=6)
        pm.Normal("y", mu * state + 0.5 * slow, 1, observed=Y)
    return model, {"mu": np.array(2.0)}, {"slow": 2, "state": 2}


def hidden_level(pmx) -> tuple[pm.Model, dict, dict]:
    """What depends on the chain is no data but a variable, on a bounded space."""
    with pm.Model() as model:
        state = pmx.DiscreteMarkovChain(
            "state", P=np.array([[0.9, 0.1], [0.2, 0.8]]), init_dist=start(pmx, 2), shape=4
        )
        rate = pm.Gamma("rate", 1.0 + 3 * state, 1)
        pm.Poisson("n", rate, observed=[0, 2, 5, 3])
    return model, {"rate": np.array([0.4, 1.9, 4.1, 3.0])}, {"state": 2}


MODELS = [
    hidden_markov,
    chains_with_initial_law,
    mixture,
    level_of_all,
    kinds_in_chain,
    regime_of_chain,
    hidden_level,
]


def at(values: dict) -> object:
    """Draws that are all the same."""
    return from_groups(
        {"posterior": {k: np.broadcast_to(v, (2, DRAWS // 2, *v.shape)) for k, v in values.items()}}
    )


def enumerated(model: pm.Model, values: dict, domains: dict) -> tuple[dict, np.ndarray]:
    """All values of the hidden variables, (M, *shape) each, and their probabilities (M,)."""
    plain = pm.model.transform.conditioning.remove_value_transforms(model)
    logp, shapes = plain.compile_logp(), plain.eval_rv_shapes()
    each = [
        np.array(
            list(product(range(k) if isinstance(k, int) else k, repeat=int(np.prod(shapes[n]))))
        )
        for n, k in domains.items()
    ]
    rows = [np.concatenate(parts) for parts in product(*each)]
    ends = np.cumsum([part.shape[1] for part in each])[:-1]
    tables = dict(zip(domains, np.split(np.array(rows), ends, axis=1), strict=True))
    table = {n: t.reshape(-1, *map(int, shapes[n])) for n, t in tables.items()}
    log_p = np.array(
        [logp({**values, **{n: t[i] for n, t in table.items()}}) for i in range(len(rows))]
    )
    p = np.exp(log_p - log_p.max())
    return table, p / p.sum()


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_probabilities_and_draws_are_those_of_all_values(pmx, make) -> None:
    model, values, domains = make(pmx)
    table, p = enumerated(model, values, domains)
    summed = model
    for name in reversed(domains):
        summed = pmx.marginalize(summed, [name])
    idata = px.recover_discrete(at(values), model=summed, random_seed=1)
    found = idata["posterior"]
    drawn = {n: found[n].values.reshape(DRAWS, -1) for n in domains}
    for name in domains:
        log_p = found[f"lp_{name}"].values.reshape(DRAWS, *found[f"lp_{name}"].shape[2:])
        for place, value in enumerate(found[f"lp_{name}_dim"].values):
            truth = np.tensordot(p, table[name] == value, axes=1)
            each = np.exp(log_p[..., place])
            if len(domains) == 1:
                np.testing.assert_allclose(each, np.broadcast_to(truth, each.shape), rtol=EXACT)
            error = monte_carlo(0.5 / np.sqrt(DRAWS))  # an sd is .5 at most
            assert np.all(abs(each.mean(axis=0) - truth) < error)
            assert np.all(abs((found[name].values == value).mean(axis=(0, 1)) - truth) < error)
    # jointly: the frequencies of all values together
    both = np.concatenate([drawn[n] for n in domains], axis=1)
    rows = np.concatenate([table[n].reshape(len(p), -1) for n in domains], axis=1)
    place = {tuple(row): i for i, row in enumerate(rows)}
    counts = np.bincount([place[tuple(row)] for row in both], minlength=len(p))
    expected = DRAWS * p
    often = expected > 5
    chi2 = np.sum((counts - expected)[often] ** 2 / expected[often])
    df = often.sum() - 1
    assert abs(chi2 - df) < monte_carlo(np.sqrt(2 * df)) + 5
    assert abs(counts[~often].sum() - expected[~often].sum()) < monte_carlo(np.sqrt(DRAWS) / 2)


def test_a_sum_that_is_not_exact_is_refused(pmx) -> None:
    """pymc-extras 0.10 sums indicators of steps after their chain, as if it did not couple them."""
    model, values, _ = kinds_in_chain(pmx)
    wrong = pmx.marginalize(pmx.marginalize(model, ["state"]), ["outlier"])
    with pytest.raises(
        ValueError, match=r"sum over 'outlier' must be exact.*\['state'\] summed out"
    ):
        px.recover_discrete(at(values), model=wrong, random_seed=1)
    for door in (lambda: bridge.fit(wrong), lambda: px.LaplaceVI(model=wrong)):
        with pytest.raises(
            ValueError, match=r"'outlier' must be exact.*another model: sum 'outlier' out before"
        ):
            door()


def test_exact_sums_within_sums_pass_every_door(pmx, caplog) -> None:
    model, _, domains = kinds_in_chain(pmx)
    right = pmx.marginalize(pmx.marginalize(model, ["outlier"]), ["state"])
    refuse_inexact_sums(right)
    assert set(domains) == {"outlier", "state"} and not caplog.records


def occupancy() -> pm.Model:
    with pm.Model(coords={"site": ["a", "b", "c"]}) as model:
        p = pm.Beta("p", 1, 1)
        there = pm.Bernoulli("there", 0.5, dims="site")
        pm.Binomial("seen", 4, there * p, observed=[0, 3, 1], dims="site")
    return model


def test_dims_and_coords_are_the_users(pmx) -> None:
    model, values, _ = hidden_markov(pmx)
    summed = pmx.marginalize(model, ["state"])
    idata = at(values)
    assert px.recover_discrete(idata, model=summed, random_seed=1) is idata
    found = idata["posterior"]
    assert found["state"].dims == ("chain", "draw", "year")
    assert found["lp_state"].dims == ("chain", "draw", "year", "lp_state_dim")
    assert found["year"].values.tolist() == [2000 + i for i in range(6)]
    assert {"P", "mu", "sigma"} < set(found.data_vars)


def test_a_seed_gives_the_same_draws_and_a_second_call_replaces_them(pmx) -> None:
    summed = pmx.marginalize(occupancy(), ["there"])
    idata = at({"p": np.array(0.3)})

    def drawn(seed) -> np.ndarray:
        with summed:
            px.recover_discrete(idata, random_seed=seed)
        return idata["posterior"]["there"].values

    first = drawn(1)
    assert np.array_equal(first, drawn(np.random.default_rng(1)))
    assert not np.array_equal(first, drawn(2))


def test_draws_in_blocks_are_all_drawn(pmx, monkeypatch) -> None:
    monkeypatch.setattr("pymc_ext.models.recover.NUMBERS", 1000)
    summed = pmx.marginalize(occupancy(), ["there"])
    p = np.linspace(0.1, 0.9, 4000).reshape(4, 1000)
    idata = px.recover_discrete(from_groups({"posterior": {"p": p}}), model=summed, random_seed=1)
    truth = (1 - p) ** 4 / ((1 - p) ** 4 + 1)
    found = np.exp(idata["posterior"]["lp_there"].values[..., 0, 1])
    np.testing.assert_allclose(found, truth, rtol=EXACT)


def test_a_model_that_predictions_were_drawn_from_counts_its_data_once(pmx) -> None:
    summed = pmx.marginalize(occupancy(), ["there"])
    summed.observed_RVs.append(summed.observed_RVs[0])  # as PyMC 5.28 leaves it
    idata = px.recover_discrete(at({"p": np.array(0.3)}), model=summed, random_seed=1)
    found = np.exp(idata["posterior"]["lp_there"].values[..., 0, 1])
    np.testing.assert_allclose(found, 0.7**4 / (0.7**4 + 1), rtol=EXACT)
    assert len(summed.observed_RVs) == 1


def test_what_is_no_fit_of_the_model_is_refused(pmx) -> None:
    full = occupancy()
    summed = pmx.marginalize(full, ["there"])
    good = at({"p": np.array(0.3)})
    cases = [
        (
            good,
            full,
            ValueError,
            r"summed out variables, got one whose .*\['there'\] are free: give",
        ),
        (
            at({"q": np.array(0.3)}),
            summed,
            ValueError,
            r"all variables \['p'\], got none of \['p'\]",
        ),
        (at({"p": np.zeros(2)}), summed, ValueError, r"'p' must have the shape \(\).*got \(2,\)"),
        (
            at({"p": np.array(0.0)}),
            summed,
            ValueError,
            r"'there' must be possible.*under 4000 of 4000",
        ),
        (
            from_groups({"prior": {"p": np.zeros((1, 3))}}),
            summed,
            TypeError,
            "with a group posterior",
        ),
        (None, summed, TypeError, "got NoneType: give the draws of a fit"),
        (good, None, TypeError, "no model: pass model="),
    ]
    for idata, model, kind, message in cases:
        with pytest.raises(kind, match=message):
            px.recover_discrete(idata, model=model)
    with pytest.raises(TypeError, match="random_seed must be None, an integer"):
        px.recover_discrete(good, model=summed, random_seed="1")


def test_a_chain_of_two_lags_is_refused(pmx) -> None:
    from pymc_ext.models.hidden import HiddenVariable

    with pm.Model() as model:
        P = np.full((2, 2, 2), 0.5)
        pmx.DiscreteMarkovChain("state", P=P, init_dist=start(pmx, 2), shape=6, n_lags=2)
    with pytest.raises(ValueError, match=r"'state' must be a Markov chain of one lag.*n_lags=2"):
        HiddenVariable.of(model, "state", [], {})


def test_without_pymc_extras_it_says_what_to_install(monkeypatch) -> None:
    for name in ("pymc_extras_versions", "models.hidden", "models.summed_out"):
        monkeypatch.delitem(sys.modules, f"pymc_ext.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "pymc_extras", None)
    with pytest.raises(ImportError, match="by pymc-extras, which is not installed: pip install"):
        px.recover_discrete(at({"p": np.array(0.3)}), model=occupancy())
