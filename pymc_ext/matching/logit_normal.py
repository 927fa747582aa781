"""The two criteria that need a root: Gaussians over logit ω for ω ~ Beta(a, b).

With D_j(μ, τ) = ∂ʲ/∂μʲ E log(1 + e^ψ), ψ ~ N(μ, τ²), both share E s(ψ) = D₁ = a/(a+b), and each has
a second equation. Newton's method runs on the logarithms of both in r = μ/τ and t = log τ, with
a ≤ b (otherwise ψ is mirrored) so that D₁ keeps its relative accuracy.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import ndtri

from pymc_ext.matching.methods import Method, Moments
from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, Acceleration, series
from pymc_ext.maths.types import Array

_ACCELERATED: Acceleration = "cohen-villegas-zagier"
TOLERANCE = 1e-13  # relative, on the last Newton step: 450 roundings of a double
MAX_ITERATIONS = 60  # 14 are the most for counts of 1e-3 to 1e8, 5 but for moment-ori
PROBIT_SCALE = 8 / np.pi * 1.1  # s(x) ≈ Φ(x/√2.8), of a start: 1e-9 and 8/π take as many steps
MAX_COUNT_ORIGINAL = 1e6  # where rounding leaves 1e-9 of the variance of ω


class Derivatives(NamedTuple):
    """D₁, D₂, D₃, ∂D₁/∂t and ∂D₂/∂t, (n,) each."""

    D1: Array
    D2: Array
    D3: Array
    D1_t: Array
    D2_t: Array


class ByRoot(Method):
    """D₁ = a/(a+b) with a second equation."""

    name: ClassVar[str]

    @abstractmethod
    def second(self, D: Derivatives, t: Array, count: Array) -> tuple[Array, Array, Array]:
        """The second equation, as F = 0 with F a logarithm, ∂F/∂μ and ∂F/∂t; count a+b (n,)."""

    @abstractmethod
    def probit_variance(self, a: Array, b: Array, height: Array) -> Array:
        """τ² that solves it for s(x) = Φ(x/c₀), whose E s′ is height/c with c² = τ² + c₀²."""

    def rounding(self, count: Array) -> Array | float:
        """Relative error that rounding leaves in the second equation."""
        return 0.0

    def logit_beta(self, a: Array, b: Array) -> Moments:
        """Elementwise, to the accuracy of the equations, 1e-12 for the variational ones.

        Raises
        ------
        RuntimeError
            If Newton's method does not converge.
        """
        low, high = np.minimum(a, b).ravel(), np.maximum(a, b).ravel()
        r, t = self._newton(low, high)
        sign = np.where(a <= b, 1.0, -1.0)
        return (sign * (r * np.exp(t)).reshape(a.shape)), np.exp(2 * t).reshape(a.shape)

    def _newton(self, a: Array, b: Array) -> tuple[Array, Array]:
        r, t = self._start(a, b)
        done = np.zeros(len(a), dtype=bool)  # each once: what rounding leaves of later steps varies
        for _ in range(MAX_ITERATIONS):
            step = self._newton_step(r, t, a, b)
            r, t = r + step[0], t + step[1]
            done |= np.all(np.abs(step) <= self._smallest_step(r, t, a + b), axis=0)
            if done.all():
                return r, t
        left = np.where(done, 0, np.nan_to_num(np.abs(step), nan=np.inf).max(axis=0))
        worst = int(np.argmax(left))
        raise RuntimeError(
            f"{self.name} matching of Beta({float(a[worst])!r}, {float(b[worst])!r}) did not "
            f"converge in {MAX_ITERATIONS} Newton steps; use method='moment' or 'laplace'"
        )

    def _smallest_step(self, r: Array, t: Array, count: Array) -> Array:
        """What rounding leaves of steps in (r, t): μ, not r, is what is resolved if τ < 1."""
        in_t = TOLERANCE + self.rounding(count)
        in_r = TOLERANCE * np.exp(-np.minimum(t, 0)) + in_t * np.abs(r)
        return np.stack([in_r, in_t * (1 + np.abs(t))])

    def _start(self, a: Array, b: Array) -> tuple[Array, Array]:
        """The best of three limits, by the residuals it leaves: (r, t)."""
        starts = [self._probit_start(a, b), _many_counts_start(a, b), self._rare_start(a, b)]
        residuals = [np.abs(self._equations(r, t, a, b)[0]).max(axis=0) for r, t in starts]
        best = np.argmin(np.where(np.isfinite(residuals), residuals, np.inf), axis=0)[None]
        r, t = (np.take_along_axis(np.stack(c), best, axis=0)[0] for c in zip(*starts, strict=True))
        return r, t

    def _probit_start(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Exact for s(x) = Φ(x/c₀): E s = Φ(μ/c), E s′ = φ(μ/c)/c with c² = τ² + c₀²."""
        quantile = ndtri(a / (a + b))
        height = np.exp(-(quantile**2) / 2) / np.sqrt(2 * np.pi)
        variance = self.probit_variance(a, b, height)
        return quantile * np.sqrt(1 + PROBIT_SCALE / variance), 0.5 * np.log(variance)

    def _rare_start(self, a: Array, b: Array) -> tuple[Array, Array]:
        """a/b → 0: logit ω ≈ log ω and ω ≈ Gamma(a, b), whose rows have mean log(a/b) − v/2."""
        _, v = self.log_gamma(a)
        return (np.log(a / b) - v / 2) / np.sqrt(v), 0.5 * np.log(v)

    def _equations(self, r: Array, t: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """F = (log D₁ − log p, log of the second equation), (2, n); its Jacobian in (μ, t)."""
        tau = np.exp(t)
        mu = r * tau
        D1, D2, _ = expected_softplus_derivatives(mu, tau, series(1, DEFAULT_TERMS, _ACCELERATED))
        D3, D4, _ = expected_softplus_derivatives(mu, tau, series(3, DEFAULT_TERMS, _ACCELERATED))
        D = Derivatives(D1, D2, D3, tau**2 * D3, tau**2 * D4)  # ∂t = τ∂τ, and ∂τ D_j = τ D_{j+2}
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # poor starts only
            F1, J1 = np.log(D1) - np.log(a / (a + b)), [D2 / D1, D.D1_t / D1]
            F2, *J2 = self.second(D, t, a + b)
            return np.stack([F1, F2]), np.array([J1, J2])

    def _newton_step(self, r: Array, t: Array, a: Array, b: Array) -> Array:
        """−J⁻¹F turned to (r, t), shape (2, n)."""
        F, J = self._equations(r, t, a, b)
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN steps are reported by `_newton`
            determinant = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
            in_mu = (J[0, 1] * F[1] - J[1, 1] * F[0]) / determinant
            in_t = (J[1, 0] * F[0] - J[0, 0] * F[1]) / determinant
        return np.stack([in_mu * np.exp(-t) - r * in_t, in_t])  # μ = r e^t


def _many_counts_start(a: Array, b: Array) -> tuple[Array, Array]:
    """a, b → ∞: the Laplace row."""
    t = 0.5 * np.log(1 / a + 1 / b)
    return np.log(a / b) * np.exp(-t), t


class Variational(ByRoot):
    """Minimises KL(q‖p) over Gaussians.

    log Gamma(a, 1): N(log a − 1/(2a), 1/a). logit Beta(a, b): KL(q‖p) = −½ log τ² − a μ +
    (a+b) D₀ + const, so ∂μ gives D₁ = a/(a+b) and ∂τ² gives (a+b) D₂ τ² = 1, since
    ∂D₀/∂τ² = ½ D₂ (heat equation).
    """

    name = "variational"

    def log_gamma(self, a: Array) -> Moments:
        return np.log(a) - 0.5 / a, 1 / a

    def second(self, D: Derivatives, t: Array, count: Array) -> tuple[Array, Array, Array]:
        return np.log(D.D2) + np.log(count) + 2 * t, D.D3 / D.D2, D.D2_t / D.D2 + 2

    def probit_variance(self, a: Array, b: Array, height: Array) -> Array:
        s = (a + b) * height  # (a+b) τ² φ/c = 1
        return (1 / s + np.sqrt(1 / s**2 + 4 * PROBIT_SCALE)) / (2 * s)


class OriginalMoment(ByRoot):
    """Mean and variance of ω itself, matched by g⁻¹ of a Gaussian: Milios et al. (2018).

    log Gamma(a, 1): N(log a − v/2, v) with v = log(1 + 1/a). log InvGamma(a, 1), a > 2:
    N(−log(a−1) − v/2, v) with v = log((a−1)/(a−2)). logit Beta(a, b): Var s = D₁(1−D₁) − D₂ and
    E s(1−s) = D₂ are in the Beta's ratio 1/(a+b); the former is a difference of nearly equal
    numbers once a+b is large, relative error about (a+b)·1e-15, and a+b > `MAX_COUNT_ORIGINAL` is
    refused.
    """

    name = "moment-ori"

    def log_gamma(self, a: Array) -> Moments:
        v = np.log1p(1 / a)
        return np.log(a) - v / 2, v

    def log_inverse_gamma(self, a: Array, b: Array) -> Moments:
        if np.any(a <= 2):
            raise ValueError(
                f"moment-ori needs a finite variance of the inverse gamma: a must be > 2, "
                f"got {float(a.min())!r}; use another method"
            )
        v = np.log1p(1 / (a - 2))  # var/mean² = 1/(a−2)
        return np.log(b) - np.log(a - 1) - v / 2, v

    def logit_beta(self, a: Array, b: Array) -> Moments:
        if np.any(a + b > MAX_COUNT_ORIGINAL):
            raise ValueError(
                f"moment-ori of a Beta density needs a + b <= {MAX_COUNT_ORIGINAL:g}, got "
                f"{float(np.max(a + b))!r}; use method='variational', which agrees there"
            )
        return super().logit_beta(a, b)

    def second(self, D: Derivatives, t: Array, count: Array) -> tuple[Array, Array, Array]:
        D1, D2, D3, D1_t, D2_t = D
        V = D1 * (1 - D1) - D2  # variance of s(ψ); the Beta's is E ω(1−ω)/(a+b)
        in_mu = (D2 * (1 - 2 * D1) - D3) / V - D3 / D2
        in_t = (D1_t * (1 - 2 * D1) - D2_t) / V - D2_t / D2
        return np.log(V) + np.log(count) - np.log(D2), in_mu, in_t

    def probit_variance(self, a: Array, b: Array, height: Array) -> Array:
        slope = a / (a + b) * b / (a + b + 1)
        return np.maximum((height / slope) ** 2 - PROBIT_SCALE, 0.1)  # > 0: a start

    def rounding(self, count: Array) -> Array | float:
        return 10 * np.finfo(float).eps * count
