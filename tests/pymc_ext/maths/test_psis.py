"""Our PSIS against ArviZ's, and against a law whose tail index is known."""

import numpy as np
import pytest

from pymc_ext.arviz_versions import arviz_psislw
from pymc_ext.maths.psis import generalised_pareto, psislw
from tests.tolerances import EXACT


@pytest.mark.parametrize("n", [100, 500, 4000, 20_000])
@pytest.mark.parametrize("scale", [1e-3, 0.2, 1.0, 3.0])
@pytest.mark.parametrize("power", [1, 2])
def test_weights_and_khat_are_arvizs(n, scale, power):
    x = scale * np.random.default_rng(n).standard_normal(n) ** power
    ours, theirs = psislw(x), arviz_psislw(x.copy())
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
