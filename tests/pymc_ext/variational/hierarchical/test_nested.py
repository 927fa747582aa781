"""Laws by Laplace's method along governors: exact cases, log q against its own draws."""

import numpy as np
import pytest
from scipy import integrate, optimize

import bridge
from posteriordb_cases.zoo import ZOO
from posteriordb_cases.zoo.rows import simulated
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.hierarchical.law import Conditional, Terms
from pymc_ext.variational.hierarchical.law_map import LawMap
from pymc_ext.variational.hierarchical.maxima import Failed, climbed, maxima_along
from pymc_ext.variational.hierarchical.others import Others
from pymc_ext.variational.hierarchical.pattern import Pattern
from pymc_ext.variational.hierarchical.reach import missed_tails
from tests.pymc_ext.sampling.targets import gaussian
from tests.pymc_ext.variational.hierarchical.funnels import draws_of_funnel, funnel
from tests.pymc_ext.variational.hierarchical.laws import middle, nested

QUADRATURE = 0.02  # of an sd by places half an sd and more from one another
ORDER = np.arange(5)


def law_of_funnel(lowest: float = -np.inf):
    found = nested(CountedDensity(funnel()), draws_of_funnel(lowest=lowest), [0], ORDER)
    assert found is not None
    return found


def drawn(law, count: int, seed: int = 1):
    z = np.random.default_rng(seed).standard_normal((count, law.latent_dimension))
    return law.forward(z)


@pytest.mark.parametrize("lowest", [-np.inf, -1.0])
def test_the_marginal_is_exact_where_the_others_are_normal_given_it(lowest) -> None:
    """From draws of the upper half, too: places go on as far as there is mass."""
    found = law_of_funnel(lowest)
    assert abs(found.mean_along[0]) < QUADRATURE and abs(found.sd_along[0] - 1) < QUADRATURE
    assert found.scans[0].places[0] < -3.5 and found.scans[0].places[-1] > 3.5


def test_weights_on_its_draws_are_those_of_its_longer_tails() -> None:
    """log p − log q is log Z less the log of (1 + t²) / 2, at each draw."""
    theta, log_q = drawn(law_of_funnel(), 4000)
    log_z = 2.5 * np.log(2 * np.pi)
    left = funnel().log_density(theta) - log_q - log_z + np.log((1 + theta[:, 0] ** 2) / 2)
    assert np.std(left) < 2 * QUADRATURE and abs(np.mean(left)) < QUADRATURE


def test_of_a_correlated_gaussian_each_marginal_is_its_own_and_log_q_nearly_log_p() -> None:
    """Not additive in the pairs that govern, but quadratic: what crosses them is not seen."""
    rng = np.random.default_rng(2)
    root = np.tril(rng.normal(size=(5, 5))) + 3 * np.eye(5)
    target = gaussian(np.arange(5.0), root @ root.T)
    draws = np.arange(5.0) + rng.standard_normal((2000, 5)) @ root.T
    for j in range(5):
        found = nested(CountedDensity(target), draws, [j], ORDER[::-1])
        sd = np.linalg.norm(root[j])
        assert abs(found.mean_along[0] - j) < QUADRATURE * sd
        assert abs(found.sd_along[0] / sd - 1) < QUADRATURE


