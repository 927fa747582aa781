"""Bernstein basis and polynomial in pure PyTensor."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.special import expit
from scipy.stats import beta, binom

from pymc_ext.maths import bernstein_numpy
from pymc_ext.maths.bernstein_basis import bernstein_basis, bernstein_polynomial
from pymc_ext.maths.bernstein_coefficients import (
    check_order,
    identity_coefficients,
    inverse_softplus,
)

ORDERS = [1, 2, 10, 50, 200]
LATENTS = np.array([-30.0, -6.0, -0.5, 0.0, 0.5, 6.0, 30.0])


@pytest.mark.parametrize("order", ORDERS)
def test_basis_matches_scipy(order):
    j = np.arange(order + 1)
    x = LATENTS[:, None]
    # from the end where the probability is small: 1 - expit(30) has three correct digits
    truth = np.where(x > 0, binom.pmf(order - j, order, expit(-x)), binom.pmf(j, order, expit(x)))
    np.testing.assert_allclose(bernstein_basis(LATENTS, order).eval(), truth, rtol=0, atol=6e-15)
    np.testing.assert_allclose(bernstein_numpy.basis(LATENTS, order), truth, rtol=0, atol=6e-15)


def test_basis_is_the_scaled_beta_density_of_the_paper():
    M, u = 7, 0.3
    paper = [beta.pdf(u, i + 1, M - i + 1) / (M + 1) for i in range(M + 1)]  # eq. (1)
    x = np.log(u / (1 - u))
    np.testing.assert_allclose(bernstein_basis(x, M).eval(), paper, rtol=1e-13)


def test_basis_derivative_is_right_at_zero():
    x = pt.scalar("x")
    f = pytensor.function([x], pt.grad(bernstein_basis(x, 3)[1], x))
    u = 0.5
    expected = 3 * ((1 - u) ** 2 - 2 * u * (1 - u)) * u * (1 - u)
    np.testing.assert_allclose(f(0.0), expected, rtol=1e-14)


@pytest.mark.parametrize("order", ORDERS)
def test_polynomial_is_the_sum_of_coefficients_and_basis(order):
    raw = np.random.default_rng(order).normal(-1, 1, (len(LATENTS), order))
    value, log_derivative = (
        v.eval() for v in bernstein_polynomial(LATENTS, pt.as_tensor_variable(raw))
    )
    coefficients = np.cumsum(
        np.logaddexp(0, np.pad(raw, ((0, 0), (1, 0)), constant_values=-np.inf)), axis=1
    )
    basis = binom.pmf(np.arange(order + 1), order, expit(LATENTS)[:, None])
    np.testing.assert_allclose(value, (coefficients * basis).sum(1), rtol=2e-14, atol=6e-15)
    fused = bernstein_numpy.bernstein(LATENTS, raw)
    np.testing.assert_allclose(log_derivative, fused[1], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("order", [10, 30, 50, 100])
def test_identity_coefficients_are_near_the_identity(order):
    offset, increments = identity_coefficients(order)
    assert (increments > 0).all()
    z = np.linspace(-2, 2, 9)
    raw = np.tile(inverse_softplus(increments), (len(z), 1))
    value, log_derivative = bernstein_numpy.bernstein(z, raw)
    np.testing.assert_allclose(offset + value, z, atol=0.1)
    np.testing.assert_allclose(log_derivative, 0, atol=0.15)


def test_inverse_softplus():
    y = np.array([1e-8, 0.3, 5.0, 800.0])
    np.testing.assert_allclose(np.logaddexp(0, inverse_softplus(y)), y, rtol=1e-12)


@pytest.mark.parametrize("bad", [0, -3, 1001])
def test_order_out_of_range(bad):
    with pytest.raises(ValueError, match=rf"order must be .* got {bad}"):
        check_order(bad)


@pytest.mark.parametrize("bad", [2.5, "50", True, None])
def test_order_must_be_an_integer(bad):
    with pytest.raises(ValueError, match="order must be an integer >= 1"):
        check_order(bad)


def test_polynomial_needs_a_known_order():
    with pytest.raises(ValueError, match="static length"):
        bernstein_polynomial(pt.scalar(), pt.vector())
