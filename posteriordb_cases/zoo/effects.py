"""Intercepts and slopes that vary together over groups: two scales and a correlation."""

from __future__ import annotations

import numpy as np

from posteriordb_cases.zoo.cells import Cells, of_log_sd
from posteriordb_cases.zoo.density import Array, ZooDensity

__all__ = ["CorrelatedEffects", "simulated"]


class CorrelatedEffects(ZooDensity):
    """y_jr ~ N(b_j1 + b_j2 x_jr, σ²), b_j ~ N(m, Σ), centred, Σ of scales s and correlation ρ.

    m ~ N(0, 3²), s ~ Exp(1), ρ ~ LKJ(2), σ ~ Exp(1). θ = (m, log s, atanh ρ, b, log σ). Exact: all
    else is Gaussian given scales and correlation, which are summed over a grid, and drawn from
    cells of it by rejection.

    Parameters
    ----------
    x, y
        J groups of n rows, (J, n) each.
    """

    PRIOR_MEAN_SD, CONCENTRATION = 3.0, 2.0

    def __init__(self, x: Array, y: Array) -> None:
        self.groups, self.rows = y.shape
        self.dimension = 2 * self.groups + 6
        design = np.stack([np.ones_like(x), x], axis=2)
        self.gram = np.einsum("jri,jrk->jik", design, design)
        self.seen = np.einsum("jri,jr->ji", design, y)
        self.squares = float((y**2).sum())
        left = y - np.einsum(
            "jri,ji->jr", design, np.linalg.solve(self.gram, self.seen[..., None])[..., 0]
        )
        log_sigma = of_log_sd((left**2).sum(), left.size - 2 * self.groups)
        t, z = np.linspace(-8, 1.7, 49), np.linspace(-3, 3, 21)
        self._cells = Cells((log_sigma, t, t, z), self._marginal)
        self.log_z = self._cells.log_integral + (self.groups + 1) * np.log(2 * np.pi)

    def _marginal(self, u: Array, t: Array, s: Array, z: Array) -> Array:
        """log p̃ of log σ, scales and correlation, (N,), less 2π of all else."""
        covariance, weight = _covariance(t, s, z), np.exp(-2 * u)
        precision, linear, more = self._of_means(covariance, weight)
        return np.asarray(
            self._log_prior(t, s, z, u)
            - self.groups * self.rows * u
            - 0.5 * self.squares * weight
            + more
            + 0.5 * _quadratic(precision, linear)
            - 0.5 * np.log(_det(precision))
        )

    def _of_means(self, covariance: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Precision and linear term of m with effects integrated out, and what is left."""
        N, w = len(covariance), weight[:, None, None]
        precision = np.tile(np.eye(2) / self.PRIOR_MEAN_SD**2, (N, 1, 1))
        linear, more = np.zeros((N, 2)), np.zeros(N)
        for gram, seen in zip(self.gram, self.seen, strict=True):
            mixed = np.eye(2) + covariance @ gram * w
            keep = _inverse(mixed)
            precision += gram @ keep * w
            linear += np.einsum("nji,j->ni", keep, seen) * weight[:, None]
            inner = np.einsum("i,nij,njk,k->n", seen, keep, covariance, seen)
            more += 0.5 * inner * weight**2 - 0.5 * np.log(_det(mixed))
        return precision, linear, more

    def _log_prior(self, t: Array, s: Array, z: Array, u: Array) -> Array:
        correlation = self.CONCENTRATION * _log_rest(z)
        return t - np.exp(t) + s - np.exp(s) + u - np.exp(u) + correlation

    @np.errstate(over="ignore", divide="ignore", invalid="ignore")  # far out in a neck
    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        m, (t, s, z), u = theta[:, :2], theta[:, 2:5].T, theta[:, -1]
        b = theta[:, 5:-1].reshape(len(theta), self.groups, 2)
        rho, rest, weight = np.tanh(z), np.exp(_log_rest(z)), np.exp(-2 * u)
        first = (b[..., 0] - m[:, :1]) * np.exp(-t)[:, None]
        second = (b[..., 1] - m[:, 1:]) * np.exp(-s)[:, None]
        beyond = (second - rho[:, None] * first) / rest[:, None]
        through = np.einsum("njk,jki->nji", b, self.gram)
        squares = self.squares + (b * (through - 2 * self.seen)).sum(axis=(1, 2))
        far = (first**2).sum(axis=1) + rest * (beyond**2).sum(axis=1)
        log_p = (
            self._log_prior(t, s, z, u)
            - 0.5 * (m**2).sum(axis=1) / self.PRIOR_MEAN_SD**2
            - self.groups * (t + s + 0.5 * np.log(rest) + self.rows * u)
            - 0.5 * (far + squares * weight)
        )
        to_first = (first - rho[:, None] * beyond) * np.exp(-t)[:, None]
        to_second = beyond * np.exp(-s)[:, None]
        by_b = (self.seen - through) * weight[:, None, None]
        by_b -= np.stack([to_first, to_second], axis=2)
        by_m = np.stack([to_first, to_second], axis=2).sum(axis=1) - m / self.PRIOR_MEAN_SD**2
        by_t = 1 - np.exp(t) - self.groups + (first * (first - rho[:, None] * beyond)).sum(axis=1)
        by_s = 1 - np.exp(s) - self.groups + (second * beyond).sum(axis=1)
        along = rest * (beyond * first).sum(axis=1) - rho * rest * (beyond**2).sum(axis=1)
        by_z = (self.groups - 2 * self.CONCENTRATION) * rho + along
        by_u = 1 - np.exp(u) - self.groups * self.rows + squares * weight
        scales = np.stack([by_t, by_s, by_z], axis=1)
        return log_p, np.hstack([by_m, scales, by_b.reshape(len(theta), -1), by_u[:, None]])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        u, t, s, z = self._cells.draws(n, rng)
        covariance, weight = _covariance(t, s, z), np.exp(-2 * u)
        precision, linear, _ = self._of_means(covariance, weight)
        spread = _inverse(precision)
        m = np.einsum("nij,nj->ni", spread, linear) + _normal(spread, rng)
        effects = np.empty((n, self.groups, 2))
        for j, (gram, seen) in enumerate(zip(self.gram, self.seen, strict=True)):
            given = _inverse(np.eye(2) + covariance @ gram * weight[:, None, None]) @ covariance
            pull = (seen - m @ gram) * weight[:, None]
            effects[:, j] = m + np.einsum("nij,nj->ni", given, pull) + _normal(given, rng)
        return np.column_stack([m, t, s, z, effects.reshape(n, -1), u])


def _log_rest(z: Array) -> Array:
    """log(1 − tanh² z)."""
    return np.asarray(2 * (np.log(2) - np.logaddexp(z, -z)))


def _covariance(t: Array, s: Array, z: Array) -> Array:
    cross = np.tanh(z) * np.exp(t + s)
    return np.stack([np.exp(2 * t), cross, cross, np.exp(2 * s)], axis=1).reshape(-1, 2, 2)


def _det(A: Array) -> Array:
    return np.asarray(A[:, 0, 0] * A[:, 1, 1] - A[:, 0, 1] * A[:, 1, 0])


def _inverse(A: Array) -> Array:
    adjugate = np.stack([A[:, 1, 1], -A[:, 0, 1], -A[:, 1, 0], A[:, 0, 0]], axis=1)
    return np.asarray(adjugate.reshape(-1, 2, 2) / _det(A)[:, None, None])


def _quadratic(precision: Array, linear: Array) -> Array:
    return np.asarray(np.einsum("ni,nij,nj->n", linear, _inverse(precision), linear))


def _normal(covariance: Array, rng: np.random.Generator) -> Array:
    """Draws of N(0, Σ) of each, (N, 2)."""
    first = np.sqrt(covariance[:, 0, 0])
    slope = covariance[:, 1, 0] / covariance[:, 0, 0]
    left = covariance[:, 1, 1] - slope * covariance[:, 0, 1]
    z = rng.standard_normal((2, len(covariance)))
    second = slope * first * z[0] + np.sqrt(np.maximum(left, 0)) * z[1]
    return np.stack([first * z[0], second], axis=1)


def simulated(seed: int, scale: float, groups: int = 12, rows: int = 8) -> CorrelatedEffects:
    """Groups of means .5 and .7, a correlation of .4, both scales and a σ of 1 as given."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((groups, rows))
    root = np.linalg.cholesky(np.array([[1, 0.4], [0.4, 1]]))
    b = np.array([0.5, 0.7]) + scale * rng.standard_normal((groups, 2)) @ root.T
    return CorrelatedEffects(x, rng.normal(b[:, :1] + b[:, 1:] * x))
