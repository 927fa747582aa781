"""Improper posteriors are known by directions in which log p̃ never falls; weak priors are not."""

import numpy as np
import pytest

from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.ill_posed.endless import TUBE, refuse_endless
from pymc_ext.variational.ill_posed.runaway import EndlessError


def normal(scale):
    return lambda t: (-0.5 * (t / scale) ** 2, -t / scale**2)


def student(nu, scale):
    def prior(t):
        square = nu * scale**2
        return -(nu + 1) / 2 * np.log1p(t**2 / square), -(nu + 1) * t / (square + t**2)

    return prior


def flat(t):
    return np.zeros_like(t), np.zeros_like(t)


def separated(prior, dimension=3, rows=30):
    """A logistic regression of rows that a plane separates."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(rows), rng.normal(size=(rows, dimension - 1))])
    signed = np.sign(x @ rng.normal(size=dimension))[:, None] * x

    def log_density_gradient(t):
        margin = t @ signed.T
        log_prior, score = prior(t)
        pull = (1 / (1 + np.exp(np.minimum(margin, 700)))) @ signed
        return -np.logaddexp(0, -margin).sum(1) + log_prior.sum(1), pull + score

    both = log_density_gradient
    return CallableDensity(lambda t: both(t)[0], lambda t: both(t)[1], dimension=dimension)


@pytest.mark.parametrize("name", ["separated", "slow-tail", "flat-log-scale"])
@pytest.mark.parametrize("seed", [1, 2])
def test_improper_targets_of_the_zoo_have_no_approximation(name, seed):
    with pytest.raises(EndlessError, match=r"does not (fall|depend on).*give these variables"):
        Hierarchical().fit(ZOO[name].make(), random_seed=seed)


@pytest.mark.parametrize("algorithm", [Hierarchical(), BatchMatch()], ids=["map", "Gaussian"])
def test_a_tail_that_no_draw_comes_to_is_looked_at(algorithm):
    """(1 + θ²)^{−1/2}: of these seeds a Gaussian's k̂ is −.1 to .8."""
    for seed in range(3, 13):
        with pytest.raises(EndlessError, match=r"however far theta\[0\] to −?∞"):
            algorithm.fit(ZOO["slow-tail"].make(), random_seed=seed)


def test_a_good_fit_is_looked_at_once_a_coordinate_and_way():
    density = CountedDensity(
        CallableDensity(lambda t: -0.5 * (t**2).sum(1), np.negative, dimension=50)
    )
    q = DiagonalGaussian(np.zeros(50), np.ones(50))
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    before = density.values
    refuse_endless(density, q, fresh, np.zeros(50))
    assert density.values - before == TUBE + 2 * 50


@pytest.mark.parametrize(
    ("dimension", "rows", "seed"), [(3, 30, 1), (21, 60, 1), (21, 60, 3), (41, 80, 1)]
)
def test_separated_data_with_flat_priors_are_improper(dimension, rows, seed):
    """In many dimensions no draw of q lies in the cone of planes that separate: a climb does. With
    seed 3 numbers of the map overflow before."""
    with pytest.raises(EndlessError, match=r"however far theta\[\d+\] to −?∞, theta.*is improper"):
        Hierarchical().fit(separated(flat, dimension, rows), random_seed=seed)


@pytest.mark.parametrize(
    "prior",
    [normal(10), normal(100), normal(1e6), student(3, 2.5), student(1, 2.5), student(1, 1e4)],
    ids=["normal 10", "normal 100", "normal 1e6", "t 3", "cauchy 2.5", "cauchy 1e4"],
)
@pytest.mark.parametrize("dimension", [3, 21])
def test_weak_priors_make_separated_data_proper(prior, dimension):
    for algorithm in (Hierarchical(), BatchMatch()):
        fitted = algorithm.fit(separated(prior, dimension, 3 * dimension), random_seed=1)
        assert np.isfinite(fitted.result.fresh.log_marginal_is)


@pytest.mark.parametrize("name", ["cauchy-1", "student-shared-10", "funnel-10", "product-0"])
def test_heavy_tails_and_necks_are_proper(name):
    fitted = BatchMatch().fit(ZOO[name].make(), random_seed=1)
    assert fitted.result.fresh.khat > 0.5  # or nothing was looked for


