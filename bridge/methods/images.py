"""A fit of one mode, taken for all modes that are its images."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from scipy.special import logsumexp

from bridge.methods.method import Fit, LogDensity, Method, Problem, WeightedDraws
from pymc_ext.maths.types import Array
from pymc_ext.sampling.images import BROKEN
from pymc_ext.sampling.symmetry import Symmetry
from pymc_ext.sampling.symmetry_search import MORE_POINTS
from pymc_ext.variational.core.linear_image import LinearImage
from pymc_ext.variational.core.mixture import Component, PosteriorMixture

__all__ = ["IMAGES", "images_of"]

IMAGES = "images"


@dataclass(frozen=True)
class ImagesOf:
    r"""Run of a method: draws of one mode, with the density of q at random in any of its images,

    .. math:: \bar q(\theta) = \frac{1}{|G|} \sum_{g \in G} q(g\,\theta),

    for changes g of labels and signs that leave log p̃, and volumes, as they are. The draws are
    judged where they are; those that are handed back are put into an image at random.

    Parameters
    ----------
    fit
        Of one mode, with its log density.
    symmetry
        The changes.
    """

    fit: Fit
    symmetry: Symmetry

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        return self._of(self.fit if self.fit.more is None else self.fit.more(draws))

    def _of(self, fit: Fit) -> Fit:
        begin = time.perf_counter()
        assert fit.lq is not None
        own = self._drawn(WeightedDraws(fit.theta, fit.lp, fit.lq, fit.log_q))
        proposal, more = fit.proposal, fit.more
        if proposal is not None and proposal.log_q is None:
            proposal = more = None  # which would be more draws of that proposal
        elif proposal is not None:
            proposal = self._drawn(proposal)
        return replace(
            fit,
            lq=own.lq,
            log_q=own.log_q,
            proposal=proposal,
            q=self._q(),
            symmetry=self.symmetry,
            seconds=time.perf_counter() - begin,
            compile_seconds=0.0,
            density_evaluations=0,
            gradient_evaluations=0,
            losses=None,
            more=None if more is None else lambda n: self._of(more(n)),
        )

    def _q(self) -> PosteriorMixture | None:
        """q̄ itself; None where its images are not linear, so that no file could keep them."""
        fit = self.fit
        if not hasattr(fit.q, "log_density"):
            return None
        points = fit.theta.reshape(-1, fit.theta.shape[-1])[:MORE_POINTS]
        matrices = self.symmetry.matrices(points)
        if matrices is None:
            return None
        q = cast(Component, fit.q)
        log_weights = np.full(len(matrices), -np.log(len(matrices)))
        return PosteriorMixture(log_weights, tuple(LinearImage(q, matrix) for matrix in matrices))

    def _drawn(self, drawn: WeightedDraws) -> WeightedDraws:
        """ValueError where log p̃ is another at an image at random of any draw."""
        assert drawn.log_q is not None
        log_q = partial(self._log_q, drawn.log_q)
        flat, lp = drawn.theta.reshape(-1, drawn.theta.shape[-1]), drawn.lp.ravel()
        inside = np.isfinite(lp)
        scattered = self.symmetry.at_random(flat[inside], np.random.default_rng(0))
        if not self.symmetry.is_kept(scattered, lp[inside]):
            raise ValueError(BROKEN)
        return replace(drawn, lq=log_q(flat).reshape(drawn.lp.shape), log_q=log_q)

    def _log_q(self, log_q: LogDensity, theta: Array) -> Array:
        """log q̄, (N, D) -> (N,)."""
        parts = list[Array]()
        for images in self.symmetry.in_parts(theta):
            flat = images.reshape(-1, theta.shape[1])
            each, inside = np.full(len(flat), -np.inf), np.isfinite(flat).all(axis=1)
            with np.errstate(all="ignore"):
                each[inside] = log_q(flat[inside])
            by_image = np.where(np.isnan(each), -np.inf, each).reshape(images.shape[:2])
            parts.append(logsumexp(by_image, axis=0) - np.log(len(images)))
        return np.concatenate([np.empty(0), *parts])


def images_of(fit: Fit, symmetry: Symmetry) -> Method:
    """The method that takes a fit of one mode for all of its images."""
    return Method(IMAGES, "a fit of one mode, for all that are its images", "pymc",
                  ImagesOf(fit, symmetry))  # fmt: skip