def test_two_scales_of_a_normal_hierarchy_are_the_posterior_itself() -> None:
    """Terms of both scales add up: the evidence is exact within its error, weights hardly vary."""
    target, rng = simulated(100, 0.3), np.random.default_rng(1)
    exact = target.draws(20_000, rng)
    density = CountedDensity(target)
    found = nested(density, exact[:4000], [1, 14], np.arange(15))
    assert density.gradients < 2500
    theta, log_q = drawn(found, 8192)
    fresh = FreshDraws.from_log_ratios(target.log_density(theta) - log_q)
    assert fresh.ess > 0.6 * fresh.draws and fresh.khat < 0.5
    assert abs(fresh.log_marginal_is - target.log_z) < 4 * fresh.log_marginal_is_se
    sd = exact[:, [1, 14]].std(axis=0)
    np.testing.assert_allclose(found.sd_along, sd, rtol=0.04)
    np.testing.assert_allclose(found.mean_along, exact[:, [1, 14]].mean(axis=0), atol=0.04)
    theta, log_q = drawn(LawMap(found), 8192)  # a law to keep, not one for weights
    fresh = FreshDraws.from_log_ratios(target.log_density(theta) - log_q)
    assert fresh.ess > 0.98 * fresh.draws and 0 < target.log_z - fresh.elbo < 0.01
    np.testing.assert_allclose(theta.std(axis=0), exact.std(axis=0), rtol=0.04)


@pytest.mark.parametrize(
    ("name", "governors"), [("groups-4", [1]), ("schools-centred", [1]), ("rows-12", [1, 14])]
)
def test_log_q_anywhere_is_that_of_its_own_draws(name, governors) -> None:
    """And there are as many in each cell as its mass says."""
    target, rng = ZOO[name].make(), np.random.default_rng(3)
    order = np.arange(target.dimension)
    found = nested(CountedDensity(target), target.draws(2000, rng), governors, order)
    theta, log_q = drawn(found, 20_000)
    assert np.allclose(found.log_density(theta), log_q, rtol=0, atol=1e-8)
    counts = np.bincount(found.cell_of(theta[:, governors]), minlength=len(found.masses))
    masses = found.masses / found.masses.sum() * len(theta)
    assert np.all(np.abs(counts - masses) < 6 * np.sqrt(masses) + 3)
    theta[:, governors[0]] = found.edges[1][-1, 0] + 1
    assert np.all(found.log_density(theta) == -np.inf)


def test_given_t_log_q_integrates_to_the_marginal() -> None:
    found = nested(CountedDensity(funnel(groups=1)), draws_of_funnel(groups=1), [0], np.arange(2))

    def q(x: float, t: float) -> float:
        return float(np.exp(found.log_density(np.array([[t, x]]))[0]))

    lower, upper = (edges[:, 0] for edges in found.edges)
    own = found.masses / found.masses.sum() / (upper - lower)
    for t in (-1.03, 0.2, 1.1):
        far = 8 * np.exp(t)
        inside, _ = integrate.quad(q, -far, far, args=(t,))
        assert inside == pytest.approx(own[np.searchsorted(lower, t) - 1], rel=1e-6)


def test_sums_that_are_not_positive_definite_are_made_so() -> None:
    """A law all the same: draws agree with log q."""
    pattern = Pattern.full(2)
    precision = np.stack([pattern.entries(np.diag([1.0, last])) for last in (1, -2)], axis=1)
    given = Conditional.of(pattern, Terms(np.zeros(2), np.ones((2, 2)), precision))
    v = np.random.default_rng(1).standard_normal((2, 2))
    np.testing.assert_allclose(given.normals(given.draws(v)), v, atol=1e-10)
    assert given.log_det[0] == 0 and np.isfinite(given.log_det[1])


def test_a_law_where_half_of_the_draws_have_no_density_does_not_fit() -> None:
    """And nobody is warned of −∞ less −∞."""
    found = law_of_funnel()
    nowhere = CallableDensity(
        lambda t: np.where(t[:, 0] > 1.5, 0.0, -np.inf), np.zeros_like, dimension=5
    )
    assert found.fits(funnel()) and not found.fits(nowhere)


