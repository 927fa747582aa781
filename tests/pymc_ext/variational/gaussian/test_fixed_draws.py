import numpy as np
import pytest
from scipy import stats

from pymc_ext.density import CountedDensity, PyMCDensity
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.elbo.fixed_draws import overfits
from pymc_ext.variational.elbo.normals import fixed_normals
from pymc_ext.variational.elbo.objective import DrawsObjective
from pymc_ext.variational.gaussian.mixed import make_noise
from pymc_ext.variational.gaussian.mixture import WhitenedMixture
from pymc_ext.variational.gaussian.noise import LowRank, NoNoise, Scales, Triangle
from pymc_ext.variational.gaussian.whitened import WhitenedDiagonal, WhitenedGaussian
from tests.pymc_ext.variational.targets import two_gaussians
from tests.tolerances import EXACT


def test_sobol_draws_have_exact_moments_and_a_normal_law():
    z = fixed_normals(1000, 5, "sobol", np.random.default_rng(1))
    assert z.shape == (1000, 5)
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-13)
    np.testing.assert_allclose(z.T @ z / 1000, np.eye(5), atol=1e-12)
    assert stats.kstest(z.ravel(), "norm").statistic < 0.01  # far below the 0.02 of random draws


@pytest.mark.parametrize(("draws", "dim"), [(51, 50), (64, 50), (1024, 400)])
def test_few_draws_a_dimension_have_exact_moments_too(draws, dim):
    z = fixed_normals(draws, dim, "sobol", np.random.default_rng(1))
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(z.T @ z / draws, np.eye(dim), atol=1e-10)
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3  # whitened Sobol points fail this


def test_fewer_draws_than_dimensions_are_centred_only():
    z = fixed_normals(32, 50, "sobol", np.random.default_rng(1))
    np.testing.assert_allclose(z.mean(0), 0, atol=1e-13)
    assert np.linalg.norm(z.T @ z / 32 - np.eye(50)) > 1


def test_iid_draws_are_plain_normal_numbers():
    rng = lambda: stream(3, Purpose.TRAIN)  # noqa: E731
    np.testing.assert_array_equal(fixed_normals(7, 2, "iid", rng()), rng().standard_normal((7, 2)))


@pytest.mark.parametrize(
    ("draws", "kind", "message"),
    [(1, "sobol", "draws must be an integer >= 2, got 1"), (8, "halton", "one of .*'halton'")],
)
def test_bad_normals(draws, kind, message):
    with pytest.raises(ValueError, match=message):
        fixed_normals(draws, 2, kind, np.random.default_rng(0))


FAMILIES = {
    "mu": lambda: WhitenedGaussian(NoNoise(2), np.zeros(2)),
    "eig": lambda: WhitenedGaussian(Scales(2), np.zeros(2)),
    "lr": lambda: WhitenedGaussian(LowRank(2, 1), np.zeros(2)),
    "full": lambda: WhitenedGaussian(Triangle(2), np.zeros(2)),
    "diagonal": lambda: WhitenedDiagonal(Scales(2), np.zeros(2)),
    "mixture": lambda: mixture("eig"),
    "mixture-lr": lambda: mixture("lr"),
}


def mixture(variant):
    rng = np.random.default_rng(3)
    parts = [WhitenedGaussian(make_noise(variant, 2), c) for c in ([-1.0, 0.0], [1.5, 0.5])]
    for part in parts:
        root = np.eye(2) + 0.3 * rng.normal(size=(2, 2))
        part.set_base(part.center, root, np.linalg.inv(root))
    return WhitenedMixture(parts, np.array([0.2, -0.4]))


@pytest.fixture(scope="module")
def density():
    return CountedDensity(PyMCDensity(two_gaussians()))


@pytest.fixture(params=list(FAMILIES))
def objective(request, density):
    family = FAMILIES[request.param]()
    if isinstance(family, WhitenedGaussian) and not isinstance(family, WhitenedDiagonal):
        root = np.array([[1.0, 0.2], [-0.4, 0.7]])
        family.set_base(np.array([0.3, -0.5]), root, np.linalg.inv(root))
    objective = DrawsObjective(family, density)
    shift = 0.3 * np.random.default_rng(2).standard_normal(len(objective.x))
    objective.x = objective.x + shift
    return objective


def test_objective_is_the_mean_log_ratio_over_all_chunks(objective):
    rng = np.random.default_rng(2)
    family, density = objective.family, objective.density
    z = rng.standard_normal((5000, family.latent_dimension))
    value, _ = objective.value_and_gradient(objective.x, z)
    theta, weights = family.draws(z)
    ratios = family.posterior().log_density(theta) - density.log_density(theta)
    assert value == pytest.approx(weights @ ratios / len(z), rel=EXACT)
    log_q = family.posterior().forward(z)[1]
    if len(theta) == len(z):
        np.testing.assert_allclose(log_q, family.posterior().log_density(theta), rtol=1e-9)


def test_gradient_and_hessian_products_against_finite_differences(objective):
    rng = np.random.default_rng(4)
    x, z = objective.x, rng.standard_normal((50, objective.family.latent_dimension))
    _, gradient = objective.value_and_gradient(x, z)
    numeric = [
        (objective.value_and_gradient(x + e, z)[0] - objective.value_and_gradient(x - e, z)[0])
        / 2e-6
        for e in 1e-6 * np.eye(len(x))
    ]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    direction, h = rng.standard_normal(len(x)), 1e-5
    ends = [objective.value_and_gradient(x + s * direction, z)[1] for s in (h, -h)]
    numeric = (ends[0] - ends[1]) / (2 * h)
    np.testing.assert_allclose(objective.hessian_product(x, direction, z), numeric, rtol=1e-5)


def test_overfits_needs_more_than_chance():
    fresh = FreshDraws(-10.0, 0.1, -9.9, 0.1, 100.0, 1000)
    assert overfits(-9.6, fresh) and not overfits(-9.75, fresh) and not overfits(-11.0, fresh)
