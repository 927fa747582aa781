"""Every row of the table against quadrature on the ψ axis, from tiny to large parameters."""

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize

from pymc_ext.matching import table
from tests.tolerances import EXACT, NUMERIC

# name -> (matching function, parameters, log density of ψ up to a constant, its right/left tails)
GAMMA_SHAPES = [1e-3, 0.1, 1.0, 1.1, 7.0, 1e3, 1e8]
BETA_PAIRS = [(1e-6, 1e-6), (0.1, 1.1), (1.1, 0.1), (1.2, 1e-3), (1, 1), (3, 50), (1e4, 2e4)]


def grid(centre, scale, left, right, n=400_001):
    """Dense grid that covers both a Gaussian part of width ``scale`` and exponential tails."""
    return np.linspace(centre - 14 * scale - left, centre + 14 * scale + right, n)


def quadrature_moments(log_density, psi):
    lp = log_density(psi)
    w = np.exp(lp - lp.max())
    w /= w.sum()
    mean = w @ psi
    return mean, w @ (psi - mean) ** 2


def log_gamma_density(a, b):
    return lambda psi: a * psi - b * np.exp(np.minimum(psi, 700.0))


def log_beta_density(a, b):
    return lambda psi: -a * np.logaddexp(0, -psi) - b * np.logaddexp(0, psi)


@pytest.mark.parametrize("a", GAMMA_SHAPES)
@pytest.mark.parametrize("b", [0.3, 20.0])
def test_gamma_moment_is_the_quadrature_moment(a, b):
    scale = min(np.sqrt(1 / a), 1.0)
    psi = grid(np.log(max(a, 1.0) / b), scale, 40 / a, 0)
    mean, variance = quadrature_moments(log_gamma_density(a, b), psi)
    got = table.match_gamma(a, b, "moment")
    np.testing.assert_allclose(got.variance, variance, rtol=NUMERIC)
    np.testing.assert_allclose(got.mean, mean, rtol=NUMERIC, atol=1e-6 * scale)


@pytest.mark.parametrize(("a", "b"), BETA_PAIRS)
def test_beta_moment_is_the_quadrature_moment(a, b):
    scale = np.sqrt(1 / a + 1 / b) if min(a, b) > 1 else 1.0
    left, right = 40 / a, 40 / b
    psi = grid(np.log(a / b), scale, left, right, n=2_000_001)
    mean, variance = quadrature_moments(log_beta_density(a, b), psi)
    got = table.match_beta(a, b, "moment")
    np.testing.assert_allclose(got.variance, variance, rtol=NUMERIC)
    np.testing.assert_allclose(got.mean, mean, rtol=NUMERIC, atol=1e-6 * np.sqrt(variance))


@pytest.mark.parametrize("a", [1e-9, 1e-6])
def test_moment_row_as_the_shape_vanishes(a):
    """log Gamma(a, 1) → −Exponential(a) + O(a): mean −1/a − γ, variance 1/a² + π²/6."""
    m, v = table.match_gamma(a, 1.0, "moment")
    assert m == pytest.approx(-1 / a - np.euler_gamma, rel=EXACT)
    assert v == pytest.approx(1 / a**2 + np.pi**2 / 6, rel=EXACT)


FAMILIES = {
    "gamma": (lambda m: table.match_gamma(2.5, 0.7, m), lambda s: 2.5 * s - 0.7 * mp.exp(s)),
    "gamma small": (lambda m: table.match_gamma(0.1, 1, m), lambda s: 0.1 * s - mp.exp(s)),
    "inverse gamma": (
        lambda m: table.match_inverse_gamma(3.5, 0.7, m),
        lambda s: -3.5 * s - 0.7 * mp.exp(-s),
    ),
    "exponential": (lambda m: table.match_exponential(4.0, m), lambda s: s - 4 * mp.exp(s)),
    "chi-square": (lambda m: table.match_chi_square(5.0, m), lambda s: 2.5 * s - mp.exp(s) / 2),
    "beta": (
        lambda m: table.match_beta(1.1, 0.4, m),
        lambda s: -1.1 * mp.log1p(mp.exp(-s)) - 0.4 * mp.log1p(mp.exp(s)),
    ),
}
INVERSE_LINK = {"beta": lambda s: 1 / (1 + mp.exp(-s))}


def integral(f, lo=-300, hi=300, pieces=60):
    return mp.quad(f, mp.linspace(lo, hi, pieces + 1))