def test_without_a_maximum_there_is_none_and_errors_end_a_side() -> None:
    flat = CallableDensity(
        lambda t: -0.5 * t[:, 0] ** 2 + 0.5 * t[:, 1] ** 2,
        lambda t: t * [-1.0, 1.0],
        dimension=2,
    )
    draws = np.random.default_rng(1).standard_normal((500, 2))
    assert nested(CountedDensity(flat), draws, [0], np.arange(2)) is None
    assert nested(CountedDensity(flat), draws, [0, 1], np.arange(2)) is None

    target = funnel()

    def raising(t):
        if t[:, 0].min() < -2:
            raise OverflowError("math range error")
        return target.log_density(t)

    cut = CallableDensity(raising, lambda t: target.log_density_gradient(t)[1], dimension=5)
    found = nested(CountedDensity(cut), draws_of_funnel(), [0], ORDER)
    assert found.scans[0].places[0] >= -2 and found.sd_along[0] < 1


def test_why_there_is_no_maximum_is_told() -> None:
    """Steps that run off where p̃ rises say that there is none; a start without numbers says
    nothing."""

    def log_density(t):
        return np.where(t[:, 0] < 40, t[:, 0] + 0.01 * t[:, 0] ** 2, np.nan)

    rising = CountedDensity(
        CallableDensity(
            log_density, lambda t: 1 + 0.02 * t + 0 * log_density(t)[:, None], dimension=1
        )
    )
    others = Others.all_coupled(np.array([0]))
    for start, why in ((0.0, Failed.NO_MAXIMUM), (50.0, Failed.NO_NUMBERS)):
        assert climbed(rising, np.array([start]), np.ones(1), others) is why


def test_scans_from_the_end_of_a_neck_find_the_bulk() -> None:
    """Draws of a q that lies four sds down the neck, a fifth as wide."""
    rng = np.random.default_rng(1)
    t = rng.normal(-4, 0.2, 2000)
    draws = np.column_stack([t, np.exp(t)[:, None] * rng.standard_normal((2000, 4))])
    density = CountedDensity(funnel())
    found = nested(density, draws, [0], ORDER)
    there = law_of_funnel()
    assert abs(found.mean_along[0] - there.mean_along[0]) < QUADRATURE
    assert abs(found.sd_along[0] / there.sd_along[0] - 1) < QUADRATURE
    gaps = np.diff(found.scans[0].places)
    assert gaps[np.abs(found.scans[0].places[1:]) < 1].max() < 0.8 * found.sd_along[0]


@pytest.mark.parametrize(("sd", "is_open"), [(1.5, False), (5.0, True), (np.inf, True)])
def test_a_side_that_ends_before_its_mass_does_is_open(sd, is_open) -> None:
    """Five groups whose log scale has a normal prior: p falls by less than the prior does."""
    rng, spread = np.random.default_rng(5), 5.0
    y = rng.standard_normal(5) + 0.3

    def log_density(theta):
        return log_density_gradient(theta)[0]

    def log_density_gradient(theta):
        mu, t, x = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        precision = np.exp(-2 * t)
        squares = ((x - mu) ** 2).sum(axis=1, keepdims=True) * precision
        far = (t / sd) ** 2 + (mu / spread) ** 2 + ((y - x) ** 2).sum(axis=1, keepdims=True)
        pull = (x - mu) * precision
        score = np.hstack([
            pull.sum(axis=1, keepdims=True) - mu / spread**2,
            squares - 5 - t / sd**2,
            y - x - pull,
        ])  # fmt: skip
        return (-0.5 * (far + squares) - 5 * t)[:, 0], score

    density = CountedDensity(
        CallableDensity(log_density, lambda t: log_density_gradient(t)[1], dimension=7)
    )
    t = rng.normal(-0.5, 0.7, 2000)
    x = np.exp(t)[:, None] * rng.standard_normal((2000, 5))
    draws = np.column_stack([0.3 * rng.standard_normal(2000), t, x])
    found = nested(density, draws, [1], np.arange(7)[[1, 0, 2, 3, 4, 5, 6]])
    assert [j for j, _ in found.open_ends] == ([1] if is_open else [])
    said = missed_tails(found, np.full(7, 10.0), density.value_names)
    assert (said is not None) == is_open
    if is_open:
        assert "falls too slowly for its mass to be known" in said
        answer = bridge.fit(density.density, methods="hierarchical", random_seed=1)
        result = Hierarchical().fit(density.density, random_seed=1).result
        assert result.usable is False and "falls too slowly" in result.verdict
        assert any("falls too slowly" in note for note in result.notes)
        assert not answer.trusted and "falls too slowly" in answer.doubts[0]
        assert [a.method for a in answer.attempts] == ["hierarchical"]
        assert "NUTS did not run" in answer.doubts[1]


