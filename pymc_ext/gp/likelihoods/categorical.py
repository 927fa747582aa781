"""More than two classes: softmax of as many latents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, logsumexp, softmax

from pymc_ext.gp.likelihoods.likelihood import Expectations, Likelihood, Parameters, Tilted
from pymc_ext.gp.quadrature import Places
from pymc_ext.matching.predict import normal_draws
from pymc_ext.matching.targets import check_labels, check_n_classes, class_sites
from pymc_ext.maths.types import Array

BLOCK = 4_000_000  # numbers held at once: 32 MB


class Categorical(Likelihood):
    r"""Classes 0..K−1 with :math:`p(y=c \mid f) = e^{f_c}/\sum_k e^{f_k}`, K latents of one prior.

    The approximate posterior is Gaussian and independent over the latents. Works with
    `Matching` (K exact regressions) and `CVI` (expectations over fixed Sobol draws).
    Latents and marginals have a last axis K; `predict` gives class probabilities (n, K) and the
    variances p(1−p) of the one-hot label.

    Parameters
    ----------
    n_classes
        K ≥ 2.
    n_draws
        Draws of the Gaussian expectations (half Sobol points, half mirrored), a power of two >= 4.
        The default is a choice: of four problems (3 to 10 classes, n = 60 to 120) means are within
        .02 sd, probabilities .003 and ELBOs .7 nats of those with 8,192; with 512 .02, .003, .4.

    Examples
    --------
    >>> import pymc_ext as px
    >>> px.gp.Categorical(3).n_latent
    3
    """

    discrete = True

    def __init__(self, n_classes: int, n_draws: int = 256):
        super().__init__()
        self.n_latent = check_n_classes(n_classes)
        if n_draws < 4 or np.log2(n_draws) % 1:
            raise ValueError(f"n_draws must be a power of two >= 4, got {n_draws!r}")
        self.n_draws = n_draws
        normal_draws(n_draws // 2, self.n_latent)

    def __repr__(self) -> str:
        return f"Categorical({self.n_latent})"

    def check(self, y: ArrayLike) -> Array:
        y = np.asarray(y)
        if y.dtype.kind == "f" and not np.isfinite(y).all():
            raise ValueError(f"y must be finite, got NaN or infinity ({np.sum(~np.isfinite(y))})")
        return check_labels(y, self.n_latent).astype(float)

    def log_prob(self, f: Array, y: Array, phi: Parameters) -> Array:
        return _chosen(log_softmax(f, axis=-1), y)

    def derivatives(self, f: Array, y: Array, phi: Parameters) -> tuple[Array, Array, Array]:
        p = softmax(f, axis=-1)
        return _one_hot(y, self.n_latent) - p, -p * (1 - p), -p * (1 - p) * (1 - 2 * p)

    def scale(self, y: Array, phi: Parameters) -> tuple[Array, Array]:
        """Raises TypeError: it integrates over draws, not over one-dimensional nodes."""
        raise TypeError("Categorical integrates over draws, not one-dimensional nodes")

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        """Over fixed draws, with the exact derivatives of that average.

        E ℓ'' is E[ℓ' z]/s on the same draws, so that the ELBO and its stationary point agree.
        ``mean`` and ``variance`` are of the latents, each (n, K); y (n,), φ (0,).
        """
        value = np.empty(len(y))
        d = np.zeros((4, *mean.shape))
        z, sd = self._z(), np.sqrt(variance)
        for rows, f in self._draws(mean, variance):
            log_p = log_softmax(f, axis=-1)
            value[rows] = _chosen(log_p, y[rows]).mean(axis=0)
            slope = _one_hot(y[rows], self.n_latent) - np.exp(log_p)
            d[0, rows] = slope.mean(axis=0)
            d[1, rows] = (slope * z).mean(axis=0) / sd[rows]
        return Expectations(value, d, np.empty((0, 3, len(y))))

    def tilted(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        power: float = 1.0,
    ) -> Tilted:
        """As of any likelihood, for power 1; ValueError for others."""
        log_p = np.log(self.predict(mean, variance, phi)[0])
        chosen = np.take_along_axis(log_p, y.astype(int)[:, None], axis=1)[:, 0]
        if power != 1.0:
            raise ValueError("Categorical has tilted normalisers for power 1 only")
        nan = np.full_like(mean, np.nan)  # its tilted moments are not used by any rule
        return Tilted(chosen, nan, nan, np.empty((0, len(y))))

    def predict(self, mean: Array, variance: Array, phi: Parameters) -> tuple[Array, Array]:
        p = np.empty_like(mean)
        for rows, f in self._draws(mean, variance):
            log_p = log_softmax(f, axis=-1)
            p[rows] = np.exp(logsumexp(log_p, axis=0) - np.log(self.n_draws))
        return p, p * (1 - p)

    def moments(self, f: Array, phi: Parameters) -> tuple[Array, Array]:
        p = softmax(f, axis=-1)
        return p, p * (1 - p)

    def draw(self, rng: np.random.Generator, f: Array, phi: Parameters) -> Array:
        return np.argmax(f + rng.gumbel(size=f.shape), axis=-1).astype(float)

    def matched(self, y: Array, phi: Parameters, method: str, alpha: float) -> tuple[Array, Array]:
        table = class_sites(self.n_latent, alpha, method)
        label = y.astype(int) % self.n_latent
        return table.mean[label], table.variance[label]

    def _z(self) -> Array:
        """Sobol points and their mirror images: odd moments are exact, (n_draws, 1, K)."""
        half = normal_draws(self.n_draws // 2, self.n_latent)
        return np.concatenate([half, -half])[:, None]

    def _draws(self, mean: Array, variance: Array) -> Iterator[tuple[Places, Array]]:
        z, sd = self._z(), np.sqrt(variance)
        blocks = max(1, mean.size * self.n_draws // BLOCK)
        for rows in np.array_split(np.arange(len(mean)), min(blocks, len(mean))):
            yield rows, mean[rows] + sd[rows] * z


def _one_hot(y: Array, K: int) -> Array:
    return np.eye(K)[y.astype(int)]


def _chosen(log_p: Array, y: Array) -> Array:
    index = np.broadcast_to(y.astype(int)[:, None], (*log_p.shape[:-1], 1))
    return np.take_along_axis(log_p, index, axis=-1)[..., 0]
