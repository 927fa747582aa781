import numpy as np
import pytest
from scipy import stats
from scipy.optimize import approx_fprime

import pymc_ext as px
from pymc_ext.variational.core.base import TRAIN, stream
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.gaussian.fixed_draws import FixedDrawsObjective, base_draws, overfits
from tests.pymc_ext.variational.targets import two_gaussians
from tests.tolerances import EXACT


def test_sobol_draws_have_exact_moments_and_a_normal_law():
    z = base_draws(1000, 5, "sobol", np.random.default_rng(1))
    assert z.shape == (1000, 5)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(z.T @ z / 1000, np.eye(5), atol=1e-12)
    assert stats.kstest(z.ravel(), "norm").statistic < 0.01  # far below the 0.02 of random draws


@pytest.mark.parametrize(("draws", "dim"), [(51, 50), (64, 50), (1024, 400)])
def test_few_draws_a_dimension_have_exact_moments_too(draws, dim):
    z = base_draws(draws, dim, "sobol", np.random.default_rng(1))
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(z.T @ z / draws, np.eye(dim), atol=1e-10)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3  # whitened Sobol points fail this


def test_fewer_draws_than_dimensions_are_centred_only():
    z = base_draws(32, 50, "sobol", np.random.default_rng(1))
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-13)
    assert np.linalg.norm(z.T @ z / 32 - np.eye(50)) > 1


def test_iid_draws_are_plain_normal_numbers():
    rng = lambda: stream(3, TRAIN)  # noqa: E731
    np.testing.assert_array_equal(base_draws(7, 2, "iid", rng()), rng().standard_normal((7, 2)))


@pytest.mark.parametrize(
    ("draws", "kind", "message"),
    [(1, "sobol", "draws must be an integer >= 2, got 1"), (8, "halton", "one of .*'halton'")],
)
def test_bad_base_draws(draws, kind, message):
    with pytest.raises(ValueError, match=message):
        base_draws(draws, 2, kind, np.random.default_rng(0))


@pytest.fixture(scope="module")
def objective():
    approx = px.MixedVI("lr", model=two_gaussians(), random_seed=1).approx
    return FixedDrawsObjective(approx, hessian_products=True)


def test_objective_is_the_mean_log_ratio_over_all_chunks(objective):
    rng = np.random.default_rng(2)
    x, z = 0.3 * rng.standard_normal(len(objective.x)), rng.standard_normal((2500, 2))
    value, _ = objective.value_and_gradient(x, z)
    group = objective.approx.group
    theta = group.symbolic_random.eval({group.symbolic_initial: z})
    expected = np.mean(objective.approx.log_q(theta) - objective.approx.log_p(theta))
    assert value == pytest.approx(expected, rel=EXACT)


def test_gradient_and_hessian_products_against_finite_differences(objective):
    rng = np.random.default_rng(4)
    x, z = 0.3 * rng.standard_normal(len(objective.x)), rng.standard_normal((50, 2))
    _, gradient = objective.value_and_gradient(x, z)
    numeric = approx_fprime(x, lambda t: objective.value_and_gradient(t, z)[0], 1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-6)
    direction, h = rng.standard_normal(len(x)), 1e-5
    ends = [objective.value_and_gradient(x + s * direction, z)[1] for s in (h, -h)]
    numeric = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(objective.hessian_product(x, direction, z), numeric, rtol=1e-5)


def test_overfits_needs_more_than_chance():
    fresh = FreshDraws(-10.0, 0.1, -9.9, 0.1, 100.0, 1000)
    assert overfits(-9.6, fresh) and not overfits(-9.75, fresh) and not overfits(-11.0, fresh)