def test_a_slope_with_a_cauchy_prior_ends_in_no_neck() -> None:
    """Gelman's priors, of data that a point separates: chains go where p falls as a square."""
    x = np.concatenate([np.linspace(-2, -0.3, 8), np.linspace(0.3, 2, 8)])
    scale, signed = np.array([10.0, 2.5]), np.sign(x)[:, None] * np.stack([np.ones(16), x], axis=1)

    def both(t):
        margin = t @ signed.T
        square = (t / scale) ** 2
        log_p = -np.logaddexp(0, -margin).sum(axis=1) - np.log1p(square).sum(axis=1)
        pull = (1 / (1 + np.exp(np.minimum(margin, 700)))) @ signed
        return log_p, pull - 2 * t / scale**2 / (1 + square)

    density = CallableDensity(lambda t: both(t)[0], lambda t: both(t)[1], dimension=2)
    laws = [Hierarchical().fit(density, random_seed=seed).result.law for seed in (1, 2, 3)]
    assert any(law is not None for law in laws)  # or nothing was looked at
    assert all(law is None or not law.open_ends for law in laws)


def effects_with_a_neck_of_their_own() -> CountedDensity:
    """Eight effects z of a common scale e^u, seen with a noise of scale e^t. Given a small t all
    others have a maximum; given a larger one they run into the neck of u. p(t) is lighter than a
    normal's to both sides."""
    y = 2 * np.random.default_rng(3).standard_normal(8)

    def both(theta):
        t, u, z = theta[:, :1], theta[:, 1:2], theta[:, 2:]
        noise, own = ((y - z) * np.exp(-t)) ** 2, (z * np.exp(-u)) ** 2
        log_p = (-2 * t**2 - 8 * t - 7 * u - 0.5 * np.exp(2 * u))[:, 0]
        score = np.hstack([
            noise.sum(axis=1, keepdims=True) - 4 * t - 8,
            own.sum(axis=1, keepdims=True) - 7 - np.exp(2 * u),
            (y - z) * np.exp(-2 * t) - z * np.exp(-2 * u),
        ])  # fmt: skip
        return log_p - 0.5 * (noise + own).sum(axis=1), score

    return CountedDensity(CallableDensity(lambda x: both(x)[0], lambda x: both(x)[1], dimension=10))


def test_where_others_run_into_a_neck_of_their_own_a_scan_tells_nothing() -> None:
    """No tail of p is open there, and none is said to be."""
    density = effects_with_a_neck_of_their_own()
    rng = np.random.default_rng(1)
    point = rng.standard_normal(10) / 2
    found = optimize.approx_fprime(point, lambda x: density.log_density(x[None])[0], 1e-7)
    np.testing.assert_allclose(density.log_density_gradient(point[None])[1][0], found, rtol=1e-4)

    y = 2 * np.random.default_rng(3).standard_normal(8)
    t, u = rng.normal(-0.3, 0.4, 2000), rng.normal(0.5, 0.3, 2000)
    draws = np.column_stack([t, u, 0.9 * y + 0.5 * rng.standard_normal((2000, 8))])
    start = middle(density, draws, [0], np.arange(10))
    assert start is not None
    _, lost = maxima_along(density, start.maximum, 0, 0.2, 8.0)
    assert lost == (False, True)
    assert nested(density, draws, [0], np.arange(10)) is None
    result = Hierarchical().fit(density.density, random_seed=1).result
    assert not any("falls too slowly" in note for note in result.notes)
