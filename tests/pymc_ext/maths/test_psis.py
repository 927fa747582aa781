"""Our PSIS against ArviZ's, and against a law whose tail index is known."""

import arviz as az
import numpy as np
import pytest

from pymc_ext.arviz_versions import OLD
from pymc_ext.maths.psis import generalised_pareto, psislw, tail_size
from tests.tolerances import EXACT


def arvizs(log_ratios):
    """Smoothed log weights and k̂ of ArviZ, its tail as long as ours.

    ArviZ 0.x rounds the length of the tail up: the relative efficiency that it is told makes that
    our length. ArviZ 1 takes log likelihoods, which are minus log ratios.
    """
    if OLD:
        reff = 9 * len(log_ratios) / (tail_size(len(log_ratios)) - 0.5) ** 2
        with np.errstate(over="ignore"):  # its weights of hopeless Pareto fits reach 0 as 1/inf
            return az.psislw(log_ratios.copy(), reff=reff)
    from arviz_stats.base import array_stats

    return array_stats.psislw(-log_ratios)


@pytest.mark.parametrize(
    ("n", "size"), [(24, 4), (100, 20), (224, 44), (225, 45), (226, 45), (500, 67), (4000, 189)]
)
def test_the_tail_is_as_long_as_in_the_paper(n, size):
    """⌊min(n/5, 3√n)⌋: Vehtari et al. (2024), appendix H."""
    assert tail_size(n) == size


def test_a_seed_means_the_same_khat_on_every_version():
    x = np.random.default_rng(500).standard_normal(500)
    assert psislw(x)[1] == pytest.approx(0.33437747, abs=1e-8)


@pytest.mark.parametrize("n", [102, 500, 4000, 20_000])
@pytest.mark.parametrize("scale", [1e-3, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("power", [1, 2])
def test_weights_and_khat_are_arvizs(n, scale, power):
    x = scale * np.random.default_rng(n).standard_normal(n) ** power
    ours, theirs = psislw(x), arvizs(x)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=EXACT)
    np.testing.assert_allclose(np.exp(ours[0]), np.exp(theirs[0]), rtol=1e-9, atol=1e-300)
    assert np.exp(ours[0]).sum() == pytest.approx(1, rel=EXACT)


def test_rows_are_smoothed_one_by_one_and_zero_weights_stay():
    x = np.random.default_rng(1).standard_normal((3, 400))
    x[1, :50] = -np.inf
    weights, khat = psislw(x)
    assert khat.shape == (3,) and (weights[1, :50] == -np.inf).all()
    np.testing.assert_array_equal(weights[2], psislw(x[2])[0])


def test_khat_is_the_tail_index():
    rng = np.random.default_rng(2)
    for k in (-0.3, 0.2, 0.6):
        excess = np.sort(np.expm1(-k * np.log(rng.uniform(size=20_000))) / k)
        shape, sigma = generalised_pareto(excess)
        assert shape == pytest.approx(k, abs=0.05) and sigma == pytest.approx(1, abs=0.05)


def test_constant_ratios_have_no_tail():
    weights, khat = psislw(np.zeros(1000))
    assert khat == np.inf
    np.testing.assert_allclose(weights, -np.log(1000), rtol=EXACT)


def test_a_tail_of_equal_ratios_is_no_pareto_distribution():
    x = np.random.default_rng(4).standard_normal(500)
    order = np.argsort(x)
    x[order[-67:-45]] = x[order[-67]]  # the smallest third of the tail
    weights, khat = psislw(x)
    assert khat == np.inf
    np.testing.assert_allclose(weights, x - np.logaddexp.reduce(x), rtol=EXACT)
    if not OLD:
        assert np.isnan(arvizs(x)[1])
