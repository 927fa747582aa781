"""Likelihoods of real-valued observations: Gaussian and Student-t noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from pytensor.tensor import TensorLike
from scipy.special import betaln

from pymc_ext.gp.likelihoods.likelihood import (
    Expectations,
    Likelihood,
    Parameters,
    Tilted,
    check_finite,
)
from pymc_ext.gp.likelihoods.rests import digamma_rest, log1p_rest
from pymc_ext.maths.types import Array


class Gaussian(Likelihood):
    r"""Normal noise, :math:`y \mid f \sim N(f, \sigma^2)`: every rule is then exact.

    Of the two classes of this name, this is the likelihood; q is
    ``pymc_ext.variational.gaussian.posteriors.Gaussian``.

    Parameters
    ----------
    sigma
        Standard deviation of the noise, positive scalar: a number or a variable of the model.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.Gaussian(sigma=0.5)
    Gaussian(sigma=0.5)
    """

    names = ("sigma",)

    def __init__(self, sigma: TensorLike = 1.0):
        super().__init__(sigma=sigma)

    def check(self, y: ArrayLike) -> Array:
        return check_finite(y)

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        return -0.5 * ((y - f) / phi[0]) ** 2 - np.log(np.sqrt(2 * np.pi) * phi[0])

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        r = y - f
        return r / phi[0] ** 2, np.full_like(r, -1 / phi[0] ** 2), np.zeros_like(r)

    def parameter_derivatives(self, f: Array, y: Array, phi: Parameters) -> Array:
        r, s = y - f, phi[0]
        return np.stack([r**2 / s**3 - 1 / s, -2 * r / s**3, np.full_like(r, 2 / s**3)])[None]

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        return y, np.full_like(y, phi[0])

    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        return f, np.full_like(f, phi[0] ** 2)

    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        return f + phi[0] * rng.standard_normal(f.shape)

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        s, zero = phi[0], np.zeros_like(mean)
        value = self.log_prob(mean, y, phi) - 0.5 * variance / s**2
        d1, d2, _ = self.derivatives(mean, y, phi)
        par = self.parameter_derivatives(mean, y, phi)
        par[0, 0] += variance / s**3
        return Expectations(value, np.stack([d1, d2, zero, zero]), par)

    def tilted(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        power: float = 1.0,
    ) -> Tilted:
        s2, total = phi[0] ** 2 / power, phi[0] ** 2 / power + variance
        var, mu = variance * s2 / total, (mean * s2 + y * variance) / total
        log_z = -0.5 * ((y - mean) ** 2 / total + np.log(2 * np.pi * total))
        log_z += 0.5 * np.log(2 * np.pi * s2) - 0.5 * power * np.log(2 * np.pi * phi[0] ** 2)
        return Tilted(log_z, mu, var, self.expectations(mu, var, y, phi).parameters[:, 0])

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        return mean, variance + phi[0] ** 2

    def matched(self, y: Array, phi: Parameters, method: str, alpha: float) -> tuple[Array, Array]:
        return y, np.full_like(y, phi[0] ** 2)


class StudentT(Likelihood):
    r"""Student-t noise around the latent: robust regression.

    .. math:: p(y \mid f) = \frac{\Gamma(\frac{\nu+1}{2})}{\Gamma(\frac{\nu}{2})\sqrt{\nu\pi}\sigma}
              \left(1 + \frac{(y-f)^2}{\nu\sigma^2}\right)^{-(\nu+1)/2}

    Not log-concave: the Laplace approximation and EP may have several solutions, and sites may have
    negative precision. For ν ≤ 2 the variance of y is infinite, for ν ≤ 1 it and the mean are
    undefined (NaN): take quantiles of the latent, or draws.

    Parameters
    ----------
    nu
        Degrees of freedom, positive scalar: a number or a variable of the model.
    sigma
        Scale (not the standard deviation), positive scalar: a number or a variable of the model.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.StudentT(nu=3, sigma=0.1)
    StudentT(nu=3, sigma=0.1)

    References
    ----------
    Vanhatalo, Jylänki & Vehtari (2009), Gaussian process regression with Student-t likelihood.
    """

    names = ("nu", "sigma")
    log_concave = False

    def __init__(self, nu: TensorLike = 4.0, sigma: TensorLike = 1.0):
        super().__init__(nu=nu, sigma=sigma)

    def check(self, y: ArrayLike) -> Array:
        return check_finite(y)

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        nu, s = phi
        constant = -betaln(nu / 2, 0.5) - 0.5 * np.log(nu) - np.log(s)
        return constant - (nu + 1) / 2 * np.log1p(((y - f) / s) ** 2 / nu)

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        nu, s = phi
        r, a = y - f, nu * s**2
        D = a + r**2
        first = (nu + 1) * r / D
        second = (nu + 1) * (r**2 - a) / D**2
        return first, second, 2 * (nu + 1) * r * (r**2 - 3 * a) / D**3

    def parameter_derivatives(self, f: Array, y: Array, phi: Parameters) -> Array:
        nu, s = phi
        r, a = y - f, nu * s**2
        D = a + r**2
        v = r**2 / D
        constant = digamma_rest(nu / 2, 0.5) + log1p_rest(1 / nu)
        by_nu = [
            0.5 * (constant + log1p_rest(-v, -np.log1p(r**2 / a)) + v / nu),
            r * (r**2 - s**2) / D**2,
            (r**4 - 3 * (a + s**2) * r**2 + a * s**2) / D**3,
        ]
        by_s = [
            -1 / s + (nu + 1) * r**2 / (s * D),
            -2 * (nu + 1) * r * nu * s / D**2,
            -2 * (nu + 1) * nu * s * (3 * r**2 - a) / D**3,
        ]
        return np.stack([np.stack(by_nu), np.stack(by_s)])

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        return y, np.full_like(y, np.sqrt(phi[0]) * phi[1])  # poles at y ± i√ν σ

    def start(self, y: Array, phi: Parameters, prior_mean: Array) -> Array:
        return y.copy()

    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        nu, s = phi
        mean = f if nu > 1 else np.full_like(f, np.nan)
        variance = s**2 * nu / (nu - 2) if nu > 2 else np.inf if nu > 1 else np.nan
        return mean, np.full_like(f, variance)

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        m, v = self.moments(mean, phi)
        return m, v + variance

    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        return f + phi[1] * rng.standard_t(phi[0], f.shape)