@pytest.mark.parametrize("name", FAMILIES)
def test_laplace_is_the_mode_and_curvature(name):
    match, log_p = FAMILIES[name]
    m, v = match("laplace")
    with mp.workdps(40):
        assert abs(mp.diff(log_p, mp.mpf(float(m)))) < 1e-12
        assert float(-1 / mp.diff(log_p, mp.mpf(float(m)), 2)) == pytest.approx(v, rel=EXACT)


@pytest.mark.parametrize("name", FAMILIES)
def test_moment_rows_by_quadrature(name):
    match, log_p = FAMILIES[name]
    m, v = match("moment")
    Z = integral(lambda s: mp.exp(log_p(s)))
    mean = integral(lambda s: s * mp.exp(log_p(s))) / Z
    variance = integral(lambda s: (s - mean) ** 2 * mp.exp(log_p(s))) / Z
    assert m == pytest.approx(float(mean), rel=EXACT)
    assert v == pytest.approx(float(variance), rel=EXACT)


@pytest.mark.parametrize("name", FAMILIES)
def test_variational_rows_are_stationary_for_the_quadrature_divergence(name):
    """∂KL/∂m = −E_q[(log p)′] and ∂KL/∂v = −½E_q[(log p)″] − 1/(2v), by quadrature."""
    match, log_p = FAMILIES[name]
    m, v = (float(x) for x in match("variational"))

    def expectation(order):
        def f(z):
            return mp.npdf(z) * mp.diff(log_p, m + mp.sqrt(v) * z, order)

        return mp.quad(f, mp.linspace(-20, 20, 41))

    with mp.workdps(30):
        assert abs(expectation(1)) < 1e-10
        assert float(-1 / expectation(2)) == pytest.approx(v, rel=1e-9)


@pytest.mark.parametrize(
    ("match", "log_density"),
    [
        (table.match_gamma(1.1, 1.0), log_gamma_density(1.1, 1.0)),
        (table.match_beta(1.1, 0.4), log_beta_density(1.1, 0.4)),
    ],
)
def test_variational_is_the_minimum_of_the_divergence(match, log_density):
    z, w = np.polynomial.hermite_e.hermegauss(60)

    def divergence(q):
        return -q[1] - w @ log_density(q[0] + np.exp(q[1]) * z) / w.sum()

    options = {"xatol": 1e-10, "fatol": 1e-14}
    best = minimize(divergence, [0.0, 0.0], method="Nelder-Mead", options=options)
    expected = [best.x[0], np.exp(2 * best.x[1])]
    np.testing.assert_allclose(match, expected, rtol=NUMERIC)


@pytest.mark.parametrize("name", FAMILIES)
def test_moment_ori_matches_mean_and_variance_of_omega(name):
    match, log_p = FAMILIES[name]
    omega = INVERSE_LINK.get(name, mp.exp)
    m, v = (mp.mpf(float(x)) for x in match("moment-ori"))

    def moments(log_density, lo, hi):
        Z = integral(lambda s: mp.exp(log_density(s)), lo, hi)
        first = integral(lambda s: omega(s) * mp.exp(log_density(s)), lo, hi) / Z
        second = integral(lambda s: omega(s) ** 2 * mp.exp(log_density(s)), lo, hi) / Z
        return float(first), float(second - first**2)

    width = 25 * mp.sqrt(v) + 2 * v
    q = moments(lambda s: -((s - m) ** 2) / (2 * v), m - width, m + width)
    p = moments(log_p, -300, 300)
    np.testing.assert_allclose(q, p, rtol=1e-9)


@pytest.mark.parametrize(("a", "b"), [*BETA_PAIRS, (1e-12, 1.0), (0.3, 1e12), (1e12, 1e12)])
def test_variational_beta_solves_its_equations(a, b):
    """E s(ψ) = a/(a+b), (a+b) v E s′(ψ) = 1, with the expectations by a grid in ψ."""
    m, v = (float(x) for x in table.match_beta(a, b))
    psi = grid(m, np.sqrt(v), 0, 0)
    if np.sqrt(v) > 50:  # s′ is narrow: a fine grid around 0 and flat halves outside it
        density = np.exp(-((psi - m) ** 2) / (2 * v))
        total = density.sum() * (psi[1] - psi[0])
        fine = np.linspace(-40, 40, 200_001)
        inner = np.exp(-((fine - m) ** 2) / (2 * v)) / total
        step = fine[1] - fine[0]
        slope = (inner / (4 * np.cosh(fine / 2) ** 2)).sum() * step
        rtol = 1e-6
    else:
        w = np.exp(-((psi - m) ** 2) / (2 * v))
        w /= w.sum()
        slope = (w * np.exp(-np.logaddexp(0, psi) - np.logaddexp(0, -psi))).sum()
        rtol = 1e-9
        small = psi if a < b else -psi
        mean = (w * np.exp(-np.logaddexp(0, -small))).sum()
        np.testing.assert_allclose(mean, min(a, b) / (a + b), rtol=rtol)
    np.testing.assert_allclose((a + b) * v * slope, 1, rtol=rtol)


