"""Likelihoods: derivatives against differences, expectations and tilted moments against quad."""

from __future__ import annotations

from functools import partial

import mpmath as mp
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from pymc_ext.gp import likelihoods as lk
from pymc_ext.gp.errors import ConvergenceError
from tests.pymc_ext.gp.problems import LIKELIHOODS
from tests.tolerances import NUMERIC, monte_carlo

CASES = {name: (case.likelihood, np.array(case.phi), case.y) for name, case in LIKELIHOODS.items()}
PAIRS = [(0.3, 0.05), (-1.0, 0.8), (2.0, 12.0), (-4.0, 1.5)]
case = pytest.mark.parametrize("name", CASES)


def reference(name, y, phi):
    """Log density of y given f by scipy.stats."""
    return lambda f: LIKELIHOODS[name].log_density(f, y, phi)


def integral(g, m, s, y, width):
    """∫ N(f|m, s²) g(f) df by 32-node Gauss–Legendre on 300 narrow panels at both scales."""
    fine = y + width * np.sinh(np.linspace(-9, 9, 200))  # geometric around the likelihood
    reach = 24 if s > 10 else 11  # the Poisson's mean grows as e^f
    edges = np.concatenate([m + s * np.linspace(-reach, reach, 201), fine])
    edges = np.unique(edges[np.abs(edges - m) <= reach * s])
    x, w = np.polynomial.legendre.leggauss(32)
    f = edges[:-1, None] + np.diff(edges)[:, None] * (x + 1) / 2
    return float(np.sum(np.diff(edges)[:, None] * w / 2 * stats.norm.pdf(f, m, s) * g(f)))


def on_a_grid(likelihood, m, v, y, phi, power):
    """log Ẑ, mean and variance of the tilted distribution by sums over grids that zoom in on it."""
    c, s = float(likelihood.scale(np.array([y]), phi)[0][0]), np.sqrt(v)
    low, high = min(m, c, -30.0) - 12 * s, max(m, c) + 12 * s
    for _ in range(3):
        f = np.linspace(low, high, 200_001)
        with np.errstate(over="ignore"):
            log_r = power * likelihood.log_prob(f, np.full(1, y), phi)
        log_r += stats.norm.logpdf(f, m, s)
        kept = np.flatnonzero(log_r > log_r.max() - 60)
        low, high = f[max(kept[0] - 1, 0)], f[min(kept[-1] + 1, len(f) - 1)]
    log_z = logsumexp(log_r)
    r = np.exp(log_r - log_z)
    return log_z + np.log(f[1] - f[0]), r @ f, r @ (f - r @ f) ** 2


def check_tilted(likelihood, m, v, y, phi, power=1.0):
    """Against the grid; the mean in standard deviations."""
    m, v, y = np.atleast_1d(m), np.atleast_1d(v), np.atleast_1d(y)
    t = likelihood.tilted(m, v, y, phi, power)
    for i in range(len(m)):
        log_z, mean, variance = on_a_grid(likelihood, m[i], v[i], y[i], phi, power)
        at = f"m={m[i]}, v={v[i]}, y={y[i]}, phi={phi}, power={power}"
        assert t.log_normaliser[i] == pytest.approx(log_z, rel=1e-9, abs=1e-9), at
        assert t.mean[i] == pytest.approx(mean, rel=1e-12, abs=1e-6 * np.sqrt(variance)), at
        assert t.variance[i] == pytest.approx(variance, rel=1e-6), at


def derivative(likelihood, y, phi, k, f):
    return likelihood.derivatives(f, y, phi)[k]


def by_parameter(likelihood, y, phi, p, k, f):
    return likelihood.parameter_derivatives(f, y, phi)[p, k]


@case
def test_log_prob_is_normalised(name: str) -> None:
    likelihood, phi, ys = CASES[name]
    f = np.linspace(-3, 3, 7)
    for y in ys:
        expected = reference(name, y, phi)(f)
        assert likelihood.log_prob(f, np.full(7, y), phi) == pytest.approx(expected, rel=1e-9)


@case
def test_derivatives_match_differences(name: str) -> None:
    likelihood, phi, ys = CASES[name]
    f, h = np.linspace(-3.1, 3.3, 9), 1e-5
    for y in ys:
        y = np.full(9, y)

        def levels(f, phi, y=y):
            return np.stack([likelihood.log_prob(f, y, phi), *likelihood.derivatives(f, y, phi)])

        slope = (levels(f + h, phi) - levels(f - h, phi)) / (2 * h)
        np.testing.assert_allclose(levels(f, phi)[1:], slope[:3], rtol=1e-6, atol=1e-7)
        by_phi = likelihood.parameter_derivatives(f, y, phi)
        assert by_phi.shape == (len(phi), 3, 9)
        for p in range(len(phi)):
            e = h * (np.arange(len(phi)) == p)
            slope = (levels(f, phi + e) - levels(f, phi - e)) / (2 * h)
            np.testing.assert_allclose(by_phi[p], slope[:3], rtol=1e-6, atol=1e-7)


