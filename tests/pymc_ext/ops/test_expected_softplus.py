"""E[log(1 + e^X)] against 40-digit arithmetic, on every backend."""

import pickle

import mpmath as mp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, series
from pymc_ext.ops.expected_softplus import ExpectedSoftplus, _VectorisedElemwise, expected_softplus
from tests.needed import needs
from tests.pymc_ext.ops.expected_softplus_judge import (
    by_quadrature,
    by_series,
    plain_bound,
    reference,
)

CVZ = "cohen-villegas-zagier"
BACKENDS = {"c": "FAST_RUN", "python": pytensor.compile.Mode("py"), "numba": "NUMBA", "jax": "JAX"}


def compiled(backend, order=0, terms=DEFAULT_TERMS, acceleration=CVZ, dtype="float64"):
    if backend == "jax":
        needs("jax")
        expected_softplus(0.0, 1.0)  # first use registers the JAX kernel
    mode = BACKENDS[backend]
    if backend == "c":
        mode = pytensor.compile.Mode("cvm", "fast_run")
    mu, sigma = pt.vector("mu", dtype=dtype), pt.vector("sigma", dtype=dtype)
    op = _VectorisedElemwise(ExpectedSoftplus(order, terms, acceleration))
    f = pytensor.function([mu, sigma], op(mu, sigma), mode=mode, allow_input_downcast=True)
    return lambda *args: [np.asarray(out) for out in f(*args)]


def points():
    grid_mu = [-60, -33, -20, -9, -4, -1.5, -0.3, -1e-3, 0, 1e-9, 0.05, 0.8, 2.5, 6, 14, 27, 60]
    grid_sigma = [0, 1e-8, 1e-3, 0.03, 0.2, 0.6, 1, 2, 4, 7.5, 15.9, 16.1, 40, 150, 1e3]
    mu, sigma = (a.ravel() for a in np.meshgrid(grid_mu, grid_sigma))
    rng = np.random.default_rng(20)
    denormal = np.array(
        [[0, 5e-324], [5e-324, 5e-324], [1e-310, 2e-309], [3, 1e-310], [-5, 5e-324]]
    )
    mu = np.concatenate([mu, rng.uniform(-60, 60, 60), rng.normal(0, 3, 60), denormal[:, 0]])
    random_sigma = np.exp(rng.uniform(-7, np.log(1e3), 120))
    return mu, np.concatenate([sigma, random_sigma, denormal[:, 1]])


@pytest.fixture(scope="module")
def judged():
    mu, sigma = points()
    return mu, sigma, reference(mu, sigma)