def test_a_log_scale_that_its_prior_hardly_bounds_is_proper():
    """Gamma(.001, .001) falls by .4 nats from log τ = −50 to −500, where exp ends."""

    def of(slope):
        density = CallableDensity(
            lambda t: np.where(
                t[:, 0] < -700, np.nan, slope * t[:, 0] - np.exp(np.minimum(t[:, 0], 50.0))
            ),
            lambda t: slope - np.exp(np.minimum(t, 50.0)),
            dimension=1,
            names=["tau_log__"],
        )
        density.bounded_names = ["tau_log__"]
        return density

    with pytest.raises(EndlessError, match="however far log tau to −∞"):
        BatchMatch(finish=None).fit(of(1e-6), random_seed=1)
    proper = BatchMatch(finish=None).fit(of(1e-3), random_seed=1)
    assert proper.result.fresh.khat > 0.5


def test_a_log_scale_along_which_p_rises_from_far_below_is_improper():
    """As of the φ of a negative binomial without a prior: Poisson rows are e^-90 as likely, and the
    Jacobian e^u has no end. At u = 50 log p̃ is 40 below the mode."""
    density = CallableDensity(
        lambda t: np.where(
            t[:, 0] > 700, np.nan, np.logaddexp(-2 * (t[:, 0] - 1) ** 2, t[:, 0] - 90)
        ),
        lambda t: np.where(t > 20, 1.0, -4 * (t - 1)),
        dimension=1,
        names=["phi_log__"],
    )
    density.bounded_names = ["phi_log__"]
    with pytest.raises(EndlessError, match="however far log phi to ∞"):
        BatchMatch(finish=None).fit(density, random_seed=1)
    density.bounded_names = []  # nor are there draws that show it
    assert BatchMatch(finish=None).fit(density, random_seed=1).result.fresh.khat < 0.5


def test_a_climb_that_begins_at_the_mode_is_no_direction():
    """Independent Cauchy laws, whose draws' weights do not serve."""
    density = CallableDensity(
        lambda t: -np.log1p(t**2).sum(axis=1), lambda t: -2 * t / (1 + t**2), dimension=20
    )
    assert BatchMatch().fit(density, random_seed=1).result.fresh.khat > 0.7


def test_a_density_that_takes_no_large_numbers_is_fitted_as_before():
    """Beyond 1,000 it raises, as a solver does; weights of its draws do not serve."""

    def small(t):
        if np.abs(t).max() > 1e3:
            raise OverflowError("math range error")
        return t

    density = CallableDensity(
        lambda t: -np.log1p(small(t) ** 2).sum(axis=1),
        lambda t: -2 * small(t) / (1 + t**2),
        dimension=20,
    )
    assert BatchMatch().fit(density, random_seed=1).result.fresh.khat > 0.7


@pytest.mark.parametrize("error", [AssertionError, KeyError, np.linalg.LinAlgError])
def test_whatever_is_raised_far_out_a_good_fit_stays(error):
    def small(t):
        if np.abs(t).max() > 1e3:
            raise error("a number that nobody thought of")
        return t

    density = CallableDensity(
        lambda t: -0.5 * (small(t) ** 2).sum(axis=1), lambda t: -small(t), dimension=3
    )
    assert BatchMatch().fit(density, random_seed=1).result.fresh.khat < 0.5


def test_a_log_density_that_overflows_to_infinity_is_no_endless_one():
    """As a truncated Gamma's, whose mass above the bound underflows for small means."""

    def log_density(t):
        return np.where(t[:, 0] < -60, np.inf, -0.5 * np.abs(t).sum(axis=1) - t[:, 1] ** 2 / 2)

    density = CallableDensity(
        log_density,
        lambda t: -0.5 * np.sign(t) - np.column_stack([0 * t[:, 0], t[:, 1]]),
        dimension=2,
        names=["mean_log__", "b"],
    )
    density.bounded_names = ["mean_log__"]
    fitted = BatchMatch(finish=None).fit(density, random_seed=1)
    assert fitted.result.fresh.khat > 0.5  # or nothing was looked for


def test_of_many_coordinates_those_are_tried_in_which_heavy_draws_are_far_out():
    """Along each of 2,000 by itself it would be 4,000 values of that length."""
    D, endless = 2000, 7

    def log_density(t):
        log_p = -0.5 * t**2
        log_p[:, endless] = -np.logaddexp(0, -t[:, endless])
        return log_p.sum(axis=1)

    density = CountedDensity(CallableDensity(log_density, np.negative, dimension=D))
    q = DiagonalGaussian(np.zeros(D), np.ones(D))
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    before = density.values
    with pytest.raises(EndlessError, match=rf"however far theta\[{endless}\] to ∞: "):
        refuse_endless(density, q, fresh, np.zeros(D))
    assert density.values - before < 1000
