"""Draws of what an algorithm has fitted, with log p̃ and log q."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np

from bridge.methods.method import WeightedDraws
from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from pymc_ext.variational.core.posterior import Posterior
    from pymc_ext.variational.core.result import FreshDraws

__all__ = ["Drawn"]


class Drawn:
    """Draws of q, the first of them those that the fit was judged by: their log p̃ is known.

    Where log p̃ is undefined, as where an ODE's solver gives up, a draw has no weight, which is how
    samplers take it. How many these are is told.

    Parameters
    ----------
    q, density
        The approximation and log p̃.
    fresh
        How the fit judged this q; None where it did not.
    seed
        Of draws beyond those.

    Raises
    ------
    AssertionError
        From :meth:`first`: ``fresh`` is of another q than this.
    """

    def __init__(
        self, q: Posterior, density: CountedDensity, fresh: FreshDraws | None, seed: int
    ) -> None:
        self.q, self.density = q, density
        self.rng, self.undefined = np.random.default_rng(seed), 0
        self.parts = list[tuple[Array, Array, Array]]()
        if fresh is not None and fresh.log_ratios is not None and fresh.generator is not None:
            self._again(fresh)

    def first(self, draws: int) -> WeightedDraws:
        """As many draws, those that were made before among them."""
        from pymc_ext.variational.core.posterior import draws_of

        missing = draws - sum(len(lq) for *_, lq in self.parts)
        for theta, lq in draws_of(self.q, self.rng, missing):
            self.parts.append((theta, self._log_density(theta), lq))
        theta, lp, lq = (np.concatenate(x) for x in zip(*self.parts, strict=True))
        self.undefined += int(np.isnan(lp).sum())
        lp = np.where(np.isnan(lp), -np.inf, lp)
        self.parts = [(theta, lp, lq)]
        log_q = getattr(self.q, "log_density", None)
        return WeightedDraws(theta[None, :draws], lp[None, :draws], lq[None, :draws], log_q)

    def _again(self, fresh: FreshDraws) -> None:
        from pymc_ext.variational.core.posterior import drawn_again, draws_of

        log_ratios, generator = fresh.log_ratios, fresh.generator
        assert log_ratios is not None and generator is not None
        ((theta, lq),) = draws_of(self.q, copy.deepcopy(generator), 1)
        own, was = self._log_density(theta)[0], log_ratios[0] + lq[0]
        if not np.allclose(own, was, rtol=1e-6, atol=1e-6, equal_nan=True):
            raise AssertionError(
                f"log p̃ of a fresh draw is {own}, and was {was} when the fit was judged: an "
                "algorithm must return the q that its fresh draws are of"
            )
        done = 0
        for theta, lq in drawn_again(self.q, fresh):
            with np.errstate(invalid="ignore"):  # no weight where either is infinite
                lp = log_ratios[done : done + len(lq)] + lq
            self.parts.append((theta, lp, lq))
            done += len(lq)

    def _log_density(self, theta: Array) -> Array:
        with np.errstate(all="ignore"):  # a draw where log p̃ overflows has no weight
            return self.density.log_density(theta)
