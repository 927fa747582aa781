"""What a factorising likelihood offers to every update rule.

Notation: ℓ(f) = log p(y | f), normaliser included; ℓ', ℓ'', ℓ''' its derivatives in the latent f;
φ the likelihood's own parameters (constrained), in the order of ``names``. Arrays broadcast: f has
shape (..., n) against y (n,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pytensor.tensor import TensorLike
from scipy.special import logsumexp

from pymc_ext.gp.errors import HyperparameterError
from pymc_ext.gp.likelihoods.tilted import TiltedDensity
from pymc_ext.gp.quadrature import gaussian_nodes
from pymc_ext.maths.types import Array

Parameters = Array  # (P,), constrained
# Variance, in squared widths of p(y|f), in place of 0: a sd far above a mean's last digit and far
# below what is seen. Ten times either way moves log Z by 9e-13; at 1e-12 it is off by 2e-9
SMALLEST = 1e-20


class Expectations(NamedTuple):
    """E_q ℓ (n,), E_q of its first four derivatives (4, n) and E_q ∂φ of ℓ, ℓ', ℓ'' (P, 3, n)."""

    value: Array
    derivatives: Array
    parameters: Array


class Tilted(NamedTuple):
    """log Ẑ, mean and variance of p(y|f)^a q(f) / Ẑ, each (n,); E ∂φℓ under it (P, n)."""

    log_normaliser: Array
    mean: Array
    variance: Array
    parameters: Array


