import numpy as np
import pytest
from scipy import stats

from pymc_ext.density import CallableDensity, CountedDensity, PyMCDensity
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.elbo.fixed_draws import OPTIMIZERS, FixedDraws, overfits
from pymc_ext.variational.elbo.normals import fixed_normals
from pymc_ext.variational.elbo.objective import DrawsObjective
from pymc_ext.variational.gaussian.mixed import Mixed, make_noise
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


def narrow_and_wide(constant=0.0, dimension=10):
    """A Gaussian with sds from .001 to 1 around .5, and ``constant`` nats; log Z beside it."""
    sd = np.logspace(-3, 0, dimension)
    density = CallableDensity(
        lambda t: constant - 0.5 * np.sum(((t - 0.5) / sd) ** 2, axis=1),
        lambda t: -(t - 0.5) / sd**2,
        dimension=dimension,
    )
    return density, constant + np.sum(np.log(sd)) + dimension / 2 * np.log(2 * np.pi)


def far_above_its_start():
    """−ELBO is about zero where a fit starts and −800,000 where it ends."""
    density, _ = narrow_and_wide()
    z = np.random.default_rng(0).standard_normal((10_000, 10))
    return narrow_and_wide(-density.log_density(z).mean())


def test_a_fit_goes_on_while_an_iteration_gains_nats():
    """The optimiser's tolerance is relative: it ended 30 nats lower, and was called converged."""
    density, log_z = far_above_its_start()
    result = Mixed("eig", base="unit").fit(density, random_seed=1).result
    assert result.converged
    assert result.train_elbo == pytest.approx(log_z, abs=0.2)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("make", [narrow_and_wide, far_above_its_start])
def test_a_fit_that_still_gains_nats_is_not_called_converged(make, optimizer):
    density, log_z = make()
    algorithm = Mixed("eig", base="unit", fixed_draws=FixedDraws(optimizer=optimizer))
    result = algorithm.fit(density, n=5, random_seed=1).result
    assert result.train_elbo < log_z - 1
    assert not result.converged


def test_a_fit_that_a_callback_ended_is_not_called_converged():
    def stop(approx, losses, iteration):
        if iteration == 3:
            raise StopIteration

    density, log_z = far_above_its_start()
    counted = CountedDensity(density)
    for optimizer in OPTIMIZERS:
        algorithm = Mixed("eig", base="unit", fixed_draws=FixedDraws(optimizer=optimizer))
        with Monitor(None, [stop], 0, 100, False) as monitor:
            result = algorithm.run(
                counted, np.zeros(10), seed=1, budget=100, monitor=monitor
            ).result
        assert result.train_elbo < log_z - 1
        assert result.iterations == 3 and not result.converged
