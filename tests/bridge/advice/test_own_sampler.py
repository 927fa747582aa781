"""Draws of a model's own sampler, and what is held against them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bridge
from bridge.advice.own_sampler import OwnDraws, own_draws
from stan_models import StanDensity
from stan_models.inference_data import make_inference_data

ESS = 400


def doubts_of_nuts(idata, labels=None):
    return OwnDraws(idata, labels).doubts(ESS)


def chains(apart: float, diverging: float = 0.0):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((4, 500)) + apart * np.array([[0], [0], [0], [1]])
    bad = rng.random((4, 500)) < diverging
    dims = ("chain", "draw")
    coords = {"chain": np.arange(4), "draw": np.arange(500)}
    return make_inference_data(
        {
            "posterior": xr.Dataset({"x": (dims, x)}, coords=coords),
            "sample_stats": xr.Dataset({"diverging": (dims, bad)}, coords=coords),
        }
    )


@pytest.mark.parametrize(
    ("apart", "diverging", "doubt"),
    [(3.0, 0.0, "the chains disagree about x"), (0.0, 0.1, "transitions diverged")],
)
def test_nuts_that_did_not_mix_is_doubted(apart, diverging, doubt) -> None:
    assert any(doubt in text for text in doubts_of_nuts(chains(apart, diverging)))


def test_nuts_that_mixed_is_not_doubted() -> None:
    assert doubts_of_nuts(chains(0.0)) == ()


@pytest.mark.parametrize(("labels", "named"), [(None, "x[1]"), (StanDensity.labels, "x[2]")])
def test_doubts_name_elements_as_the_program_does(labels, named) -> None:
    x = np.random.default_rng(1).standard_normal((4, 500, 2))
    x[3, :, 1] += 3
    found = make_inference_data({"posterior": xr.Dataset({"x": (("chain", "draw", "i"), x)})})
    assert doubts_of_nuts(found, labels)[0].startswith(f"the chains disagree about {named}: ")


def test_generated_quantities_raise_no_doubt() -> None:
    found = chains(0.0)
    found["posterior"]["rare"] = 10 * chains(3.0)["posterior"]["x"]
    assert any("rare" in doubt for doubt in doubts_of_nuts(found))
    found["posterior"].attrs["generated_quantities"] = '["rare"]'
    assert doubts_of_nuts(found) == ()


def rare(length: int) -> xr.Dataset:
    """Independent draws of a variable that is one in a hundred."""
    ones = np.random.default_rng(1).random((4, length)) < 0.01
    return xr.Dataset({"k": (("chain", "draw"), ones.astype(int))})


def test_the_sd_of_a_rare_whole_number_is_not_asked_for() -> None:
    posterior = rare(1000)
    assert doubts_of_nuts(make_inference_data({"posterior": posterior})) == ()
    as_real = make_inference_data({"posterior": posterior.astype(float)})
    assert "the sd of k is known to" in doubts_of_nuts(as_real)[0]


def test_whole_numbers_are_held_to_the_ess_that_is_asked_for() -> None:
    doubt = doubts_of_nuts(make_inference_data({"posterior": rare(1000).isel(draw=slice(50))}))[0]
    assert "effective draws of k, of the 400 asked for" in doubt


class Walk:
    """A sampler whose draws, of a normal, are correlated by .9; it notes how many are asked for."""

    def __init__(self, apart: float = 0.0, most: int = 10**9) -> None:
        self.apart, self.most, self.asked = apart, most, list[int]()

    def nuts(self, draws, seed, progressbar):
        self.asked.append(draws)
        draws = min(draws, self.most)
        rng = np.random.default_rng(seed)
        x = np.empty((4, draws // 4))
        x[:, 0] = rng.standard_normal(4)
        for i in range(1, x.shape[1]):
            x[:, i] = 0.9 * x[:, i - 1] + np.sqrt(1 - 0.81) * rng.standard_normal(4)
        x[0] += self.apart
        drawn = xr.Dataset({"x": (("chain", "draw"), x)}, attrs={"gradient_evaluations": draws})
        return make_inference_data({"posterior": drawn})


def test_chains_that_are_short_are_made_longer() -> None:
    walk = Walk()
    found = own_draws(walk, 4000, ESS, 1, False)
    assert found.gradients == sum(walk.asked)
    assert len(walk.asked) == 2 and 1.5 * 4000 < walk.asked[1] < 12 * 4000
    assert found.doubts(ESS) == () and found.idata["posterior"].sizes["draw"] * 4 > 4000


def test_no_chains_are_made_again_that_were_ended() -> None:
    """By Ctrl-C, which PyMC takes as their end."""
    walk = Walk(most=3000)
    assert own_draws(walk, 4000, ESS, 1, False).idata["posterior"].sizes["draw"] == 750
    assert walk.asked == [4000]


@pytest.mark.parametrize(("draws", "apart"), [(16_000, 0.0), (4000, 5.0), (200, 0.0)])
def test_no_chains_are_made_again_where_they_serve_or_nothing_would(draws, apart) -> None:
    """Enough, apart, and too short to say how many more it would take."""
    walk = Walk(apart)
    own_draws(walk, draws, ESS, 1, False)
    assert walk.asked == [draws]


def test_a_population_is_sampled_until_it_is_known() -> None:
    """Whose first thousand draws a chain are worth 170."""
    with pm.Model() as model:
        animals = pm.Poisson("animals", 50)
        caught = pm.Beta("caught", 5, 5)
        pm.Binomial("y", animals, caught, observed=[20, 25, 22])
    answer = bridge.fit(model, random_seed=1, progressbar=False)
    draws = answer.idata["posterior"]
    assert answer.trusted and draws.sizes["draw"] > 1000
    assert "gradient_evaluations" not in draws.attrs  # nobody has counted them
    assert OwnDraws(answer.idata).diagnostics[-1].ess >= ESS


@pytest.mark.parametrize(
    ("apart", "draws", "says"), [(0.0, 600, "draws="), (5.0, 4000, "compare the chains")]
)
def test_what_would_serve_is_said(apart, draws, says) -> None:
    found = own_draws(Walk(apart), draws, ESS, 1, False)
    assert says in found.advice(ESS)
    assert own_draws(Walk(), 16_000, ESS, 1, False).advice(ESS) is None