class Likelihood(ABC):
    """A factorising likelihood Π p(y_i | f_i, φ) with one latent per observation.

    Subclasses give ℓ and its derivatives; expectations and tilted moments come from quadrature
    unless a closed form is known. Its own parameters ``**parameters`` are scalars, numbers or
    variables of a model. With L latents an observation f, and all that is of each latent, has a
    last axis L.
    """

    names: ClassVar[tuple[str, ...]] = ()
    log_concave: ClassVar[bool] = True
    discrete: ClassVar[bool] = False  # p(y|f) is a probability, at most 1
    n_latent: int = 1

    def __init__(self, **parameters: TensorLike):
        self.parameters = parameters

    @abstractmethod
    def check(self, y: ArrayLike) -> Array:
        """Observations y (n,) as floats, (n,); raises ValueError on values outside the support."""

    @abstractmethod
    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        """ℓ (..., n), normaliser included, at f (..., n) for y (n,) and φ (P,)."""

    @abstractmethod
    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        """ℓ', ℓ'', ℓ''', each (..., n), at f (..., n) for y (n,) and φ (P,)."""

    @abstractmethod
    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        """Centre and width of ℓ's features in f, each (n,), for y (n,) and φ (P,).

        They say how finely to integrate, or not at all.
        """

    @abstractmethod
    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        """E[y | f] and Var[y | f], each (..., n), at f (..., n) for φ (P,)."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        """One y for every observation's f, (..., n), at f (..., n) for φ (P,)."""

    def parameter_derivatives(self, f: Array, y: Array, phi: Parameters) -> Array:
        """∂φ of ℓ, ℓ', ℓ'' at f (..., n) for y (n,) and φ (P,): shape (P, 3, *f.shape)."""
        shape = f.shape if self.n_latent > 1 else np.broadcast_shapes(f.shape, y.shape)
        return np.empty((0, 3, *shape))

    def check_parameters(self, phi: Parameters) -> None:
        """Raise HyperparameterError unless φ (P,) is in its support: positive, finite."""
        for name, value in zip(self.names, phi, strict=True):
            if not (np.isfinite(value) and value > 0):
                raise HyperparameterError(
                    f"{name} must be positive and finite, got {float(value)!r}"
                )

    def matched(self, y: Array, phi: Parameters, method: str, alpha: float) -> tuple[Array, Array]:
        """Mean and variance of the Gaussian that replaces every p(y_i | f), see `Matching`.

        Both are of f, each (n,), for y (n,) and φ (P,).

        Raises
        ------
        ValueError
            The table of matches has no Gaussian for this likelihood.
        """
        raise ValueError(
            f"no Gaussian stands for {type(self).__name__} in the table of matches: use "
            "BernoulliLogit, Categorical or Poisson, or rule=CVI()"
        )

    def start(self, y: Array, phi: Parameters, prior_mean: Array) -> Array:
        """Latents where a mode search starts, (n,), by y (n,), φ (P,) and ``prior_mean`` (n,)."""
        return prior_mean.copy()

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        """Expectations under N(mean, variance), derivatives up to ``order`` (the rest is zero).

        ``mean`` and ``variance`` are of the latents, each (n,); y (n,), φ (P,).
        """
        sd = np.sqrt(variance)
        P, n = len(self.names), len(y)
        value, deriv, par = np.empty(n), np.zeros((4, n)), np.empty((P, 3, n))
        for i, f, log_w in gaussian_nodes(mean, sd, *self.scale(y, phi)):
            w = np.exp(log_w)
            value[i] = np.sum(w * self.log_prob(f, y[i], phi), axis=0)
            d1, d2, d3 = self.derivatives(f, y[i], phi)
            deriv[0, i], deriv[1, i] = np.sum(w * d1, axis=0), np.sum(w * d2, axis=0)
            if order > 2:
                deriv[2, i] = np.sum(w * d3, axis=0)
                z = (f - mean[i]) / sd[i]
                deriv[3, i] = np.sum(w * d3 * z, axis=0) / sd[i]  # Stein: E ℓ'''' = E ℓ''' z / s
            if P:
                par[:, :, i] = np.sum(w * self.parameter_derivatives(f, y[i], phi), axis=2)
        return Expectations(value, deriv, par)

    def tilted(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        power: float = 1.0,
    ) -> Tilted:
        """Moments of p(y|f)^power N(f | mean, variance), normalised.

        ``mean`` and ``variance`` are of the latents, each (n,); y (n,), φ (P,).
        """
        P, n = len(self.names), len(y)
        variance = np.maximum(variance, SMALLEST * self.scale(y, phi)[1] ** 2)
        log_z, mu, var, par = np.empty(n), np.empty(n), np.empty(n), np.empty((P, n))
        for i, f, log_w in TiltedDensity(self, mean, variance, y, phi, power).nodes():
            log_r = power * self.log_prob(f, y[i], phi) + log_w
            log_z[i] = logsumexp(log_r, axis=0)
            r = np.exp(log_r - log_z[i])
            mu[i] = np.sum(r * f, axis=0)
            var[i] = np.sum(r * (f - mu[i]) ** 2, axis=0)
            if P:
                par[:, i] = np.sum(r * self.parameter_derivatives(f, y[i], phi)[:, 0], axis=1)
        return Tilted(log_z, mu, var, par)

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        """Mean and variance of y, each (n,), when f ~ N(mean, variance) (n,), for φ (P,)."""
        total, second = np.empty_like(mean), np.empty_like(mean)
        c, w = self.scale(np.zeros_like(mean), phi)
        for i, f, log_w in gaussian_nodes(mean, np.sqrt(variance), c, w):
            m, v = self.moments(f, phi)
            weight = np.exp(log_w)
            total[i] = np.sum(weight * m, axis=0)
            second[i] = np.sum(weight * (v + (m - total[i]) ** 2), axis=0)
        return total, second

    def __repr__(self) -> str:
        inside = ", ".join(f"{k}={v!r}" for k, v in self.parameters.items())
        return f"{type(self).__name__}({inside})"


def check_finite(y: ArrayLike) -> Array:
    """``y`` as a float array (n,); raises ValueError unless it is one-dimensional and finite."""
    if np.ma.is_masked(y):
        raise ValueError(
            f"y has {np.ma.count_masked(y)} masked entries: leave their rows out of X and y, and "
            "predict there"
        )
    y = np.asarray(y)
    if y.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers, got dtype {y.dtype}")
    y = y.astype(float)
    if y.ndim != 1 or y.size == 0:
        column = "; use y[:, 0]" if y.ndim == 2 and y.shape[1] == 1 else ""
        raise ValueError(f"y must be one-dimensional and not empty, got shape {y.shape}{column}")
    if not np.isfinite(y).all():
        bad = np.flatnonzero(~np.isfinite(y))
        raise ValueError(
            f"y must be finite, got {y[bad[0]].item()!r} in row {bad[0]} ({bad.size} such)"
        )
    return y


def check_counts(y: ArrayLike) -> Array:
    """``y`` as whole numbers >= 0."""
    y = check_finite(y)
    bad = (y < 0) | (y != np.floor(y))
    if bad.any():
        raise ValueError(f"y must hold counts 0, 1, 2, ..., got {float(y[bad][0])!r}")
    return y
