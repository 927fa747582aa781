"""Hierarchical models of any number of groups, as NumPy densities with one term a group.

Values and scores of one point cost O(groups). The groups' effects are centred, as people write
them. θ holds the globals first, then the groups' effects.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pymc_ext.maths.types import Array

ROWS = 5  # observations of a group
PRIOR_SD = 2.0  # of means and slopes; log scales have N(0, 1)


class VaryingIntercepts:
    """y_gi | u_g, β with link u_g + β x_gi; u_g ~ N(μ, τ²); θ = (μ, β, log τ, u), D = G + 3.

    Parameters
    ----------
    groups
        G.
    simulate
        Links (5, G) and a generator -> y (5, G).
    log_likelihood, likelihood
        Links and y, (N, G) and (G,) -> terms of log p, (N, G); the same and their derivatives in
        the link.
    """

    def __init__(
        self,
        groups: int,
        simulate: Callable[[Array, np.random.Generator], Array],
        log_likelihood: Callable[[Array, Array], Array],
        likelihood: Callable[[Array, Array], tuple[Array, Array]],
        seed: int = 1,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.groups, self.globals, self.dimension = groups, 3, groups + 3
        self.log_likelihood, self.likelihood = log_likelihood, likelihood
        self.x = rng.standard_normal((ROWS, groups))
        effects = rng.normal(0.5, 0.7, groups)
        self.y = simulate(effects + 0.5 * self.x, rng).astype(float)
        self.unconstrained_names = ["mu", "beta", "log_tau", *(f"u[{g}]" for g in range(groups))]

    def log_density(self, theta: Array) -> Array:
        beta, u = theta[:, 1:2], theta[:, 3:]
        log_p = self._prior(theta)[0]
        for x, y in zip(self.x, self.y, strict=True):
            log_p += self.log_likelihood(u + beta * x, y).sum(axis=1)
        return log_p

    def _prior(self, theta: Array) -> tuple[Array, Array, Array]:
        """log p, u − μ and its squares in sum over τ², (N,), (N, G) and (N, 1)."""
        mu, beta, log_tau, u = theta[:, :1], theta[:, 1:2], theta[:, 2:3], theta[:, 3:]
        off = u - mu
        squares = np.sum(off**2, axis=1, keepdims=True) * np.exp(-2 * log_tau)
        log_p = -0.5 * squares - self.groups * log_tau - 0.5 * log_tau**2
        log_p -= 0.5 * (mu**2 + beta**2) / PRIOR_SD**2
        return log_p[:, 0], off, squares

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        mu, beta, log_tau, u = theta[:, :1], theta[:, 1:2], theta[:, 2:3], theta[:, 3:]
        precision = np.exp(-2 * log_tau)
        lp, off, squares = self._prior(theta)
        score = np.empty_like(theta)
        score[:, 2] = squares[:, 0] - self.groups - log_tau[:, 0]
        score[:, 0] = (off.sum(axis=1, keepdims=True) * precision - mu / PRIOR_SD**2)[:, 0]
        by_u = -off * precision
        by_beta = -beta[:, 0] / PRIOR_SD**2
        for x, y in zip(self.x, self.y, strict=True):
            terms, slopes = self.likelihood(u + beta * x, y)
            lp += terms.sum(axis=1)
            by_u += slopes
            by_beta += slopes @ x
        score[:, 1], score[:, 3:] = by_beta, by_u
        return lp, score


def _log_poisson(link: Array, y: Array) -> Array:
    return y * link - np.exp(link)


def _poisson(link: Array, y: Array) -> tuple[Array, Array]:
    rate = np.exp(link)
    return y * link - rate, y - rate


def _log_logistic(link: Array, y: Array) -> Array:
    return y * link - np.log1p(np.exp(link))


def _logistic(link: Array, y: Array) -> tuple[Array, Array]:
    odds = np.exp(link)
    return y * link - np.log1p(odds), y - odds / (1 + odds)


def poisson(groups: int) -> VaryingIntercepts:
    """Counts with log rate u_g + β x."""
    return VaryingIntercepts(
        groups, lambda eta, rng: rng.poisson(np.exp(eta)), _log_poisson, _poisson
    )


def logistic(groups: int) -> VaryingIntercepts:
    """Zeros and ones with log odds u_g + β x."""
    return VaryingIntercepts(
        groups,
        lambda eta, rng: rng.random(eta.shape) < 1 / (1 + np.exp(-eta)),
        _log_logistic,
        _logistic,
    )


class VaryingSlopes:
    """y_gi ~ N(a_g + b_g x_gi, σ²), a_g ~ N(μ_a, τ_a²), b_g ~ N(μ_b, τ_b²); D = 2 G + 5.

    θ = (μ_a, μ_b, log τ_a, log τ_b, log σ, a, b).
    """

    def __init__(self, groups: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.groups, self.globals, self.dimension = groups, 5, 2 * groups + 5
        self.x = rng.standard_normal((ROWS, groups)) + 0.5  # intercepts and slopes correlate
        a, b = rng.normal(1.0, 0.8, groups), rng.normal(-0.5, 0.5, groups)
        self.y = a + b * self.x + 0.7 * rng.standard_normal((ROWS, groups))
        names = ["mu_a", "mu_b", "log_tau_a", "log_tau_b", "log_sigma"]
        self.unconstrained_names = names + [f"{v}[{g}]" for v in "ab" for g in range(groups)]

    def log_density(self, theta: Array) -> Array:
        return self.log_density_gradient(theta)[0]

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        G, rows = self.groups, self.groups * ROWS
        score = np.empty_like(theta)
        lp = -0.5 * np.sum(theta[:, :2] ** 2, axis=1) / PRIOR_SD**2
        lp -= 0.5 * np.sum(theta[:, 2:5] ** 2, axis=1)
        score[:, :2], score[:, 2:5] = -theta[:, :2] / PRIOR_SD**2, -theta[:, 2:5]
        for k, effects in enumerate((slice(5, 5 + G), slice(5 + G, 5 + 2 * G))):
            off, log_tau = theta[:, effects] - theta[:, k : k + 1], theta[:, k + 2]
            precision = np.exp(-2 * log_tau)
            squares = precision * np.sum(off**2, axis=1)
            lp -= 0.5 * squares + G * log_tau
            score[:, k] += precision * off.sum(axis=1)
            score[:, k + 2] += squares - G
            score[:, effects] = -off * precision[:, None]
        a, b, log_sigma = theta[:, 5 : 5 + G], theta[:, 5 + G :], theta[:, 4]
        precision, squares = np.exp(-2 * log_sigma), 0.0
        for x, y in zip(self.x, self.y, strict=True):
            off = y - a - b * x
            squares = squares + np.sum(off**2, axis=1)
            off *= precision[:, None]
            score[:, 5 : 5 + G] += off
            score[:, 5 + G :] += off * x
        squares = squares * precision
        lp -= 0.5 * squares + rows * log_sigma
        score[:, 4] += squares - rows
        return lp, score


MODELS: dict[str, Callable[[int], VaryingIntercepts | VaryingSlopes]] = {
    "poisson": poisson,
    "logistic": logistic,
    "varying slopes": VaryingSlopes,
}
