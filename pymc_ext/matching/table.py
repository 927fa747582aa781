"""Closed-form Gaussians for transformed densities: the one table that all matching code reads.

A density of ω is replaced once, without iteration, by a Gaussian over ψ = g(ω) on the real line.
Notation: ψ₀, ψ₁ are the digamma and trigamma functions; every function returns the mean and the
variance of ψ, broadcast over its array arguments.

Methods: ``laplace`` (mode and curvature of log p(ψ)), ``variational`` (minimises KL(q‖p) over
Gaussians), ``moment`` (mean and variance of ψ, which minimises KL(p‖q)) and ``moment-ori`` (mean
and variance of ω itself, matched by g⁻¹ of a Gaussian); `methods` has a class for each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_ext.matching.logit_normal import OriginalMoment, Variational
from pymc_ext.matching.methods import Laplace, Method, Moment
from pymc_ext.maths.types import Array

_BY_NAME: dict[str, Method] = {
    "laplace": Laplace(),
    "variational": Variational(),
    "moment": Moment(),
    "moment-ori": OriginalMoment(),
}
METHODS = tuple(_BY_NAME)
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
    chosen = check_method(method)
    a, b = _positive(a=a, b=b)
    m, v = chosen.log_gamma(a)
    return Matched((m - np.log(b))[()], v[()])


def match_inverse_gamma(a: ArrayLike, b: ArrayLike = 1.0, method: str = "variational") -> Matched:
    """Gaussian over ψ = log ω for ω ~ InvGamma(shape a, scale b).

    −ψ is the logarithm of a Gamma(a, b) variable, so the first three rows are those of
    `match_gamma` with the mean's sign turned: laplace N(log(b/a), 1/a), variational
    N(log(b/a) + 1/(2a), 1/a), moment N(log b − ψ₀(a), ψ₁(a)). moment-ori matches the mean
    b/(a−1) and the variance of ω: v = log((a−1)/(a−2)), which exists for a > 2 only.

    Parameters, returns and errors as in `match_gamma`.
    """
    chosen = check_method(method)
    m, v = chosen.log_inverse_gamma(*_positive(a=a, b=b))
    return Matched(m[()], v[()])


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
    chosen = check_method(method)
    m, v = chosen.logit_beta(*_positive(a=a, b=b))
    return Matched(m[()], v[()])


def check_method(method: str) -> Method:
    """The method of that name; ValueError unless it is one of `METHODS`."""
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    return _BY_NAME[method]


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
