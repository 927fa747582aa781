"""Densities that are not PyMC's, what is asked of them, and Hessians by differences."""

import time

import numpy as np
import pytest

import pymc_ext as px
from pymc_ext.density import (
    CallableDensity,
    CountedDensity,
    DensityError,
    DifferenceHessian,
    require_usable,
)
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.mixed import Diagonal, Mixed
from pymc_ext.variational.gaussian.mixture import Mixture
from tests.needed import needs
from tests.tolerances import EXACT, NUMERIC, monte_carlo

R = np.array([[1, 0.7, -0.4], [0.7, 1, 0.2], [-0.4, 0.2, 1]])
SD, MEAN = np.array([1e-3, 2.0, 500.0]), np.array([5.0, -1.0, 3000.0])
PRECISION = np.linalg.inv(R * np.outer(SD, SD))
LOG_Z = 1.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(PRECISION)[1]


def gaussian():
    """An unnormalised Gaussian, badly scaled, from NumPy functions."""
    return CallableDensity(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x - MEAN, PRECISION, x - MEAN),
        lambda x: -(x - MEAN) @ PRECISION,
        dimension=3,
    )


def test_hessian_by_differences_of_badly_scaled_and_skewed_densities():
    np.testing.assert_allclose(DifferenceHessian(gaussian())(MEAN), -PRECISION, rtol=1e-9)
    gamma = CallableDensity(
        lambda x: (3 * x - 1e4 * np.exp(x)).sum(1), lambda x: 3 - 1e4 * np.exp(x), dimension=1
    )
    at = np.array([np.log(3e-4)])
    np.testing.assert_allclose(DifferenceHessian(gamma)(at), [[-3.0]], rtol=1e-9)


def test_a_kink_is_noticed_and_a_smooth_density_has_none():
    kink = CallableDensity(lambda x: -np.abs(x).sum(1), lambda x: -np.sign(x), dimension=2)
    hessian = DifferenceHessian(kink)
    hessian(np.zeros(2))
    assert hessian.rough == [0, 1]
    smooth = DifferenceHessian(gaussian())
    smooth(MEAN)
    assert smooth.rough == []


@pytest.mark.parametrize("algorithm", [Laplace(), Mixed(), Mixed("eig")])
def test_gaussian_algorithms_are_exact_on_a_density_without_pymc(algorithm):
    fitted = algorithm.fit(gaussian(), np.array([4.0, 0.0, 2000.0]), random_seed=1)
    np.testing.assert_allclose(fitted.q.mean, MEAN, rtol=NUMERIC)
    S, result = fitted.q.cov, fitted.result
    kl = 0.5 * (np.trace(PRECISION @ S) - 3 - np.linalg.slogdet(PRECISION @ S)[1])
    assert abs(kl) < NUMERIC
    assert abs(result.log_marginal_is - LOG_Z) < monte_carlo(result.fresh.log_marginal_is_se) + 1e-6
    assert result.compile_seconds == 0 and result.gradient_evaluations > 0


def banana():
    """x ~ N(0, 1), y | x ~ N(x², 0.5²); normalised up to log 2π + log 0.5."""

    def log_density(t):
        return -0.5 * t[:, 0] ** 2 - 2 * (t[:, 1] - t[:, 0] ** 2) ** 2

    def gradient(t):
        r = t[:, 1] - t[:, 0] ** 2
        return np.stack([-t[:, 0] + 8 * r * t[:, 0], -4 * r], axis=1)

    return CallableDensity(log_density, gradient, dimension=2, names=["x", "y"])


@pytest.mark.parametrize("algorithm", [Diagonal(), Mixture()])
def test_other_gaussian_algorithms_bound_the_evidence(algorithm):
    fitted = algorithm.fit(banana(), random_seed=1)
    log_z = np.log(2 * np.pi) + np.log(0.5)
    assert fitted.result.elbo < log_z + monte_carlo(fitted.result.elbo_se)
    theta, log_q = fitted.q.forward(
        np.random.default_rng(1).standard_normal((50, fitted.q.latent_dimension))
    )
    np.testing.assert_allclose(fitted.q.log_density(theta), log_q, rtol=1e-9)


def test_a_flow_fits_a_banana_without_pymc_and_counts_its_gradients():
    algorithm = Bernstein(FlowShape(order=8), base="identity", polish=None)
    fitted = algorithm.fit(banana(), n=3000, random_seed=1)
    log_z = np.log(2 * np.pi) + np.log(0.5)
    assert log_z - 0.05 < fitted.result.elbo < log_z + monte_carlo(fitted.result.elbo_se)
    looked_at = 2  # rows, by the check of the start
    assert fitted.result.gradient_evaluations == 10 * fitted.result.iterations + looked_at
    assert fitted.result.random_seed == 1


def test_counts_are_of_rows():
    density = CountedDensity(gaussian())
    density.log_density(np.zeros((5, 3)))
    density.log_density_gradient(np.zeros((2, 3)))
    assert (density.values, density.gradients) == (7, 2)
    assert density.unconstrained_names == ["theta[0]", "theta[1]", "theta[2]"]