@case
@pytest.mark.parametrize(("m", "s"), PAIRS)
def test_expectations_match_quadrature(name: str, m: float, s: float) -> None:
    likelihood, phi, ys = CASES[name]
    for y0 in ys:
        y = np.array([y0])
        e = likelihood.expectations(np.array([m]), np.array([s**2]), y, phi, order=4)
        c, w = (float(a[0]) for a in likelihood.scale(y, phi))
        log_p = reference(name, y0, phi)
        got = [e.value[0], *e.derivatives[:3, 0], *e.parameters[:, :, 0].ravel()]
        functions = [log_p]
        args = (likelihood, y, phi)
        functions += [partial(derivative, *args, k) for k in range(3)]
        functions += [partial(by_parameter, *args, p, k) for p in range(len(phi)) for k in range(3)]
        for value, g in zip(got, functions, strict=True):
            expected = integral(g, m, s, c, w)
            assert value == pytest.approx(expected, rel=1e-8, abs=1e-9)
        h = 1e-4 * s
        up, down = (
            likelihood.expectations(np.array([m + d]), np.array([s**2]), y, phi, order=4)
            for d in (h, -h)
        )
        slope = (up.derivatives[2] - down.derivatives[2]) / (2 * h)
        assert e.derivatives[3] == pytest.approx(slope, rel=NUMERIC, abs=NUMERIC)


