"""Closed-form Gaussians for transformed densities: the one table that all matching code reads.

A density of ω is replaced once, without iteration, by a Gaussian over ψ = g(ω) on the real line.
Notation: ψ₀, ψ₁ are the digamma and trigamma functions; every function returns the mean and the
variance of ψ, broadcast over its array arguments.

Methods: ``laplace`` (mode and curvature of log p(ψ)), ``variational`` (minimises KL(q‖p) over
Gaussians), ``moment`` (mean and variance of ψ, which minimises KL(p‖q)) and ``moment-ori`` (mean
and variance of ω itself, matched by g⁻¹ of a Gaussian).

Reference: Bui, "Likelihood approximations via Gaussian approximate inference", section 3 and
appendix A; ``laplace`` is Hobbhahn & Hennig (2022), ``moment-ori`` Milios et al. (2018).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma, polygamma

from pymc_ext.matching.logit_normal import match_logit_normal
from pymc_ext.maths.types import Array

METHODS = ("laplace", "variational", "moment", "moment-ori")
SMALLEST = 1e-150  # its inverse square, the variance of a moment row, is representable


class Matched(NamedTuple):
    """Mean and variance, each (...), of the Gaussian over ψ for one or many densities."""

    mean: Array
    variance: Array


def match_gamma(a: ArrayLike, b: ArrayLike = 1.0, method: str = "variational") -> Matched:
    """Gaussian over ψ = log ω for ω ~ Gamma(shape a, rate b).

    laplace: N(log(a/b), 1/a); variational: N(log(a/b) − 1/(2a), 1/a); moment:
    N(ψ₀(a) − log b, ψ₁(a)); moment-ori: N(log(a/b) − v/2, v) with v = log(1 + 1/a).

    Parameters
    ----------
    a, b : array_like
        Shape and rate, positive, of any shape, broadcast against each other.
    method : {"laplace", "variational", "moment", "moment-ori"}
        Matching criterion.

    Returns
    -------
    Matched
        Mean and variance of ψ.

    Raises
    ------
    ValueError
        If a parameter is not positive and finite, or the method is unknown.

    Examples
    --------
    >>> float(match_gamma(2.0, 1.0, "laplace").variance)
    0.5
    """
    check_method(method)
    a, b = _positive(a=a, b=b)
    m, v = _log_gamma(a, method)
    return Matched((m - np.log(b))[()], v[()])


def match_inverse_gamma(a: ArrayLike, b: ArrayLike = 1.0, method: str = "variational") -> Matched:
    """Gaussian over ψ = log ω for ω ~ InvGamma(shape a, scale b).

    −ψ is the logarithm of a Gamma(a, b) variable, so the first three rows are those of
    `match_gamma` with the mean's sign turned: laplace N(log(b/a), 1/a), variational
    N(log(b/a) + 1/(2a), 1/a), moment N(log b − ψ₀(a), ψ₁(a)). moment-ori matches the mean
    b/(a−1) and the variance of ω: v = log((a−1)/(a−2)), which exists for a > 2 only.

    Parameters, returns and errors as in `match_gamma`.
    """
    check_method(method)
    a, b = _positive(a=a, b=b)
    if method == "moment-ori":
        return _inverse_gamma_original(a, b)
    m, v = _log_gamma(a, method)
    return Matched((np.log(b) - m)[()], v[()])


def match_exponential(rate: ArrayLike, method: str = "variational") -> Matched:
    """Gaussian over ψ = log ω for ω ~ Exponential(rate λ), the Gamma(1, λ) row.

    laplace: N(−log λ, 1); variational: N(−log λ − ½, 1); moment: N(−log λ − γ, π²/6) with
    Euler's γ; moment-ori: N(−log λ − ½ log 2, log 2). Other details as in `match_gamma`.
    """
    (rate,) = _positive(rate=rate)
    return match_gamma(np.ones_like(rate), rate, method)


def match_chi_square(k: ArrayLike, method: str = "variational") -> Matched:
    """Gaussian over ψ = log ω for ω ~ χ²(k degrees of freedom), the Gamma(k/2, ½) row.

    laplace: N(log k, 2/k); variational: N(log k − 1/k, 2/k); moment:
    N(ψ₀(k/2) + log 2, ψ₁(k/2)); moment-ori: v = log(1 + 2/k). Details as in `match_gamma`.
    """
    (k,) = _positive(k=k)
    return match_gamma(k / 2, 0.5, method)


def match_beta(a: ArrayLike, b: ArrayLike, method: str = "variational") -> Matched:
    """Gaussian over ψ = logit ω for ω ~ Beta(a, b).

    laplace: N(log(a/b), 1/a + 1/b); moment: N(ψ₀(a) − ψ₀(b), ψ₁(a) + ψ₁(b)). With s the
    logistic function, the other two solve E s(ψ) = a/(a+b) together with v E s′(ψ) = 1/(a+b)
    (variational) or E s′(ψ) = ab/((a+b)(a+b+1)) (moment-ori: mean and variance of ω); both
    expectations are derivatives of E log(1 + e^ψ), so no Monte Carlo is needed.

    Parameters, returns and errors as in `match_gamma`.
    """
    check_method(method)
    a, b = _positive(a=a, b=b)
    if method == "laplace":
        return Matched((np.log(a) - np.log(b))[()], (1 / a + 1 / b)[()])
    if method == "moment":
        return Matched((digamma(a) - digamma(b))[()], (polygamma(1, a) + polygamma(1, b))[()])
    m, v = match_logit_normal(a, b, method)
    return Matched(m[()], v[()])


def check_method(method: str) -> None:
    """Raise ValueError unless ``method`` is one of `METHODS`."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")


def _log_gamma(a: Array, method: str) -> tuple[Array, Array]:
    """Mean and variance of log Gamma(a, 1), a checked."""
    if method == "laplace":
        return np.log(a), 1 / a
    if method == "variational":
        return np.log(a) - 0.5 / a, 1 / a
    if method == "moment":
        return digamma(a), polygamma(1, a)
    v = np.log1p(1 / a)
    return np.log(a) - v / 2, v


def _inverse_gamma_original(a: Array, b: Array) -> Matched:
    if np.any(a <= 2):
        raise ValueError(
            f"moment-ori needs a finite variance of the inverse gamma: a must be > 2, "
            f"got {float(a.min())!r}; use another method"
        )
    v = np.log1p(1 / (a - 2))  # var/mean² = 1/(a−2)
    return Matched((np.log(b) - np.log(a - 1) - v / 2)[()], v[()])


def _positive(**parameters: ArrayLike) -> list[Array]:
    arrays = []
    for name, value in parameters.items():
        array = np.asarray(value, dtype=float)
        bad = ~(np.isfinite(array) & (array > 0))
        if bad.any():
            got = float(array[bad].flat[0])
            raise ValueError(f"{name} must be positive and finite, got {got!r}")
        if array.size and not (SMALLEST <= array.min() and array.max() <= 1 / SMALLEST):
            ends = float(array.min()), float(array.max())
            raise ValueError(f"{name} must be in {SMALLEST:g}..{1 / SMALLEST:g}, got {ends}")
        arrays.append(array)
    return list(np.broadcast_arrays(*arrays))
