"""Criteria by which a Gaussian over ψ is chosen, each with its formulas; notation of `table`.

To add one: a class, here or where it needs a root in `logit_normal`, and a line in `table`.

Reference: Bui, "Likelihood approximations via Gaussian approximate inference", section 3 and
appendix A.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scipy.special import digamma, polygamma

from pymc_ext.maths.types import Array

Moments = tuple[Array, Array]  # mean and variance of ψ, elementwise


class Method(ABC):
    """One criterion. What it is given are arrays of one shape, checked by `table`."""

    @abstractmethod
    def log_gamma(self, a: Array) -> Moments:
        """Of ψ = log ω for ω ~ Gamma(a, 1)."""

    def log_inverse_gamma(self, a: Array, b: Array) -> Moments:
        """Of ψ = log ω for ω ~ InvGamma(a, b): −ψ is the logarithm of a Gamma(a, b) variable."""
        m, v = self.log_gamma(a)
        return np.log(b) - m, v

    @abstractmethod
    def logit_beta(self, a: Array, b: Array) -> Moments:
        """Of ψ = logit ω for ω ~ Beta(a, b)."""


class Laplace(Method):
    """Mode and curvature of log p(ψ): Hobbhahn & Hennig (2022).

    log Gamma(a, 1): N(log a, 1/a); logit Beta(a, b): N(log(a/b), 1/a + 1/b).
    """

    def log_gamma(self, a: Array) -> Moments:
        return np.log(a), 1 / a

    def logit_beta(self, a: Array, b: Array) -> Moments:
        return np.log(a) - np.log(b), 1 / a + 1 / b


class Moment(Method):
    """Mean and variance of ψ, which minimises KL(p‖q).

    log Gamma(a, 1): N(ψ₀(a), ψ₁(a)); logit Beta(a, b): N(ψ₀(a) − ψ₀(b), ψ₁(a) + ψ₁(b)).
    """

    def log_gamma(self, a: Array) -> Moments:
        return digamma(a), polygamma(1, a)

    def logit_beta(self, a: Array, b: Array) -> Moments:
        return digamma(a) - digamma(b), polygamma(1, a) + polygamma(1, b)