@pytest.mark.parametrize(
    ("mu", "sigma"), [(-60, 0.5), (-3, 0.01), (0, 1), (0.7, 5), (12, 2), (20, 30), (-40, 300)]
)
def test_judge_agrees_with_quadrature(mu, sigma):
    values = [by_quadrature(mu, sigma, j) for j in range(5)]
    for j, value in enumerate(by_series(mu, sigma)):
        assert abs(value - values[j]) <= 1e-18 * values[min(j, 2)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_value_and_gradients_are_accurate(backend, judged):
    mu, sigma, truth = judged
    result = compiled(backend)(mu, sigma)
    for got, want, rtol in zip(result, truth, (1e-12, 1e-11, 1e-11), strict=True):
        error = np.abs(np.asarray(got) - want)
        allowed = np.maximum(rtol * np.abs(want), np.where(truth[0] < 1e-9, 1e-20, 1e-305))
        worst = np.argmax(error - allowed)
        assert np.all(error <= allowed), (mu[worst], sigma[worst], got[worst], want[worst])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", [1, 2])
def test_higher_derivatives_are_accurate_on_the_scale_of_the_second(backend, order):
    mu = np.array([-30, -4, -0.5, 0, 0.3, 2, 7, 9, 25, -3, 0.1, 50, 1.0])
    sigma = np.array([2, 0.3, 0.01, 1, 5, 12, 15, 20, 100, 900, 0, 1.0, 0.2])
    result = compiled(backend, order)(mu, sigma)
    for i, (m, s) in enumerate(zip(mu, sigma, strict=True)):
        d = [float(x) for x in by_series(m, s)]
        scale = d[2]
        assert abs(result[0][i] - d[order]) <= 1e-11 * max(abs(d[order]), scale)
        assert abs(result[1][i] - d[order + 1]) <= 1e-9 * max(abs(d[order + 1]), scale)
        assert abs(result[2][i] - s * d[order + 2]) <= 1e-9 * scale * max(s, 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sigma_zero_is_softplus(backend):
    mu = np.array([-700, -40, -1, 0, 1e-5, 3, 40, 700.0])
    value, d_mu, d_sigma = compiled(backend)(mu, np.zeros(8))
    np.testing.assert_allclose(value, np.logaddexp(0, mu), rtol=4e-16)
    np.testing.assert_allclose(d_mu, expit(mu), rtol=4e-16)
    np.testing.assert_array_equal(d_sigma, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ieee_special_values(backend):
    inf, nan = np.inf, np.nan
    mu = np.array([inf, -inf, inf, -inf, 0.5, inf, -inf, nan, 1, nan, 0.0, 1.0])
    sigma = np.array([1, 1, 0, 0, inf, inf, inf, 1, nan, 0, -1.0, -1e-300])
    value, d_mu, d_sigma = compiled(backend)(mu, sigma)
    np.testing.assert_array_equal(value[:5], [inf, 0, inf, 0, inf])
    np.testing.assert_array_equal(d_mu[:5], [1, 0, 1, 0, 0.5])
    np.testing.assert_allclose(d_sigma[:5], [0, 0, 0, 0, 1 / np.sqrt(2 * np.pi)])
    for part in (value, d_mu, d_sigma):
        assert np.isnan(part[5:]).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_huge_arguments_keep_their_limits(backend):
    # at 31 the step of the recurrence of the exponentials overflows
    mu = np.array([1e200, -1e200, 3.0, 1e300, -1e5, 1e5, 2000.0, -2000.0])
    sigma = np.array([1.0, 1.0, 1e200, 1e299, 400.0, 1e-300, 31.0, 31.0])
    value, d_mu, d_sigma = compiled(backend)(mu, sigma)
    assert np.isfinite(value).all() and np.isfinite(d_mu).all() and np.isfinite(d_sigma).all()
    limits = [1e200, 0, 1e300, 1e5, 2000, 0]
    np.testing.assert_allclose(value[[0, 1, 3, 5, 6, 7]], limits, rtol=1e-12)
    np.testing.assert_allclose(value[2], 1e200 / np.sqrt(2 * np.pi), rtol=1e-12)
    np.testing.assert_allclose(d_sigma[2], 1 / np.sqrt(2 * np.pi), rtol=1e-12)


def test_python_numbers_are_of_the_configured_precision():
    for mu, sigma in ((0.0, 1.0), (0, 1)):
        value = expected_softplus(mu, sigma)
        assert value.dtype == pytensor.config.floatX
        np.testing.assert_allclose(value.eval(), 0.8060591833474398, rtol=1e-14)


@pytest.mark.parametrize("backend", BACKENDS)
def test_float32_in_float32_out(backend):
    mu = np.linspace(-8, 8, 33, dtype="float32")
    sigma = np.geomspace(0.01, 100, 33).astype("float32")
    result = compiled(backend, dtype="float32")(mu, sigma)
    truth = reference(mu, sigma)
    for got, want in zip(result, truth, strict=True):
        assert np.asarray(got).dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=2e-6 if backend != "jax" else 1e-3)


@pytest.mark.parametrize(
    ("backend", "terms"),
    [*((b, 23) for b in BACKENDS), ("numba", 2), ("c", 24), ("python", 1), ("python", 5)],
)
def test_plain_series_is_equation_5(backend, terms):
    mu = np.array([-7, -2, -0.1, 0, 0.4, 3, 20, 1.0])
    sigma = np.array([1, 0.1, 2, 0.5, 8, 30, 3, 500.0])
    value, d_mu, d_sigma = compiled(backend, 0, terms, "none")(mu, sigma)
    truth = [float(plain_bound(m, s, terms)) for m, s in zip(mu, sigma, strict=True)]
    np.testing.assert_allclose(value, truth, rtol=1e-12)
    h = mp.mpf(10) ** -12
    for i, (m, s) in enumerate(zip(mu, sigma, strict=True)):
        with mp.workdps(60):
            m, s = mp.mpf(m), mp.mpf(s)
            by_mu = (plain_bound(m + h, s, terms) - plain_bound(m - h, s, terms)) / (2 * h)
            by_sigma = (plain_bound(m, s + h, terms) - plain_bound(m, s - h, terms)) / (2 * h)
        np.testing.assert_allclose(d_mu[i], float(by_mu), rtol=1e-10)
        np.testing.assert_allclose(d_sigma[i], float(by_sigma), rtol=1e-9, atol=1e-13)


def test_plain_series_higher_derivatives_follow_the_value():
    """At order m the plain kernel returns mu-derivatives of the order m − 1 outputs."""
    mu, sigma, h = np.array([-2.0, 0.3, 4.0, -1.0]), np.array([1.0, 0.7, 6.0, 30.0]), 1e-5
    for order in (1, 2, 3):
        for terms in (4, 5):
            below, here = series(order - 1, terms, "none"), series(order, terms, "none")
            plus, minus = (expected_softplus_derivatives(mu + d, sigma, below) for d in (h, -h))
            slope = [(p - m) / (2 * h) for p, m in zip(plus, minus, strict=True)]
            for got, want in zip(
                expected_softplus_derivatives(mu, sigma, here), slope, strict=True
            ):
                np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("backend", ["c", "numba", "jax"])
def test_plain_series_higher_derivatives_agree_on_every_backend(backend, order):
    mu, sigma = np.array([-2.0, 0.3, 4.0, -1.0, 30.0]), np.array([1.0, 0.7, 6.0, 30.0, 2.0])
    got = compiled(backend, order, 5, "none")(mu, sigma)
    want = expected_softplus_derivatives(mu, sigma, series(order, 5, "none"))
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("terms", [3, 6, 9, 12, 15])
def test_acceleration_keeps_its_error_bound(terms, judged):
    mu, sigma, truth = judged
    result = expected_softplus_derivatives(mu, sigma, series(0, terms, CVZ))
    bound = 2 * (3 + np.sqrt(8)) ** -float(terms)
    visible = truth[0] > 1e-250
    for got, want, factor in zip(result, truth, (1, 1, 4 * terms**2 + 1), strict=True):
        error = np.abs(got - want)[visible]
        assert np.all(error <= (factor * bound + 1e-13) * np.abs(want[visible]))
    worst = np.max(np.abs(result[0] - truth[0])[visible] / truth[0][visible])
    assert worst >= 0.01 * bound or terms > 12, "the documented bound should not be idle"


mus = st.floats(-50, 50)
sigmas = st.floats(1e-3, 200)


@settings(max_examples=150, deadline=None)
@given(mus, sigmas, st.integers(1, 40))
def test_odd_terms_bound_from_above_and_even_from_below(mu, sigma, pairs):
    exact = expected_softplus_derivatives(mu, sigma, series(0, DEFAULT_TERMS, CVZ))[0]
    upper = expected_softplus_derivatives(mu, sigma, series(0, 2 * pairs - 1, "none"))[0]
    lower = expected_softplus_derivatives(mu, sigma, series(0, 2 * pairs, "none"))[0]
    rounding = 1e-13 * exact
    assert lower - rounding <= exact <= upper + rounding


@settings(max_examples=200, deadline=None)
@given(mus, sigmas, st.floats(1.0001, 3))
def test_increasing_in_sigma(mu, sigma, factor):
    numbers = series(0, DEFAULT_TERMS, CVZ)
    small = expected_softplus_derivatives(mu, sigma, numbers)[0]
    large = expected_softplus_derivatives(mu, factor * sigma, numbers)[0]
    assert large >= small * (1 - 1e-14)


@settings(max_examples=200, deadline=None)
@given(mus, sigmas)
def test_reflection(mu, sigma):
    numbers = series(0, DEFAULT_TERMS, CVZ)
    right = expected_softplus_derivatives(mu, sigma, numbers)
    left = expected_softplus_derivatives(-mu, sigma, numbers)
    np.testing.assert_allclose(left[0], right[0] - mu, rtol=0, atol=1e-13 * (1 + abs(mu) + sigma))
    np.testing.assert_allclose(left[1], 1 - right[1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(left[2], right[2], rtol=1e-15)


@settings(max_examples=100, deadline=None)
@given(st.floats(-15, 15), st.floats(0.05, 100))
def test_gradients_are_finite_differences(mu, sigma):
    numbers = series(0, DEFAULT_TERMS, CVZ)
    h = 1e-3 * min(sigma, 1.0)

    def slope(f):  # fourth order
        return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)

    value, d_mu, d_sigma = expected_softplus_derivatives(mu, sigma, numbers)
    by_mu = slope(lambda e: expected_softplus_derivatives(mu + e, sigma, numbers)[0])
    by_sigma = slope(lambda e: expected_softplus_derivatives(mu, sigma + e, numbers)[0])
    rounding = 1e-14 * value / h
    np.testing.assert_allclose(d_mu, by_mu, rtol=1e-7, atol=1e-10 + 10 * rounding)
    np.testing.assert_allclose(d_sigma, by_sigma, rtol=1e-7, atol=1e-10 + 10 * rounding)


def test_first_and_second_gradients_through_the_graph():
    mu, sigma = pt.dscalars("mu", "sigma")
    value = expected_softplus(mu, sigma)
    first = pytensor.grad(value, [mu, sigma])
    second = [pytensor.grad(g, v) for g in first for v in (mu, sigma)]
    evaluate = pytensor.function([mu, sigma], [*first, *second])
    for m, s in [(-2.0, 0.5), (0.7, 3.0), (5.0, 20.0), (0.0, 0.0), (-1.0, 100.0)]:
        d = [float(x) for x in by_series(m, s)]
        want = [d[1], s * d[2], d[2], s * d[3], s * d[3], d[2] + s**2 * d[4]]
        np.testing.assert_allclose(evaluate(m, s), want, rtol=1e-9, atol=1e-10 * d[2])


@pytest.mark.parametrize("acceleration", [CVZ, "none"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_every_output_has_the_gradient_of_finite_differences(order, acceleration):
    op = _VectorisedElemwise(ExpectedSoftplus(order, DEFAULT_TERMS, acceleration))
    rng = np.random.default_rng(3)
    args = [rng.normal(0, 2, 5), rng.uniform(0.5, 3, 5)]
    for i in range(3):
        pytensor.gradient.verify_grad(lambda m, s, i=i: op(m, s)[i], args, rng=rng)


def test_jax_derives_through_the_kernel():
    jax = needs("jax")
    from pymc_ext.ops.expected_softplus_jax import _kernel

    def value(m, s):
        return _kernel(series(0, DEFAULT_TERMS, CVZ))(m, s)[0]

    with jax.enable_x64(True):
        d = [float(x) for x in by_series(0.7, 3.0)]
        np.testing.assert_allclose(jax.grad(value)(0.7, 3.0), d[1], rtol=1e-11)
        hessian = jax.hessian(value, argnums=(0, 1))(0.7, 3.0)
        np.testing.assert_allclose(hessian[0][0], d[2], rtol=1e-11)
        np.testing.assert_allclose(hessian[0][1], 3 * d[3], rtol=1e-9)
        np.testing.assert_allclose(hessian[1][1], d[2] + 9 * d[4], rtol=1e-9)


@pytest.mark.parametrize("backend", BACKENDS)
def test_broadcasts_and_accepts_integers(backend):
    if backend == "jax":
        needs("jax")
    mu, sigma = pt.lcol("mu"), pt.drow("sigma")
    out = pytensor.function([mu, sigma], expected_softplus(mu, sigma), mode=BACKENDS[backend])
    m, s = np.array([[-2], [0], [3]]), np.array([[0.5, 4.0]])
    want = expected_softplus_derivatives(m, s, series(0, DEFAULT_TERMS, CVZ))[0]
    got = out(m, s)
    assert np.shape(got) == (3, 2)
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_empty_input_gives_empty_output():
    value, _, _ = compiled("c")(np.zeros(0), np.zeros(0))
    assert value.shape == (0,)


def test_equal_parameters_mean_equal_ops():
    assert ExpectedSoftplus(0, 23, CVZ) == ExpectedSoftplus(0, 23, CVZ)
    assert ExpectedSoftplus(0, 23, CVZ) != ExpectedSoftplus(0, 22, CVZ)
    assert ExpectedSoftplus(0, 23, CVZ) != ExpectedSoftplus(0, 23, "none")
    assert ExpectedSoftplus(0, 23, CVZ) != ExpectedSoftplus(1, 23, CVZ)
    op = ExpectedSoftplus(0, 23, CVZ)
    assert pickle.loads(pickle.dumps(op)) == op


def test_float_constants_work_inside_a_larger_fused_graph():
    x = pt.dvector("x")
    graph = 2.0 * expected_softplus(x + 1.0, pt.exp(x)) - x
    f = pytensor.function([x], [graph, pytensor.grad(graph.sum(), x)])
    v = np.linspace(-2, 2, 7)
    want = expected_softplus_derivatives(v + 1, np.exp(v), series(0, DEFAULT_TERMS, CVZ))
    value, gradient = f(v)
    np.testing.assert_allclose(value, 2 * want[0] - v, rtol=1e-13)
    np.testing.assert_allclose(gradient, 2 * (want[1] + want[2] * np.exp(v)) - 1, rtol=1e-12)


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"terms": 0}, ValueError, "terms must be >= 1, got 0"),
        ({"terms": 2.5}, TypeError, "terms must be an integer, got 2.5"),
        ({"terms": True}, TypeError, "terms must be an integer"),
        ({"terms": [1]}, TypeError, r"terms must be an integer, got \[1\]"),
        ({"acceleration": ["none"]}, ValueError, "acceleration must be one of"),
        ({"terms": 100}, ValueError, "terms must be <= 60"),
        ({"acceleration": "aitken"}, ValueError, "acceleration must be one of"),
    ],
)
def test_bad_choices_raise(keywords, error, message):
    with pytest.raises(error, match=message):
        expected_softplus(0.0, 1.0, **keywords)


def test_negative_constant_sigma_raises():
    with pytest.raises(ValueError, match=r"sigma .* must be >= 0, got -0.5"):
        expected_softplus(0.0, np.array([1.0, -0.5]))


def test_derivatives_beyond_the_limit_raise():
    mu = pt.dscalar("mu")
    value = expected_softplus(mu, 1.0)
    with pytest.raises(ValueError, match="lost in rounding"):
        for _ in range(12):
            value = pytensor.grad(value, mu)