@case
@pytest.mark.parametrize(("m", "s"), PAIRS)
@pytest.mark.parametrize("power", [1.0, 0.5])
def test_tilted_moments_match_quadrature(name: str, m: float, s: float, power: float) -> None:
    likelihood, phi, ys = CASES[name]
    for y0 in ys:
        y = np.array([y0])
        t = likelihood.tilted(np.array([m]), np.array([s**2]), y, phi, power)
        c, w = (float(a[0]) for a in likelihood.scale(y, phi))
        log_p, shift = reference(name, y0, phi), t.log_normaliser[0]

        def density(f, log_p=log_p, shift=shift):
            return np.exp(power * log_p(f) - shift)

        Z = integral(density, m, s, c, w)
        mean = integral(lambda f: f * density(f), m, s, c, w)
        var = integral(lambda f, a=mean: (f - a) ** 2 * density(f), m, s, c, w)
        assert pytest.approx(1.0, rel=1e-8) == Z
        assert t.mean[0] == pytest.approx(mean, rel=1e-8, abs=1e-9)
        assert t.variance[0] == pytest.approx(var, rel=1e-7)
        for p in range(len(phi)):
            slope = partial(by_parameter, likelihood, y, phi, p, 0)
            expected = integral(lambda f, g=slope: density(f) * g(f), m, s, c, w)
            assert t.parameters[p, 0] == pytest.approx(expected, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(
    ("name", "alpha", "m", "v", "y"),
    [
        ("poisson", None, 60.0, 0.08, 5000.0),
        ("poisson", None, 59.49, 0.0789, 5000.0),
        ("poisson", None, 103.1, 66.8, 1.0),
        ("poisson", None, 800.0, 2.0, 0.0),
        ("poisson", None, -90.0, 0.1, 986.0),
        ("negative binomial", 0.01, -6.6, 0.62, 50.0),
        ("negative binomial", 0.01, -181.0, 0.58, 5000.0),
    ],
)
def test_tilted_moments_far_from_the_cavity(name, alpha, m, v, y, power: float) -> None:
    phi = np.array([]) if alpha is None else np.array([alpha])
    check_tilted(CASES[name][0], m, v, y, phi, power)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize("name", ["logit", "probit", "poisson", "negative binomial"])
def test_tilted_moments_over_a_spread_of_cavities(name: str, power: float) -> None:
    rng, n = np.random.default_rng(8), 12
    m = rng.standard_normal(n) * 10 ** rng.uniform(0, 2, n)
    v = 10 ** rng.uniform(-2, 2, n)
    y = rng.poisson(10 ** rng.uniform(-1, 3.5, n)).astype(float)
    if name in ("logit", "probit"):
        y = np.minimum(y, 1.0)
    check_tilted(CASES[name][0], m, v, y, CASES[name][1], power)


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(
    ("nu", "sigma", "y"),
    [
        (30.0, 0.1, 12.0),
        (50.0, 0.05, 12.0),
        (100.0, 0.1, 15.0),
        (1000.0, 0.1, 20.0),
        (1000.0, 3.0, 60.0),  # the mode is at y / 10: far from both centres
        (1000.0, 0.16, -0.9),  # near, but a peak far narrower than √nu sigma
        (160.0, 0.007, 28.7),
        (4.0, 0.05, -12.0),  # almost all mass stays at the cavity
    ],
)
def test_tilted_moments_of_outliers_in_nearly_normal_noise(nu, sigma, y, power: float) -> None:
    check_tilted(lk.StudentT(), 0.0, 1.0, y, np.array([nu, sigma]), power)


@pytest.mark.parametrize(("nu", "sigma"), [(4.0, 0.05), (30.0, 0.02), (300.0, 0.01)])
def test_both_peaks_of_a_tilted_distribution_are_resolved(nu: float, sigma: float) -> None:
    """At the y whose tilted mean lies between two peaks, by bisection."""
    likelihood, phi = lk.StudentT(), np.array([nu, sigma])
    low, high = 2 * np.sqrt(nu), 6 * np.sqrt(nu) + 10
    for _ in range(12):
        y = (low + high) / 2
        _, mean, variance = on_a_grid(likelihood, 0.0, 1.0, y, phi, 1.0)
        low, high = (y, high) if mean > y / 2 else (low, y)
    assert variance > 0.1 * y**2
    check_tilted(likelihood, 0.0, 1.0, y, phi)


def test_tilted_moments_over_a_spread_of_student_t() -> None:
    rng = np.random.default_rng(9)
    for power in (1.0, 0.5):
        for _ in range(12):
            phi = 10 ** np.array([rng.uniform(0, 4), rng.uniform(-2, 1)])
            y = rng.standard_normal() * 10 ** rng.uniform(0, 2)
            check_tilted(lk.StudentT(), 0.3, 1.7, y, phi, power)


@pytest.mark.parametrize(("m", "v"), [(np.nan, 400.0), (0.0, np.inf), (-np.inf, 400.0)])
def test_latents_that_are_not_finite_are_named(m: float, v: float) -> None:
    likelihood, phi, _ = CASES["student-t"]
    with pytest.raises(ConvergenceError, match=f"{'sd' if m == 0 else 'mean'} is not finite"):
        likelihood.tilted(np.array([0.0, m]), np.array([400.0, v]), np.zeros(2), phi)
    with pytest.raises(ConvergenceError, match="not finite"):
        likelihood.expectations(np.array([m]), np.array([v]), np.zeros(1), phi)


@case
def test_prediction_matches_draws(name: str) -> None:
    likelihood, phi, _ = CASES[name]
    rng, n = np.random.default_rng(3), 200_000
    m, v = np.array([0.4]), np.array([0.3])
    mean, variance = likelihood.predict(m, v, phi)
    y = likelihood.draw(rng, m + np.sqrt(v) * rng.standard_normal(n), phi)
    assert y.mean() == pytest.approx(mean[0], abs=monte_carlo(y.std() / np.sqrt(n)))
    if name != "student-t":  # its fourth moment is infinite at nu = 3
        spread = (y - y.mean()) ** 2
        assert spread.mean() == pytest.approx(
            variance[0], abs=monte_carlo(spread.std() / np.sqrt(n))
        )
    generic = lk.Likelihood.predict(likelihood, m, v, phi)
    np.testing.assert_allclose(generic, (mean, variance), rtol=1e-9)


def test_probit_is_accurate_in_the_tails() -> None:
    import mpmath

    z = np.array([-1e4, -200.0, -30.0, -8.5, -7.9, -1.0, 3.0, 40.0])
    y = np.ones_like(z)
    first, second, _ = lk.BernoulliProbit().derivatives(z, y, np.array([]))
    mpmath.mp.dps = 60
    for a, r, curvature in zip(z, first, second, strict=True):
        hazard = mpmath.npdf(a) / mpmath.ncdf(a)
        assert r == pytest.approx(float(hazard), rel=1e-12, abs=1e-200)
        assert curvature == pytest.approx(float(-hazard * (a + hazard)), rel=1e-10, abs=1e-200)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (lk.BernoulliProbit(), [-1, 1, 1], r"got -1 and 1: pass \(y \+ 1\) / 2"),
        (lk.BernoulliLogit(), [0, 1, 2], "got 2.0; for more classes use Categorical"),
        (lk.BernoulliLogit(), [0, np.nan], "must be finite, got nan in row 1"),
        (lk.StudentT(), [1.0, np.inf], "must be finite"),
        (lk.Poisson(), [1, -2], "counts 0, 1, 2"),
        (lk.NegativeBinomial(), [0.5], "counts 0, 1, 2"),
        (lk.Gaussian(), [[1.0, 2.0]], "one-dimensional"),
        (lk.Gaussian(), ["a"], "must hold numbers"),
    ],
)
def test_bad_observations_are_refused(likelihood, y, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        likelihood.check(y)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="sigma must be positive and finite, got"):
        lk.StudentT().check_parameters(np.array([3.0, -1.0]))


