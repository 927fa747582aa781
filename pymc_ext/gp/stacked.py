"""The posterior of several latents, which are independent given their sites."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from pymc_ext.gp.sites import GaussianSites
from pymc_ext.maths.types import Array


class StackedPosterior:
    """Independent posteriors of L latents with one prior: every array gains a last axis L."""

    def __init__(self, parts: list, sites: GaussianSites):
        self.parts, self.sites = parts, sites

    @property
    def mean(self) -> Array:
        return np.stack([p.mean for p in self.parts], axis=1)

    @property
    def variance(self) -> Array:
        return np.stack([p.variance for p in self.parts], axis=1)

    @property
    def residual(self) -> Array:
        return np.stack([p.residual for p in self.parts], axis=1)

    @property
    def alpha(self) -> Array:
        return np.stack([p.alpha for p in self.parts], axis=1)

    @property
    def centred_log_normaliser(self) -> float:
        return sum(p.centred_log_normaliser for p in self.parts)

    def gradient(
        self,
        mean: Array | None = None,
        variance: Array | None = None,
        residual: Array | None = None,
    ) -> tuple[Array, ...]:
        none = [None] * len(self.parts)
        marginals = (none if m is None else m.T for m in (mean, variance, residual))
        columns = zip(self.parts, *marginals, strict=True)
        return _sum(p.gradient(*c) for p, *c in columns)

    def pull_back_to_sites(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        columns = zip(self.parts, mean.T, variance.T, strict=True)
        both = [p.pull_back_to_sites(a, b) for p, a, b in columns]
        return np.stack([b[0] for b in both], axis=1), np.stack([b[1] for b in both], axis=1)

    def weights(self) -> tuple[Array, Array, Array]:
        """w (p, L), F and G (L, p, p)."""
        w, F, G = zip(*(p.weights() for p in self.parts), strict=True)
        return np.stack(w, axis=1), np.stack(F), np.stack(G)


def _sum(gradients: Iterable[Sequence[Array]]) -> tuple[Array, ...]:
    return tuple(sum(parts, start=np.zeros(())) for parts in zip(*gradients, strict=True))
