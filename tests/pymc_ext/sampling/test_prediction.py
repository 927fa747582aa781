"""What chains are predicted to take, beside what they take in coordinates that are exact."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.density import CallableDensity
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.prediction import chain_gradients, in_words
from pymc_ext.sampling.run import sample
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from tests.pymc_ext.sampling.targets import Puppeteer


@pytest.mark.parametrize("dimension", [4, 10, 200])
def test_it_is_what_a_standard_normal_takes(dimension: int) -> None:
    """In one dimension less so: steps that reach across leave |x| as it was, and sds take more."""
    density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=dimension)
    q = DiagonalGaussian(np.zeros(dimension), np.ones(dimension))
    found = sample(density, q, Puppeteer(), Sampling(ess=400), seed=1, in_step=True)
    predicted = chain_gradients(dimension, 400, 1.0)
    assert found.trusted and predicted / 2 < found.gradient_evaluations < 2 * predicted


def test_what_makes_it_dearer() -> None:
    plain = chain_gradients(10, 400, 1.0)
    assert chain_gradients(160, 400, 1.0) == pytest.approx(2 * plain, abs=1)  # D^(1/4)
    assert chain_gradients(10, 800, 1.0) < 2 * plain  # the warm-up stays
    assert plain < chain_gradients(10, 400, 0.1) < chain_gradients(10, 400, 0.01)
    assert chain_gradients(10, 400, 1.0, kurtosis=2.0) == plain
    assert chain_gradients(10, 400, 1.0, kurtosis=9.0) > 1.5 * plain
    assert chain_gradients(10, 400, None) > 3 * plain  # no coordinates
    assert chain_gradients(10, 400, 0.0) == chain_gradients(10, 400, 1e-4)


def test_a_prediction_is_a_range_of_two_digits() -> None:
    assert in_words(22_608) == "roughly 23,000 to 230,000"
    assert in_words(950) == "roughly 950 to 9,500"
