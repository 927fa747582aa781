"""Time series with several modes: a frequency seen at few times, and a moving average."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from posteriordb_cases.zoo.density import Array, ZooDensity
from posteriordb_cases.zoo.numerics import GridLaw

__all__ = ["Frequency", "MovingAverage"]


class Frequency(ZooDensity):
    """y_t ~ N(A cos ωt + B sin ωt, σ²), A, B ~ N(0, s²), ω ~ N(m, w²); θ = (ω, A, B).

    Exact: A, B | ω are Gaussian, and ω is summed over a grid; the valleys between its peaks
    separate the modes.

    Parameters
    ----------
    times
        t (T,).
    truth
        ω of the simulated data, of amplitude 2.
    noise, amplitude
        σ and s.
    middle, width
        m and w.
    """

    dimension = 3

    def __init__(
        self, times: Array, truth: float, noise: float, amplitude: float, middle: float,
        width: float,
    ) -> None:  # fmt: skip
        self.times, self.noise, self.amplitude = times, noise, amplitude
        self.middle, self.width = middle, width
        rng = np.random.default_rng(len(times))
        self.y = 2 * np.cos(truth * times) + noise * rng.standard_normal(len(times))
        omega = np.linspace(middle - 9 * width, middle + 9 * width, 40_001)
        mean, root, log_det = self._amplitudes(omega)
        fitted = (np.einsum("gij,gj->gi", root, mean) ** 2).sum(axis=1)
        value = 0.5 * fitted - 0.5 * log_det - 0.5 * ((omega - middle) / width) ** 2
        value = value - 0.5 * (self.y**2).sum() / noise**2
        self._omega = GridLaw(omega, value)
        self.log_z = self._omega.log_z + float(np.log(2 * np.pi))
        density = self._omega.density
        valley = (density[1:-1] < density[:-2]) & (density[1:-1] <= density[2:])
        self._valleys = omega[1:-1][valley]
        self.modes = len(self._valleys) + 1

    def _waves(self, omega: Array) -> Array:
        """cos and sin, (G, T, 2)."""
        angle = omega[:, None] * self.times
        return np.stack([np.cos(angle), np.sin(angle)], axis=2)

    def _amplitudes(self, omega: Array) -> tuple[Array, Array, Array]:
        """Of A, B | ω: mean (G, 2), Lᵀ of the precision L Lᵀ (G, 2, 2), and its log det (G,)."""
        waves = self._waves(omega)
        precision = np.einsum("gti,gtj->gij", waves, waves) / self.noise**2
        precision += np.eye(2) / self.amplitude**2
        linear = np.einsum("gti,t->gi", waves, self.y) / self.noise**2
        root = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, linear[..., None])[..., 0]
        log_det = 2 * np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        return mean, np.swapaxes(root, 1, 2), log_det

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        omega, AB = theta[:, 0], theta[:, 1:]
        waves = self._waves(omega)
        e = (self.y - np.einsum("nti,ni->nt", waves, AB)) / self.noise**2
        turned = np.einsum("nti,ni->nt", waves, np.column_stack([AB[:, 1], -AB[:, 0]]))
        z = (omega - self.middle) / self.width
        lp = -0.5 * (e**2).sum(axis=1) * self.noise**2 - 0.5 * z**2
        lp = lp - 0.5 * (AB**2).sum(axis=1) / self.amplitude**2
        by_AB = np.einsum("nt,nti->ni", e, waves) - AB / self.amplitude**2
        by_omega = (e * turned * self.times).sum(axis=1) - z / self.width
        return lp, np.column_stack([by_omega, by_AB])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        omega = self._omega.draws(n, rng)
        mean, root, _ = self._amplitudes(omega)
        noise = np.linalg.solve(root, rng.standard_normal((n, 2, 1)))[..., 0]
        return np.column_stack([omega, mean + noise])

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        return np.searchsorted(self._valleys, theta[:, 0])


class MovingAverage(ZooDensity):
    """y_t = ε_t + m ε_{t−1}, ε ~ N(0, σ²), m ~ N(0, 2²), log σ ~ N(0, 1); θ = (m, log σ).

    (m, σ) and (1/m, σ m) are equally likely given the data: an invertible and another mode. The
    covariance is tridiagonal Toeplitz, whose eigenvectors are sines. Exact: numerically, over a
    grid of both; log σ | m is drawn in cells of a thousandth of its range.

    Parameters
    ----------
    length, truth
        Number of data, and m that they were simulated with.
    """

    dimension, modes = 2, 2

    def __init__(self, length: int, truth: float) -> None:
        eps = np.random.default_rng(length).standard_normal(length + 1)
        y, k = eps[1:] + truth * eps[:-1], np.arange(1, length + 1)
        self._cos = np.cos(np.pi * k / (length + 1))
        sines = np.sin(np.pi * np.outer(k, k) / (length + 1)) * np.sqrt(2 / (length + 1))
        self._power = (sines @ y) ** 2
        self._m, self._s = np.linspace(-9, 9, 3601), np.linspace(-5, 4, 901)
        points = np.stack(np.meshgrid(self._m, self._s, indexing="ij"), axis=-1)
        value = np.stack([self.log_density(row) for row in points])
        self._law = GridLaw(self._m, logsumexp(value, axis=1))
        self.log_z = self._law.log_z + float(np.log(self._s[1] - self._s[0]))
        cdf = np.cumsum(np.exp(value - value.max(axis=1, keepdims=True)), axis=1)
        self._cdf = cdf / cdf[:, -1:]

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        m, s = theta[:, :1], theta[:, 1:]
        shape = 1 + m**2 + 2 * m * self._cos  # eigenvalues over σ²
        whitened = self._power * np.exp(-2 * s) / shape
        T = len(self._cos)
        lp = -0.5 * (np.log(shape) + whitened).sum(axis=1) - T * s[:, 0]
        lp = lp - 0.125 * m[:, 0] ** 2 - 0.5 * s[:, 0] ** 2
        by_shape = (whitened - 1) / shape
        by_m = (by_shape * (m + self._cos)).sum(axis=1) - 0.25 * m[:, 0]
        return lp, np.column_stack([by_m, whitened.sum(axis=1) - T - s[:, 0]])

    def draws(self, n: int, rng: np.random.Generator) -> Array:
        m = np.sort(self._law.draws(n, rng))
        node = np.rint((m - self._m[0]) / self._law.step).astype(int)
        edges, u = np.searchsorted(node, np.arange(len(self._m) + 1)), rng.random(n)
        s = np.empty(n)
        for k in np.unique(node):
            rows = slice(edges[k], edges[k + 1])
            s[rows] = np.interp(u[rows], self._cdf[k], self._s)
        s += 0.5 * (self._s[1] - self._s[0])  # a sum up to a point ends half a cell beyond it
        return rng.permutation(np.column_stack([m, s]))

    def mode_of(self, theta: Array) -> NDArray[np.integer]:
        return (np.abs(theta[:, 0]) > 1).astype(int)