@pytest.mark.parametrize("likelihood", [lk.Poisson(), lk.NegativeBinomial(2.0)])
def test_counts_beyond_numpys_are_drawn_and_predicted(likelihood) -> None:
    rng, phi = np.random.default_rng(1), np.full(len(likelihood.names), 2.0)
    f = np.full(4000, 40.0)  # e^40 = 2e17
    y, (mean, variance) = likelihood.draw(rng, f, phi), likelihood.moments(f, phi)
    z = (y - mean) / np.sqrt(variance)
    assert abs(z.mean()) < monte_carlo(1 / np.sqrt(4000))
    assert likelihood.draw(rng, np.array([800.0]), phi) == np.inf
    mean, variance = likelihood.predict(np.array([0.0, -2e3]), np.array([400.0, 800.0]), phi)
    assert mean[0] == np.exp(200.0) and variance[0] == np.inf
    assert mean[1] == 0 and variance[1] == 0  # exp(-1600), exp(-2400)


@pytest.mark.parametrize("large", [1e6, 1e9, 1e12, 1e16])
def test_limits_of_large_parameters(large: float) -> None:
    """Their log densities differ by about 1/parameter times a square."""
    f, y = np.log([1.0, 2.0, 6.0, 90.0]), np.array([0.0, 1.0, 5.0, 100.0])
    found = lk.NegativeBinomial().log_prob(f, y, np.array([large]))
    np.testing.assert_allclose(found, stats.poisson.logpmf(y, np.exp(f)), atol=1e3 / large + 1e-6)
    found = lk.StudentT().log_prob(f, y / 20, np.array([large, 0.5]))
    z = stats.norm.logpdf(y / 20, f, 0.5)
    np.testing.assert_allclose(found, z, atol=1e3 / large + 1e-12)


def log_prob_in_60_digits(name: str, parameters: tuple, f: float, y: float) -> mp.mpf:
    first, *more = parameters
    if name == "negative binomial":
        x = f - mp.log(first)
        count = mp.loggamma(y + first) - mp.loggamma(first) - mp.loggamma(y + 1)
        return count - y * mp.log1p(mp.exp(-x)) - first * mp.log1p(mp.exp(x))
    (s,) = more
    constant = mp.loggamma((first + 1) / 2) - mp.loggamma(first / 2) - mp.log(first * mp.pi) / 2
    return constant - mp.log(s) - (first + 1) / 2 * mp.log1p(((y - f) / s) ** 2 / first)


@pytest.mark.parametrize("large", [0.3, 4.0, 250.0, 1e5, 1e8, 1e12])
@pytest.mark.parametrize("name", ["negative binomial", "student"])
def test_derivatives_by_a_parameter_keep_their_digits(name: str, large: float) -> None:
    """They fall with its square, where the terms that they were summed from do not."""
    made, more = (lk.NegativeBinomial(), ()) if name != "student" else (lk.StudentT(), (0.7,))
    f, y = np.array([0.3, 2.0, -1.0, 5.0]), np.array([3.0, 9.0, 0.0, 140.0])
    found = made.parameter_derivatives(f, y, np.array([large, *more]))[0]
    with mp.workdps(60):
        for i, at in enumerate(f):

            def exact(t: mp.mpf, z: mp.mpf, i: int = i) -> mp.mpf:
                return log_prob_in_60_digits(name, (t, *map(mp.mpf, more)), z, mp.mpf(y[i]))

            for order in range(3):
                wanted = mp.diff(exact, (mp.mpf(large), mp.mpf(at)), (1, order))
                assert found[order, i] == pytest.approx(float(wanted), rel=1e-8, abs=0)


@pytest.mark.parametrize("name", CASES)
def test_tilted_moments_without_variance(name: str) -> None:
    likelihood, phi, y = CASES[name]
    y = np.array(y)
    f = np.full(len(y), 0.3)
    t = likelihood.tilted(f, np.zeros(len(y)), y, phi)
    np.testing.assert_allclose(t.log_normaliser, likelihood.log_prob(f, y, phi), rtol=1e-9)
    np.testing.assert_allclose(t.mean, f, rtol=1e-9)


def test_masked_observations_are_refused() -> None:
    y = np.ma.masked_values([1.0, -999.0, 0.5], -999.0)
    with pytest.raises(ValueError, match="y has 1 masked entries: leave their rows out"):
        lk.Gaussian().check(y)
    assert lk.Gaussian().check(np.ma.asarray([1.0, 0.5])).tolist() == [1.0, 0.5]
