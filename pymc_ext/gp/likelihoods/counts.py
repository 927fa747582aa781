"""Counts with a log link: Poisson and negative binomial."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from pytensor.tensor import TensorLike
from scipy.special import betaln, expit, gammaln

from pymc_ext.gp.likelihoods.bernoulli import softplus_terms
from pymc_ext.gp.likelihoods.likelihood import Expectations, Likelihood, Parameters, check_counts
from pymc_ext.gp.likelihoods.rests import digamma_rest, log1p_rest
from pymc_ext.matching.table import match_gamma
from pymc_ext.maths.types import Array

LARGEST_RATE = 1e15  # from there on Poisson's skewness, 3e-8, is lost in a double


def poisson(rng: np.random.Generator, rate: Array) -> Array:
    """Counts as floats, by their normal limit above `LARGEST_RATE`, where NumPy ends."""
    large = rate > LARGEST_RATE
    y = rng.poisson(np.where(large, 0.0, rate)).astype(float)
    z = rng.standard_normal(int(large.sum()))
    y[large] = np.rint(rate[large] * (1 + z / np.sqrt(rate[large])))
    return y


class Poisson(Likelihood):
    r"""Counts, :math:`y \mid f \sim \mathrm{Poisson}(e^f)`; expectations in closed form.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.Poisson()
    Poisson()
    """

    discrete = True

    def __init__(self) -> None:
        super().__init__()

    def check(self, y: ArrayLike) -> Array:
        return check_counts(y)

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        with np.errstate(over="ignore"):
            return y * f - np.exp(f) - gammaln(y + 1)

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        with np.errstate(over="ignore"):
            rate = np.exp(f)
        return y - rate, -rate, -rate

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        return np.log(y + 0.5), 1 / np.sqrt(y + 0.5)

    def start(self, y: Array, phi: Parameters, prior_mean: Array) -> Array:
        return np.log(y + 0.5)

    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            rate = np.exp(f)
        return rate, rate

    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        return poisson(rng, self.moments(f, phi)[0])

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        with np.errstate(over="ignore"):
            rate = np.exp(mean + variance / 2)
        value = y * mean - rate - gammaln(y + 1)
        return Expectations(
            value, np.stack([y - rate, -rate, -rate, -rate]), np.empty((0, 3, len(y)))
        )

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            rate, square = np.exp(mean + variance / 2), np.exp(2 * (mean + variance))  # E e^2f
            return rate, rate - square * np.expm1(-variance)

    def matched(self, y: Array, phi: Parameters, method: str, alpha: float) -> tuple[Array, Array]:
        return match_gamma(alpha + y, 1.0, method)


class NegativeBinomial(Likelihood):
    r"""Overdispersed counts with mean :math:`e^f` and variance :math:`e^f + e^{2f}/\alpha`.

    Parameters
    ----------
    alpha
        Shape (PyMC's ``alpha``), positive scalar: a number or a variable of the model; Poisson as
        it grows.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.NegativeBinomial(alpha=2.0)
    NegativeBinomial(alpha=2.0)
    """

    names = ("alpha",)
    discrete = True

    def __init__(self, alpha: TensorLike = 1.0):
        super().__init__(alpha=alpha)

    def check(self, y: ArrayLike) -> Array:
        return check_counts(y)

    def _constant(self, y: Array, a: float) -> Array:
        """log Γ(y+a) − log Γ(a) − log y!, without their cancellation for large a."""
        return -betaln(a, y + 1) - np.log(y + a)

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        a = phi[0]
        x = f - np.log(a)
        return self._constant(y, a) - y * np.logaddexp(0, -x) - a * np.logaddexp(0, x)

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        a = phi[0]
        p, tail = expit(f - np.log(a)), expit(np.log(a) - f)
        spread = (y + a) * p * tail
        return y * tail - a * p, -spread, -spread * (tail - p)

    def parameter_derivatives(self, f: Array, y: Array, phi: Parameters) -> Array:
        a = phi[0]
        x = f - np.log(a)
        p, tail = expit(x), expit(-x)
        u = y * tail / a - p  # (y − e^f)/(a + e^f)
        first = digamma_rest(a, y) + log1p_rest(u, np.log1p(y / a) - np.logaddexp(0, x))
        return np.stack([first, p * u, p * tail * (2 * u - y / a)])[None]

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        a = phi[0]
        precision = (y + 0.5) * a / (y + 0.5 + a)
        return np.log(y + 0.5), np.minimum(1 / np.sqrt(precision), np.pi)

    def start(self, y: Array, phi: Parameters, prior_mean: Array) -> Array:
        return np.log(y + 0.5)

    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            mean = np.exp(f)
            return mean, mean + mean**2 / phi[0]

    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        return poisson(rng, self.moments(f, phi)[0] * rng.gamma(phi[0], 1 / phi[0], f.shape))

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        a = phi[0]
        x, sd = mean - np.log(a), np.sqrt(variance)
        value, d = softplus_terms(x, sd, 4)
        par = super().expectations(mean, variance, y, phi).parameters
        derivatives = -(y + a) * d
        derivatives[0] += y
        return Expectations(self._constant(y, a) + y * x - (y + a) * value, derivatives, par)

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        with np.errstate(over="ignore"):
            rate, square = np.exp(mean + variance / 2), np.exp(2 * (mean + variance))  # E e^2f
            return rate, rate + square * (1 / phi[0] - np.expm1(-variance))
