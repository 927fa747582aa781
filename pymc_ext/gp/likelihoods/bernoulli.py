"""Bernoulli labels through the normal (probit) or the logistic (logit) distribution function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from scipy.special import erfcx, expit, log_ndtr, ndtr

from pymc_ext.gp.likelihoods.likelihood import (
    Expectations,
    Likelihood,
    Parameters,
    Tilted,
    check_finite,
)
from pymc_ext.matching.targets import class_sites
from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, series
from pymc_ext.maths.types import Array
from pymc_ext.ops.expected_softplus import expected_softplus

# Below it z + r cancels and the continued fraction is used: the sum has lost z² = 64 roundings,
# 2e-14 by mpmath; −4 and −16 give 5e-15 and 4e-14
FAR = -8.0
LEVELS = 40  # of the fraction: 20 give it to rounding for z < −8, 10 to 6e-12
# Points from which the compiled Op pays: .3 ms there, NumPy 4, so that its 9 s of compilation are
# back after 2,500 calls, some hundred fixed points
COMPILE_FROM = 2000


class _Bernoulli(Likelihood):
    discrete = True

    def __init__(self) -> None:
        super().__init__()

    def check(self, y: ArrayLike) -> Array:
        y = check_finite(y)
        if np.isin(y, (-1.0, 1.0)).all() and (y < 0).any():
            raise ValueError("y must hold labels 0 and 1, got -1 and 1: pass (y + 1) / 2")
        bad = ~np.isin(y, (0.0, 1.0))
        if bad.any():
            raise ValueError(
                f"y must hold labels 0 and 1, got {float(y[bad][0])!r}; for more classes use "
                "Categorical"
            )
        return y

    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        p = self.probability(f)
        return p, p * (1 - p)

    def probability(self, f: Array) -> Array:
        """p(y = 1 | f), (..., n) -> (..., n)."""
        raise TypeError("use BernoulliProbit or BernoulliLogit")

    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        return (rng.random(f.shape) < self.probability(f)).astype(float)


class BernoulliProbit(_Bernoulli):
    r"""Labels 0/1 with :math:`p(y=1 \mid f) = \Phi(f)`; tilted moments in closed form.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.BernoulliProbit()
    BernoulliProbit()

    References
    ----------
    Rasmussen & Williams (2006), Gaussian processes for machine learning, section 3.6.
    """

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        return log_ndtr((2 * y - 1) * f)

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        s = 2 * y - 1
        r, d = hazard(s * f)
        return s * r, -r * d, s * r * (d * (d + r) - 1)

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        return np.zeros_like(y), np.full_like(y, 2.8)  # nearest zero of Φ: 1.9 ± 2.8 i

    def probability(self, f: Array) -> Array:
        return ndtr(f)

    def tilted(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        power: float = 1.0,
    ) -> Tilted:
        if power != 1.0:
            return super().tilted(mean, variance, y, phi, power)
        s, c = 2 * y - 1, np.sqrt(1 + variance)  # R&W (3.58)
        z = s * mean / c
        r, d = hazard(z)
        mu = mean + s * variance * r / c
        var = variance - variance**2 * r * d / c**2
        return Tilted(log_ndtr(z), mu, var, np.empty((0, len(y))))

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        p = ndtr(mean / np.sqrt(1 + variance))  # R&W (3.82)
        return p, p * (1 - p)


class BernoulliLogit(_Bernoulli):
    r"""Labels 0/1 with :math:`p(y=1 \mid f) = 1/(1+e^{-f})`.

    Gaussian expectations are exact, by :func:`pymc_ext.expected_softplus`.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.BernoulliLogit()
    BernoulliLogit()

    References
    ----------
    Komodromos, Evangelou & Filippi (2024), Logistic Variational Bayes Revisited, arXiv:2406.00713.
    """

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        return -np.logaddexp(0, (1 - 2 * y) * f)

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        p, tail = expit(f), expit(f) * expit(-f)
        return (2 * y - 1) * expit((1 - 2 * y) * f), -tail, -tail * (1 - 2 * p)

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        return np.zeros_like(y), np.full_like(y, np.pi)  # poles at ± iπ

    def probability(self, f: Array) -> Array:
        return expit(f)

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        sign = 1 - 2 * y  # log p(y|f) = −softplus(sign f): no cancellation on either side
        value, d = softplus_terms(sign * mean, np.sqrt(variance), order)
        return Expectations(-value, -d * sign ** np.arange(1, 5)[:, None], np.empty((0, 3, len(y))))

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        p = softplus_terms(mean, np.sqrt(variance), 1)[1][0]  # E s(f) = ∂η/∂μ
        return p, p * (1 - p)

    def matched(self, y: Array, phi: Parameters, method: str, alpha: float) -> tuple[Array, Array]:
        table = class_sites(2, alpha, method, link="logit")
        label = y.astype(int)
        return table.mean[label, 0], table.variance[label, 0]


def hazard(z: Array) -> tuple[Array, Array]:
    """r = φ(z)/Φ(z) and z + r, both to full relative accuracy."""
    r = np.sqrt(2 / np.pi) / erfcx(-np.minimum(z, 30.0) / np.sqrt(2))
    r = np.where(z > 30, 0.0, r)  # below 1e-196
    far = z < FAR
    if not np.any(far):
        return r, z + r
    d = z + r
    d[far] = _continued_fraction(-z[far])
    return r, d


def _continued_fraction(u: Array) -> Array:
    """r − u = 1/(u + 2/(u + 3/(u + ...))) (Laplace), for u = −z > 0."""
    d = u.copy()
    for k in range(LEVELS, 1, -1):
        d = u + k / d
    return 1 / d


def softplus_terms(mean: Array, sd: Array, order: int) -> tuple[Array, Array]:
    """E log(1+e^f) and its derivatives in the mean up to ``order`` ≤ 4, as (n,) and (4, n)."""
    d = np.zeros((4, *mean.shape))
    value, d[0], by_sd = _terms(mean, sd, 0)
    if order > 1:
        d[1] = by_sd / sd  # heat equation
    if order > 2:
        _, d[2], by_sd = _terms(mean, sd, 2)
        d[3] = by_sd / sd
    return value, d


def _terms(mean: Array, sd: Array, order: int) -> tuple[Array, ...]:
    if order == 0 and mean.size >= COMPILE_FROM:
        return tuple(_compiled()(mean, sd))
    numbers = series(order, DEFAULT_TERMS, "cohen-villegas-zagier")
    return expected_softplus_derivatives(mean, sd, numbers)


@cache
def _compiled() -> Callable[..., list[Array]]:
    mu, sd = pt.dvectors("mu", "sd")
    return pytensor.function([mu, sd], expected_softplus(mu, sd).owner.outputs, trust_input=True)