def test_beta_rows_are_antisymmetric_and_broadcast():
    a, b = np.array([0.1, 2.0, 30.0])[:, None], np.array([0.3, 1.1])
    for method in table.METHODS:
        m, v = table.match_beta(a, b, method)
        m_swapped, v_swapped = table.match_beta(b, a, method)
        assert m.shape == v.shape == (3, 2)
        np.testing.assert_allclose(m, -m_swapped, rtol=EXACT)
        np.testing.assert_allclose(v, v_swapped, rtol=EXACT)


@pytest.mark.parametrize("method", table.METHODS)
def test_all_methods_agree_for_many_counts(method):
    """As a, b → ∞ the posterior is Gaussian on every scale."""
    count = 1e5 if method == "moment-ori" else 1e10
    m, v = table.match_gamma(count, 2.0, method)
    assert m == pytest.approx(np.log(count / 2), rel=1 / count)
    assert v * count == pytest.approx(1, rel=2 / count)
    m, v = table.match_beta(3 * count, count, method)
    assert m == pytest.approx(np.log(3), abs=10 / count)
    assert v * count * 0.75 == pytest.approx(1, rel=20 / count, abs=1e-9)


def test_special_cases_are_rows_of_the_gamma():
    for method in table.METHODS:
        expected = table.match_gamma(1.0, 3.0, method)
        np.testing.assert_allclose(table.match_exponential(3.0, method), expected, rtol=EXACT)
        expected = table.match_gamma(2.5, 0.5, method)
        np.testing.assert_allclose(table.match_chi_square(5.0, method), expected, rtol=EXACT)


def test_published_closed_forms():
    """The table of methods.md, at one point each."""
    np.testing.assert_allclose(table.match_exponential(2.0), (-np.log(2) - 0.5, 1.0))
    moment = table.match_exponential(2.0, "moment")
    np.testing.assert_allclose(moment, (-np.log(2) - np.euler_gamma, np.pi**2 / 6))
    np.testing.assert_allclose(table.match_inverse_gamma(4.0, 3.0), (np.log(0.75) + 0.125, 0.25))
    np.testing.assert_allclose(table.match_chi_square(6.0), (np.log(6) - 1 / 6, 1 / 3))
    original = table.match_gamma(0.1, 1.0, "moment-ori")
    np.testing.assert_allclose(original, (np.log(0.1) - np.log(11) / 2, np.log(11)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: table.match_gamma(0.0), "a must be positive and finite, got 0.0"),
        (lambda: table.match_gamma(1.0, -2.0), "b must be positive and finite, got -2.0"),
        (lambda: table.match_beta(np.nan, 1.0), "a must be positive and finite, got nan"),
        (lambda: table.match_chi_square([1.0, np.inf]), "k must be positive and finite, got inf"),
        (lambda: table.match_exponential(0), "rate must be positive"),
        (lambda: table.match_beta(1.0, 1.0, "mean"), "method must be one of laplace"),
        (lambda: table.match_inverse_gamma(2.0, 1.0, "moment-ori"), "a must be > 2, got 2.0"),
        (lambda: table.match_beta(1e9, 1.0, "moment-ori"), "needs a"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_roots_are_found_over_sixty_decades_and_their_failure_is_an_error():
    a, b = np.meshgrid(10.0 ** np.arange(-30, 31, 5), 10.0 ** np.arange(-30, 31, 5))
    mean, variance = table.match_beta(a, b)
    assert np.isfinite(mean).all() and (variance > 0).all()
    with pytest.raises(RuntimeError, match="did not converge in 60 Newton steps; use method="):
        table.match_beta(1e-150, 1e150)


def test_many_rows_with_large_counts_converge_together() -> None:
    """Each row's own rounding decides when it is done."""
    counts = np.logspace(-3, 6, 37)
    a, b = (x.ravel() for x in np.meshgrid(counts, counts))
    a, b = a[a + b <= 1e6], b[a + b <= 1e6]
    found = table.match_beta(a, b, "moment-ori")
    one = table.match_beta(a[-1], b[-1], "moment-ori")
    assert found.mean[-1] == pytest.approx(one.mean, rel=1e-8)
