"""The fused Bernstein Op: against 40-digit arithmetic, finite differences and its own backends."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_ext.maths import bernstein_numpy
from pymc_ext.maths.bernstein_basis import bernstein_polynomial
from pymc_ext.ops.bernstein import BernsteinMap, BernsteinMapPullback, bernstein_map
from tests.needed import needs_mark

ORDERS = [1, 2, 3, 10, 50, 200]
LATENTS = np.array([-30.0, -8.1, -1.3, -1e-9, 0.0, 1e-9, 0.7, 5.2, 30.0])


def exact(x: float, raw: np.ndarray) -> tuple[float, float]:
    """Value and log derivative by the definition, in 60 digits."""
    with mp.workdps(60):
        M, u = len(raw), 1 / (1 + mp.exp(-mp.mpf(x)))
        basis = [mp.binomial(M, j) * u**j * (1 - u) ** (M - j) for j in range(M + 1)]
        coefficients = [mp.mpf(0)]
        for r in raw:
            coefficients.append(coefficients[-1] + mp.log1p(mp.exp(mp.mpf(float(r)))))
        value = sum(c * b for c, b in zip(coefficients, basis, strict=True))
        lower = [mp.binomial(M - 1, j) * u**j * (1 - u) ** (M - 1 - j) for j in range(M)]
        steps = [b - a for a, b in itertools.pairwise(coefficients)]
        slope = M * sum(s * b for s, b in zip(steps, lower, strict=True)) * u * (1 - u)
        return float(value), float(mp.log(slope))


def increments(order: int, rows: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng([seed, order]).normal(-1, 2, (rows, order))


def modes() -> list:
    return ["CVM", "py", "NUMBA", pytest.param("JAX", marks=needs_jax())]


def needs_jax() -> pytest.MarkDecorator:

    return needs_mark("jax")


def compiled(mode: str, function, order: int):
    x = pt.vector("x", dtype="float64")
    raw = pt.matrix("raw", shape=(None, order), dtype="float64")
    value, log_derivative = function(x, raw)
    outputs = [
        value,
        log_derivative,
        *pt.grad((0.3 * value - 0.7 * log_derivative).sum(), [x, raw]),
    ]
    mode = pytensor.compile.mode.Mode("py", "fast_compile") if mode == "py" else mode
    return pytensor.function([x, raw], outputs, mode=mode)


@pytest.mark.parametrize("order", ORDERS)
def test_value_and_log_derivative_match_exact_arithmetic(order):
    raw = increments(order, len(LATENTS))
    truth = np.array([exact(x, r) for x, r in zip(LATENTS, raw, strict=True)]).T
    value, log_derivative, *_ = compiled("CVM", bernstein_map, order)(LATENTS, raw)
    # relative in the value; absolute in the logarithm, which is relative in the derivative
    np.testing.assert_allclose(value, truth[0], rtol=6e-15 * max(1, order / 50))
    np.testing.assert_allclose(
        log_derivative, truth[1], rtol=4e-16, atol=6e-15 * max(1, order / 50)
    )


@pytest.mark.parametrize("order", [1, 10, 50])
@pytest.mark.parametrize("mode", modes())
def test_every_backend_agrees_with_numpy(mode, order):
    raw = increments(order, len(LATENTS))
    value, log_derivative, gx, graw = (
        np.asarray(v) for v in compiled(mode, bernstein_map, order)(LATENTS, raw)
    )
    expected = bernstein_numpy.bernstein(LATENTS, raw)
    one = np.ones(len(LATENTS))
    gradients = bernstein_numpy.bernstein_pullback(LATENTS, raw, 0.3 * one, -0.7 * one)
    # JAX adds log-binomials of size up to 30 in the exponent
    tolerance = 1e-13 if mode == "JAX" else 1e-14
    np.testing.assert_allclose(value, expected[0], rtol=tolerance)
    np.testing.assert_allclose(log_derivative, expected[1], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(gx, gradients[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(graw, gradients[1], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("order", [1, 2, 10, 50])
def test_gradients_match_finite_differences(order):
    x, raw = np.array([-2.3, 0.0, 1.1, 4.0]), increments(order, 4)
    f = compiled("CVM", bernstein_map, order)
    _, _, gx, graw = f(x, raw)

    def loss(x, raw):
        value, log_derivative, *_ = f(x, raw)
        return 0.3 * value - 0.7 * log_derivative

    h = 1e-5
    np.testing.assert_allclose(gx, (loss(x + h, raw) - loss(x - h, raw)) / (2 * h), rtol=1e-7)
    for k in {0, order // 2, order - 1}:
        step = np.zeros_like(raw)
        step[:, k] = h
        difference = (loss(x, raw + step) - loss(x, raw - step)) / (2 * h)
        np.testing.assert_allclose(graw[:, k], difference, rtol=1e-6, atol=1e-9)


def test_gradients_match_the_pure_graph_far_out_and_at_zero():
    raw = increments(20, len(LATENTS))
    fused = compiled("CVM", bernstein_map, 20)(LATENTS, raw)
    pure = compiled("CVM", bernstein_polynomial, 20)(LATENTS, raw)
    for a, b in zip(fused, pure, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_second_derivatives_are_those_of_the_pure_graph():
    x, raw = np.array([-0.4, 0.9]), increments(5, 2)
    v, r = pt.vector("v"), pt.matrix("r", shape=(None, 5))

    def hessian_product(function):
        value, log_derivative = function(v, r)
        first = pt.grad((value * log_derivative).sum(), [v, r])
        return pytensor.function([v, r], pt.grad((first[0] * first[1].sum(-1)).sum(), [v, r]))

    for a, b in zip(
        hessian_product(bernstein_map)(x, raw),
        hessian_product(bernstein_polynomial)(x, raw),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_leading_axes_broadcast():
    x, raw = np.linspace(-2, 2, 6).reshape(3, 2), increments(4, 2)
    value, log_derivative = (v.eval() for v in bernstein_map(x, raw))
    expected = bernstein_numpy.bernstein(x.ravel(), np.tile(raw, (3, 1)))
    np.testing.assert_allclose(value.ravel(), expected[0], rtol=1e-14)
    np.testing.assert_allclose(log_derivative.ravel(), expected[1], rtol=1e-13)


def test_strided_increments_give_the_same():
    v, r = pt.vector("v"), pt.matrix("r")
    f = pytensor.function(
        [v, pytensor.In(r, borrow=True)], BernsteinMap()(v, r), accept_inplace=True
    )
    x, raw = np.array([0.3, -1.0, 2.0]), increments(6, 3)
    for got, want in zip(f(x, np.asfortranarray(raw)), f(x, raw), strict=True):
        np.testing.assert_array_equal(got, want)


def test_nan_and_infinity_are_passed_on():
    f = compiled("CVM", bernstein_map, 3)
    raw = np.zeros((4, 3))
    raw[1, 2] = np.nan
    value, log_derivative, *_ = f(np.array([np.nan, 0.0, np.inf, -np.inf]), raw)
    assert np.isnan(value[:2]).all()
    assert np.isnan(log_derivative[:2]).all()
    np.testing.assert_allclose(value[2:], [3 * np.log(2), 0.0], rtol=1e-15)
    assert (log_derivative[2:] == -np.inf).all()


def test_increments_never_vanish():
    value, log_derivative, gx, graw = compiled("CVM", bernstein_map, 2)(
        np.array([0.5]), np.full((1, 2), -5000.0)
    )
    assert value[0] > 0
    assert np.isfinite([log_derivative[0], gx[0], *graw[0]]).all()


def test_wrong_shapes_are_refused():
    v, r = pt.vector("v"), pt.matrix("r")
    f = pytensor.function([v, r], BernsteinMap()(v, r))
    with pytest.raises(ValueError, match="one entry for each row"):
        f(np.zeros(3), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="at least one column"):
        f(np.zeros(2), np.zeros((2, 0)))
    with pytest.raises(TypeError, match="float64 tensor with 2 axes"):
        BernsteinMap()(v, v)
    with pytest.raises(TypeError, match="float64 tensor with 1 axes"):
        BernsteinMapPullback()(r, r, v, v)
    with pytest.raises(ValueError, match="order must be >= 1, got 0"):
        bernstein_map(np.zeros(2), np.zeros((2, 0)))
