"""What a fitted q can do, in numbers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.weights import log_ratios_of

# Behind moments of a q without its own: sds to 0.6 %, means to 0.8 % of an sd.
MOMENT_DRAWS = 16_384
NUMBERS_TOGETHER = 2**20  # in draws made together, 8 MB: with 16 maps take twice as long
INTERRUPTED_DRAWS = 1_000  # the same where Ctrl-C ended the fit: what k̂ of five batches takes
FRESH_DRAWS = 4096  # behind a result's ELBO: its standard error is sd(log p̃/q) / 64


class Posterior(Protocol):
    """q on the unconstrained space, made from standard normals z.

    Optional: ``log_density`` (θ (N, D) -> (N,), normalised log q at any point), ``mean`` (D,),
    ``cov`` (D, D), ``std`` (D,), ``numbers`` (P,), all that a fit moves.
    """

    @property
    def dimension(self) -> int:
        """D."""

    @property
    def latent_dimension(self) -> int:
        """K, the number of normals behind one draw."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Draws θ and their normalised log q, (N, K) -> (N, D), (N,)."""


def moment(q: Posterior, name: str) -> Array:
    """``"mean"`` (D,), ``"std"`` (D,) or ``"cov"`` (D, D) of q.

    Its own where it has them, else those of `MOMENT_DRAWS` draws, always the same.
    """
    if hasattr(q, name):
        return np.asarray(getattr(q, name), dtype=float)
    if name == "std" and hasattr(q, "cov"):
        return np.sqrt(np.diag(q.cov))
    if name == "cov":
        z = np.random.default_rng(0).standard_normal((MOMENT_DRAWS, q.latent_dimension))
        return np.atleast_2d(np.cov(q.forward(z)[0].T))
    return _mean_and_std(q)[name == "std"]


def _mean_and_std(q: Posterior) -> tuple[Array, Array]:
    """Of `MOMENT_DRAWS` draws, some at a time, about the one of z = 0."""
    rng, rows = np.random.default_rng(0), _rows_together(q)
    total, squares = np.zeros((2, q.dimension))
    first, _ = q.forward(np.zeros((1, q.latent_dimension)))
    for done in range(0, MOMENT_DRAWS, rows):
        z = rng.standard_normal((min(rows, MOMENT_DRAWS - done), q.latent_dimension))
        theta = q.forward(z)[0]
        total += np.sum(theta - first, axis=0)
        squares += np.sum((theta - first) ** 2, axis=0)
    mean = total / MOMENT_DRAWS
    variance = (squares - MOMENT_DRAWS * mean**2) / (MOMENT_DRAWS - 1)
    return first[0] + mean, np.sqrt(np.maximum(variance, 0))


def _rows_together(q: Posterior) -> int:
    return max(1, NUMBERS_TOGETHER // q.latent_dimension)


class LogDensity(Protocol):
    """Whatever gives log densities of rows."""

    def log_density(self, theta: Array) -> Array:
        """(N, D) -> (N,)."""


def fresh_draws(
    q: Posterior, density: LogDensity, rng: np.random.Generator, draws: int = FRESH_DRAWS
) -> FreshDraws:
    """ELBO and importance-sampling evidence from ``draws`` fresh draws of q."""
    generator, parts, kept = copy.deepcopy(rng), [], None
    for theta, log_q in draws_of(q, rng, draws):
        with np.errstate(all="ignore"):  # a draw where log p̃ overflows has no weight
            parts.append(log_ratios_of(density.log_density(theta), log_q))
        if len(theta) == draws:
            kept = theta, log_q
    log_ratios = np.concatenate(parts)
    fresh = FreshDraws.from_log_ratios(log_ratios)
    return replace(fresh, log_ratios=log_ratios, generator=generator, drawn=kept)


def drawn_again(q: Posterior, fresh: FreshDraws) -> Iterator[tuple[Array, Array]]:
    """The draws of q behind ``fresh`` with their log q, some at a time, as :func:`draws_of`."""
    if fresh.drawn is not None:
        return iter([fresh.drawn])
    assert fresh.generator is not None
    return draws_of(q, copy.deepcopy(fresh.generator), fresh.draws)


def draws_of(q: Posterior, rng: np.random.Generator, draws: int) -> Iterator[tuple[Array, Array]]:
    """Draws θ (n, D) of q with their log q (n,), some at a time."""
    for z in latents_of(q, rng, draws):
        with np.errstate(all="ignore"):  # a draw that overflows has no weight
            drawn = q.forward(z)
        yield drawn


def latents_of(q: Posterior, rng: np.random.Generator, draws: int) -> Iterator[Array]:
    """The normals z (n, K) behind them."""
    rows = _rows_together(q)
    for first in range(0, draws, rows):
        yield rng.standard_normal((min(rows, draws - first), q.latent_dimension))
