"""What an update rule is: a map whose fixed point gives the Gaussian sites."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Posterior, Prior
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.maths.types import Array


@dataclass(frozen=True)
class FixedPoint:
    """Where a rule came to rest.

    Parameters
    ----------
    sites, posterior
        The sites and the posterior they make with the prior.
    iterations
        Factorisations of the posterior, the measure of work.
    residual
        Largest change one more full update would make to a natural parameter, relative above 1.
    """

    sites: GaussianSites
    posterior: Posterior
    iterations: int
    residual: float


@dataclass(frozen=True)
class Slopes:
    """Derivatives of the map from marginals N(μ_i, s_i) and φ to the sites (ν_i, τ_i).

    First four (n,); last two (P, n).
    """

    linear_mean: Array
    linear_variance: Array
    precision_mean: Array
    precision_variance: Array
    linear_parameters: Array
    precision_parameters: Array

    @property
    def constant(self) -> bool:
        """Whether the sites do not follow the marginals at all."""
        by_mean, by_variance = self.linear_mean, self.linear_variance
        others = self.precision_mean, self.precision_variance
        return not any(np.any(slope) for slope in (by_mean, by_variance, *others))


class Rule(ABC):
    """An update rule; `default` names its own evidence formula, `stationary` those formulas whose
    derivative in the sites vanishes at the fixed point."""

    default: ClassVar[str]
    stationary: ClassVar[frozenset[str]] = frozenset()
    allowed: ClassVar[frozenset[str]]
    rho: float | None = None  # step of a damped update, for rules whose sites can be moved by parts

    def prepare(self, lik: Likelihood) -> Likelihood:
        """The likelihood the rule works with; raises ValueError where the rule does not apply."""
        if lik.n_latent > 1:
            raise ValueError(
                f"{type(self).__name__} has one latent per observation, {type(lik).__name__} has "
                f"{lik.n_latent}: use rule=CVI() or rule=Matching()"
            )
        return lik

    def options(self, formula: str) -> dict[str, float]:
        """Further arguments of the evidence formula."""
        return {}

    @abstractmethod
    def update(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> GaussianSites:
        """The sites that one full (undamped) update of all gives, for y (n,) and φ (P,)."""

    @abstractmethod
    def solve(
        self,
        prior: Prior,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
        start: GaussianSites | None = None,
    ) -> FixedPoint:
        """Sites at the fixed point for y (n,), φ (P,); raises ConvergenceError if not reached."""

    @abstractmethod
    def slopes(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> Slopes:
        """Derivatives of the update map at the fixed point, for y (n,) and φ (P,)."""


class Iterative(Protocol):
    """A rule whose iteration ends by a tolerance, or after so many updates."""

    @property
    def tolerance(self) -> float: ...
    @property
    def max_iterations(self) -> int: ...


def check_limits(rule: Iterative) -> None:
    """Raise ValueError unless the rule's tolerance and max_iterations can end its iteration."""
    if not rule.tolerance > 0:
        raise ValueError(f"tolerance must be > 0, got {rule.tolerance!r}")
    if rule.max_iterations < 1:
        raise ValueError(f"max_iterations must be >= 1, got {rule.max_iterations!r}")


def first_sites(lik: Likelihood, y: Array, phi: Parameters, mean: Array) -> GaussianSites:
    """Slope and curvature of log p(y|f) where the likelihood has a search start, τ >= 0."""
    f = lik.start(y, phi, mean)
    d1, d2, _ = lik.derivatives(f, y, phi)
    return from_derivatives(f, d1, np.minimum(d2, 0.0))


def from_derivatives(mean: Array, d1: Array, d2: Array) -> GaussianSites:
    """Sites with slope d1 and curvature d2 at ``mean``: τ = −d2, ν = d1 + τ mean."""
    return GaussianSites(d1 - d2 * mean, -d2)
