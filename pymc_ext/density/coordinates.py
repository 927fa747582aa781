r"""A density seen in the coordinates of a q: what a sampler needs to know of an approximation.

With θ = T(v) and v ~ N(0, I) under q, the posterior of v has the density

.. math:: \log p(v) = \log \tilde p(T(v)) + \log|\det \partial T / \partial v|,
          \quad \log|\det \partial T/\partial v| = \log N(v; 0, I) - \log q(T(v)),

which is that of N(0, I), up to a constant, where q is the posterior. Hoffman, Sountsov, Dillon,
Langmore, Tran & Vasudevan (2019), NeuTra-lizing bad geometry, arXiv:1903.03704.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol, cast

import numpy as np

from pymc_ext.density.check import DensityError
from pymc_ext.density.protocol import Density
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array


class TransportMap(Protocol):
    """T from standard normals onto the unconstrained space: any q that has a pullback.

    Optional: ``forward_with_pullback`` (z -> θ, log q and the pullback there, a function of the
    score), where both share most of their work; and what :class:`InvertibleMap` has.
    """

    @property
    def dimension(self) -> int:
        """D."""

    @property
    def latent_dimension(self) -> int:
        """K, the number of normals; coordinates of a density need K = D."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ = T(z) and the normalised log q(θ), (N, K) -> (N, D), (N,)."""

    def pullback(self, z: Array, score: Array) -> Array:
        """Score in z (N, K) of log p̃(T(z)) + log|det ∂T/∂z|, (N, K), from log p̃'s, (N, D)."""


class InvertibleMap(TransportMap, Protocol):
    """One that tells the normals behind any point."""

    def inverse(self, theta: Array) -> Array:
        """v with T(v) = θ, (N, D) -> (N, D)."""


def as_transport(q: object) -> TransportMap | None:
    """q itself where it serves as coordinates.

    It has a pullback, one normal a coordinate, and all of R^D as its support: one that has less
    says so by ``onto = False``, for chains in its coordinates would never leave it.
    """
    if not hasattr(q, "pullback") or not getattr(q, "onto", True):
        return None
    transport = cast(TransportMap, q)
    return transport if transport.latent_dimension == transport.dimension else None


class DensityInCoordinates:
    """log p̃(T(v)) + log|det ∂T/∂v| and its score: a density over v for any T with a pullback.

    Parameters
    ----------
    density
        log p̃ of θ, unconstrained.
    transport
        T; a fitted q will do.

    Raises
    ------
    DensityError
        The dimensions differ, or T has not one normal a coordinate.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
    >>> density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=1)
    >>> q = DiagonalGaussian(np.zeros(1), np.array([0.5]))
    >>> v = DensityInCoordinates(density, q)
    >>> v.log_density_gradient(np.ones((1, 1)))[1]  # θ = v / 2, so that v ~ N(0, 4)
    array([[-0.25]])
    """

    def __init__(self, density: Density, transport: TransportMap) -> None:
        D = int(density.dimension)
        found = int(transport.dimension), int(transport.latent_dimension)
        if found != (D, D):
            raise DensityError(
                f"coordinates of a density in {D} dimensions need a map from {D} normals to {D} "
                f"values, got one from {found[1]} to {found[0]}"
            )
        self.density, self.transport = density, transport
        self.dimension = D

    def log_density(self, v: Array) -> Array:
        """log p̃(T(v)) + log|det|, (N, D) -> (N,)."""
        theta, log_q = self.transport.forward(v)
        return self.density.log_density(theta) + standard_normal_logp(np.asarray(v)) - log_q

    def log_density_gradient(self, v: Array) -> tuple[Array, Array]:
        """The same with its score in v, (N, D) -> (N,), (N, D)."""
        v = np.asarray(v)
        together = getattr(self.transport, "forward_with_pullback", None)
        if together is not None:
            theta, log_q, pullback = together(v)
        else:
            theta, log_q = self.transport.forward(v)
            pullback = partial(self.transport.pullback, v)
        lp, score = self.density.log_density_gradient(theta)
        return lp + standard_normal_logp(v) - log_q, pullback(score)
