"""The two rows of the table that need a root: Gaussians over logit ω for ω ~ Beta(a, b).

With D_j(μ, τ) = ∂ʲ/∂μʲ E log(1 + e^ψ), ψ ~ N(μ, τ²), both rows share E s(ψ) = D₁ = a/(a+b):

1. variational: KL(q‖p) = −½ log τ² − a μ + (a+b) D₀ + const, so ∂μ gives the equation above and
   ∂τ² gives (a+b) D₂ τ² = 1, since ∂D₀/∂τ² = ½ D₂ (heat equation).
2. moment-ori: Var s = D₁(1−D₁) − D₂ and E s(1−s) = D₂ are in the Beta's ratio 1/(a+b).

Newton's method runs on the logarithms of both equations in r = μ/τ and t = log τ, with a ≤ b
(otherwise ψ is mirrored) so that D₁ keeps its relative accuracy.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from pymc_ext.maths.expected_softplus_numpy import expected_softplus_derivatives
from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, Acceleration, series
from pymc_ext.maths.types import Array

_ACCELERATED: Acceleration = "cohen-villegas-zagier"
TOLERANCE = 1e-13  # relative, on the last Newton step: 450 roundings of a double
MAX_ITERATIONS = 60  # 14 are the most for counts of 1e-3 to 1e8, 5 but for moment-ori
PROBIT_SCALE = 8 / np.pi * 1.1  # s(x) ≈ Φ(x/√2.8), of a start: 1e-9 and 8/π take as many steps
MAX_COUNT_ORIGINAL = 1e6  # where rounding leaves 1e-9 of the variance of ω


def match_logit_normal(a: Array, b: Array, method: str) -> tuple[Array, Array]:
    """Mean and variance of ψ, elementwise, ``method`` "variational" or "moment-ori", a, b checked.

    Relative accuracy 1e-12 (variational); in moment-ori the variance of ω is a difference of
    nearly equal numbers once a+b is large, relative error about (a+b)·1e-15, and a+b > 1e6 is
    refused.

    Raises
    ------
    ValueError
        For moment-ori with a+b > 1e6.
    RuntimeError
        If Newton's method does not converge.
    """
    if method == "moment-ori" and np.any(a + b > MAX_COUNT_ORIGINAL):
        raise ValueError(
            f"moment-ori of a Beta density needs a + b <= {MAX_COUNT_ORIGINAL:g}, got "
            f"{float(np.max(a + b))!r}; use method='variational', which agrees there"
        )
    shape = a.shape
    low, high = np.minimum(a, b).ravel(), np.maximum(a, b).ravel()
    r, t = _newton(low, high, method)
    sign = np.where(a <= b, 1.0, -1.0)
    return (sign * (r * np.exp(t)).reshape(shape)), np.exp(2 * t).reshape(shape)


def _newton(a: Array, b: Array, method: str) -> tuple[Array, Array]:
    r, t = _start(a, b, method)
    done = np.zeros(len(a), dtype=bool)  # each once: what rounding leaves of later steps varies
    for _ in range(MAX_ITERATIONS):
        step = _newton_step(r, t, a, b, method)
        r, t = r + step[0], t + step[1]
        done |= np.all(np.abs(step) <= _rounding(r, t, a + b, method), axis=0)
        if done.all():
            return r, t
    left = np.where(done, 0, np.nan_to_num(np.abs(step), nan=np.inf).max(axis=0))
    worst = int(np.argmax(left))
    raise RuntimeError(
        f"{method} matching of Beta({float(a[worst])!r}, {float(b[worst])!r}) did not converge in "
        f"{MAX_ITERATIONS} Newton steps; use method='moment' or 'laplace'"
    )


def _rounding(r: Array, t: Array, count: Array, method: str) -> Array:
    """Size of the steps that rounding leaves in (r, t): μ, not r, is what is resolved if τ < 1."""
    in_t = TOLERANCE + (10 * np.finfo(float).eps * count if method == "moment-ori" else 0.0)
    in_r = TOLERANCE * np.exp(-np.minimum(t, 0)) + in_t * np.abs(r)
    return np.stack([in_r, in_t * (1 + np.abs(t))])


def _start(a: Array, b: Array, method: str) -> tuple[Array, Array]:
    """The best of three limits, by the residuals it leaves: (r, t)."""
    starts = [_probit_start(a, b, method), _many_counts_start(a, b), _rare_start(a, b, method)]
    residuals = [np.abs(_equations(r, t, a, b, method)[0]).max(axis=0) for r, t in starts]
    best = np.argmin(np.where(np.isfinite(residuals), residuals, np.inf), axis=0)[None]
    r, t = (np.take_along_axis(np.stack(c), best, axis=0)[0] for c in zip(*starts, strict=True))
    return r, t


def _probit_start(a: Array, b: Array, method: str) -> tuple[Array, Array]:
    """Exact for s(x) = Φ(x/c₀): E s = Φ(μ/c), E s′ = φ(μ/c)/c with c² = τ² + c₀²."""
    quantile = ndtri(a / (a + b))
    height = np.exp(-(quantile**2) / 2) / np.sqrt(2 * np.pi)
    if method == "variational":  # (a+b) τ² φ/c = 1
        s = (a + b) * height
        variance = (1 / s + np.sqrt(1 / s**2 + 4 * PROBIT_SCALE)) / (2 * s)
    else:
        slope = a / (a + b) * b / (a + b + 1)
        variance = np.maximum((height / slope) ** 2 - PROBIT_SCALE, 0.1)  # > 0: a start
    return quantile * np.sqrt(1 + PROBIT_SCALE / variance), 0.5 * np.log(variance)


def _many_counts_start(a: Array, b: Array) -> tuple[Array, Array]:
    """a, b → ∞: the Laplace row."""
    t = 0.5 * np.log(1 / a + 1 / b)
    return np.log(a / b) * np.exp(-t), t


def _rare_start(a: Array, b: Array, method: str) -> tuple[Array, Array]:
    """a/b → 0: logit ω ≈ log ω and ω ≈ Gamma(a, b), whose rows have mean log(a/b) − v/2."""
    v = 1 / a if method == "variational" else np.log1p(1 / a)
    return (np.log(a / b) - v / 2) / np.sqrt(v), 0.5 * np.log(v)


def _equations(r: Array, t: Array, a: Array, b: Array, method: str) -> tuple[Array, Array]:
    """F = (log D₁ − log p, log of the second equation), (2, n); its Jacobian in (μ, t)."""
    tau = np.exp(t)
    mu = r * tau
    D1, D2, _ = expected_softplus_derivatives(mu, tau, series(1, DEFAULT_TERMS, _ACCELERATED))
    D3, D4, _ = expected_softplus_derivatives(mu, tau, series(3, DEFAULT_TERMS, _ACCELERATED))
    D2_t, D1_t = tau**2 * D4, tau**2 * D3  # ∂t = τ∂τ, and ∂τ D_j = τ D_{j+2}
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # poor starts only
        F1, J1 = np.log(D1) - np.log(a / (a + b)), [D2 / D1, D1_t / D1]
        F2, J2 = np.log(D2) + np.log(a + b), [D3 / D2, D2_t / D2]
        if method == "variational":
            return np.stack([F1, F2 + 2 * t]), np.array([J1, [J2[0], J2[1] + 2]])
        V = D1 * (1 - D1) - D2  # variance of s(ψ); the Beta's is E ω(1−ω)/(a+b)
        J2 = [(D2 * (1 - 2 * D1) - D3) / V - J2[0], (D1_t * (1 - 2 * D1) - D2_t) / V - J2[1]]
        return np.stack([F1, np.log(V) + np.log(a + b) - np.log(D2)]), np.array([J1, J2])


def _newton_step(r: Array, t: Array, a: Array, b: Array, method: str) -> Array:
    """−J⁻¹F turned to (r, t), shape (2, n)."""
    F, J = _equations(r, t, a, b, method)
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN steps are reported by `_newton`
        determinant = J[0, 0] * J[1, 1] - J[0, 1] * J[1, 0]
        in_mu = (J[0, 1] * F[1] - J[1, 1] * F[0]) / determinant
        in_t = (J[1, 0] * F[0] - J[0, 0] * F[1]) / determinant
    return np.stack([in_mu * np.exp(-t) - r * in_t, in_t])  # μ = r e^t
