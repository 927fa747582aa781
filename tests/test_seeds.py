"""``random_seed`` is one thing at every door: None or an integer, refused in the same words."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
import stan_models
from pymc_ext.variational.gaussian.batch_match import BatchMatch

DENSITY = px.CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
WRONG = [  # what was given, and what is said of it
    (1.5, TypeError, "got 1.5: give an integer"),
    ("1", TypeError, "got '1': give an integer"),
    (True, TypeError, "got True: give an integer"),
    ([1, 2], TypeError, "got a list: give an integer"),
    (np.array(3), TypeError, "got a ndarray: give an integer"),
    (np.random.RandomState(1), TypeError, "got a RandomState: "),
    (-1, ValueError, "got -1: give one in this range"),
    (2**32, ValueError, "got 4294967296: give one in this range"),
]


def said_of(value: object) -> str:
    """An id without addresses."""
    return value if isinstance(value, str) else type(value).__name__


GENERATOR = (np.random.default_rng(1), TypeError, "got a Generator: ")


@pytest.fixture(scope="module")
def approx() -> pm.Approximation:
    with pm.Model():
        pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=[1.0, 2.0])
        return pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)


FITS: dict[str, Callable[[pm.Approximation, object], object]] = {
    "LaplaceVI": lambda q, seed: px.LaplaceVI(model=q.model, random_seed=seed),
    "BernsteinVI": lambda q, seed: px.BernsteinVI(model=q.model, random_seed=seed),
    "px.fit": lambda q, seed: px.fit("laplace", model=q.model, random_seed=seed),
    "Algorithm.fit": lambda q, seed: BatchMatch().fit(DENSITY, random_seed=seed),
    "px.sample": lambda q, seed: px.sample(q, random_seed=seed),
    "px.diagnose": lambda q, seed: px.diagnose(q, random_seed=seed),
    "bridge.fit": lambda q, seed: bridge.fit(q.model, random_seed=seed),
    "bridge.calibrate": lambda q, seed: bridge.calibrate(q.model, random_seed=seed),
    "stan_models.nuts": lambda q, seed: stan_models.nuts("no program", random_seed=seed),
}
DRAWS: dict[str, Callable[[pm.Approximation, object], object]] = {
    "sample": lambda q, seed: q.sample(4, random_seed=seed),
    "evaluate": lambda q, seed: q.evaluate(100, random_seed=seed),
    "weighted_draws": lambda q, seed: q.weighted_draws(4, random_seed=seed),
}


@pytest.mark.parametrize(("seed", "error", "said"), [*WRONG, GENERATOR], ids=said_of)
@pytest.mark.parametrize("door", FITS)
def test_a_fit_takes_none_or_an_integer(door, seed, error, said, approx) -> None:
    expected = "random_seed must be None or an integer from 0 to 2**32 - 1, " + said
    with pytest.raises(error, match=re.escape(expected)) as caught:
        FITS[door](approx, seed)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("seed", "error", "said"), WRONG, ids=said_of)
@pytest.mark.parametrize("door", DRAWS)
def test_draws_take_a_generator_too(door, seed, error, said, approx) -> None:
    allowed = "None, an integer from 0 to 2**32 - 1 or a numpy.random.Generator, "
    with pytest.raises(error, match=re.escape(f"random_seed must be {allowed}{said}")):
        DRAWS[door](approx, seed)
    for right in (None, 0, np.int64(3), 2**32 - 1, np.random.default_rng(1)):
        DRAWS[door](approx, right)


@pytest.mark.parametrize(("seed", "error", "said"), [*WRONG, GENERATOR], ids=said_of)
def test_each_seed_of_a_comparison_is_looked_at_before_any_run(seed, error, said, tmp_path) -> None:
    expected = "each of seeds must be None or an integer from 0 to 2**32 - 1, " + said
    with pytest.raises(error, match=re.escape(expected)):
        bridge.compare("two_successes-bernoulli_beta", "laplace", seeds=[1, seed], out=tmp_path)


@pytest.mark.parametrize("seeds", [2.5, "12", True])
def test_seeds_of_a_comparison_are_a_count_or_a_sequence(seeds, tmp_path) -> None:
    with pytest.raises(TypeError, match=r"how many \(1..n\) or a sequence of integers, got"):
        bridge.compare("two_successes-bernoulli_beta", "laplace", seeds=seeds, out=tmp_path)


def test_a_generator_is_told_what_to_give() -> None:
    with pytest.raises(TypeError, match=r"draw one from it, int\(rng.integers\(2\*\*32\)\)"):
        bridge.fit(DENSITY, random_seed=np.random.default_rng(1))