def test_jax_functions_bring_their_gradient():
    needs("jax")
    import jax.numpy as jnp

    ours = gaussian()
    theirs = CallableDensity(
        lambda x: -0.5 * (x - MEAN) @ jnp.asarray(PRECISION) @ (x - MEAN), dimension=3, jax=True
    )
    x = MEAN + SD * np.random.default_rng(1).normal(size=(4, 3))
    for a, b in zip(ours.log_density_gradient(x), theirs.log_density_gradient(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
    np.testing.assert_allclose(theirs.log_density(x), ours.log_density(x), rtol=EXACT)


def test_what_jax_compiles_is_not_the_fits_time():
    needs("jax")
    density = CallableDensity(lambda x: -0.5 * (x - 1) @ (x - 1), dimension=3, jax=True)
    before = density.clock.seconds
    density.log_density(np.zeros((7, 3)))
    compiled = density.clock.seconds
    assert compiled > before
    density.log_density(np.ones((7, 3)))
    assert density.clock.seconds == compiled  # the same number of rows
    begin = time.perf_counter()
    result = Laplace().fit(density, random_seed=1).result
    wall = time.perf_counter() - begin
    assert 0.01 < result.compile_seconds < wall
    assert 0 < result.seconds < wall - 0.9 * result.compile_seconds


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CallableDensity(lambda x: x, dimension=2), "a density needs its gradient"),
        (lambda: CallableDensity(lambda x: x, lambda x: x, dimension=0), "integer >= 1, got 0"),
        (lambda: CallableDensity(lambda x: x, lambda x: x, dimension=1.5), "integer >= 1, got 1.5"),
        (
            lambda: CallableDensity(lambda x: x, lambda x: x, dimension=2, names=["a"]),
            "names must be 2 texts, got 1",
        ),
    ],
)
def test_bad_callables_are_refused_when_made(make, message):
    with pytest.raises(DensityError, match=message):
        make()


class Odd:
    """A density that does not keep to the protocol."""

    dimension = 2

    def __init__(self, answer):
        self.answer = answer

    def log_density(self, theta):
        return np.zeros(len(theta))

    def log_density_gradient(self, theta):
        return self.answer(theta)


@pytest.mark.parametrize(
    ("density", "message"),
    [
        (CallableDensity(lambda x: -x.sum(), lambda x: -x, dimension=2), r"shape \(2,\), got \(\)"),
        (
            CallableDensity(lambda x: -x.sum(1), lambda x: -x[:, :1], dimension=2),
            r"gradient of points .* must have shape \(2, 2\), got \(2, 1\)",
        ),
        (Odd(lambda t: np.zeros(2)), "must return the pair"),
        (Odd(lambda t: (np.zeros(3), t)), r"must return shapes \(2,\) and \(2, 2\), got \(3,\)"),
        (
            CallableDensity(lambda x: np.log(x).sum(1), lambda x: 1 / x, dimension=2),
            "log density is -inf at the start .* give start=",
        ),
        (
            CallableDensity(lambda x: -x.sum(1), lambda x: x / 0, dimension=2, names=["a", "b"]),
            "not finite with respect to a, b: gradient-based methods cannot run",
        ),
    ],
)
def test_densities_that_no_algorithm_can_work_on_are_refused_before_any_fit(density, message):
    with np.errstate(all="ignore"), pytest.raises(DensityError, match=message):
        Laplace().fit(density)


@pytest.mark.parametrize("start", [np.zeros(3), np.array([0.0, np.nan])])
def test_bad_starts_are_refused(start):
    with pytest.raises(DensityError, match="start must"):
        require_usable(banana(), start)


@pytest.mark.parametrize(
    ("log_density", "gradient", "message"),
    [
        (3, lambda x: x, "log_density must be a function of points"),
        (lambda x: x, 5, "gradient must be a function of points"),
    ],
)
def test_what_is_no_function_is_refused(log_density, gradient, message):
    with pytest.raises(DensityError, match=message):
        CallableDensity(log_density, gradient, dimension=1)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: -(x**2), r"of one point \(3,\) must be a scalar, got \(3,\)"),
        (lambda x: -(x**2).sum(1), "does not work on one point"),
    ],
)
def test_jax_functions_of_a_wrong_shape_are_refused(function, message):
    needs("jax")
    with pytest.raises(DensityError, match=message):
        CallableDensity(function, dimension=3, jax=True)


def test_names_that_are_the_same_are_refused() -> None:
    with pytest.raises(DensityError, match=r"names must differ, got \['a'\] more than once"):
        CallableDensity(lambda x: x[:, 0], lambda x: x, dimension=3, names=["a", "b", "a"])


def test_scores_are_held_to_differences_in_every_coordinate() -> None:
    scale = np.array([1e-3, 1.0, 1e3])

    def density(factor: np.ndarray) -> CallableDensity:
        return CallableDensity(
            lambda x: -0.5 * ((x / scale) ** 2).sum(axis=1),
            lambda x: -factor * x / scale**2,
            dimension=3,
            names=["a", "b", "c"],
        )

    theta = np.random.default_rng(1).standard_normal((5, 3)) * scale
    error = px.check_scores(density(np.ones(3)), theta)
    assert error.shape == (3,) and error.max() < 1e-3
    with pytest.raises(DensityError, match=r"the score of b is .*, and .* by differences: return"):
        px.check_scores(density(np.array([1, 1.1, 1])), theta)
    with pytest.raises(ValueError, match=r"shape \(N, 3\) or \(3,\), got \(2,\)"):
        px.check_scores(density(np.ones(3)), np.zeros(2))
    edge = CallableDensity(lambda x: np.log(x[:, 0]), lambda x: 1 / x, dimension=1)
    with pytest.raises(ValueError, match="inside the support"):
        px.check_scores(edge, np.zeros(1))
