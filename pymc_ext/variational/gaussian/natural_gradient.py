r"""The Gaussian of the highest ELBO, by natural gradients from scores.

In coordinates where q is N(0, I), with g = Lᵀ ∇log p̃ at θ = μ + L z, the path residual r = g + z
has E[r] = ∂ELBO/∂m, and by Stein's identity I − E[r zᵀ] is minus the mean Hessian, which at the
optimum is q's precision. One step: m ← ρ E[r], P ← I − ρ sym E[r zᵀ]. The residual vanishes as
q → p, and with it the noise (Roeder, Wu & Duvenaud 2017, arXiv:1703.09194). The step is that
of Khan & Rue (2023), The Bayesian learning rule, arXiv:2107.04562, eq. 11.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import Averaged
from pymc_ext.variational.gaussian.numbers import (
    antithetic,
    cholesky,
    inverse_root,
    shorten_outliers,
    whole_pairs,
)
from pymc_ext.variational.gaussian.posteriors import Gaussian

FIRST_RATE = 0.5  # of a full natural step, from a batch that knows D² numbers poorly
DELAY = 5.0  # steps before rates fall as 1/t, as an average of noisy estimates asks for
MOST_CHANGE = (-1.0, 0.5)  # of a precision's eigenvalue in one step: sds within a factor √2
LEAST_DRAWS = 50  # of one step; above 40 dimensions the 9/8 D by which E[r zᵀ] has full rank


def step_draws(dimension: int) -> int:
    """Draws of one step, in mirrored pairs."""
    return max(LEAST_DRAWS, 2 * ((dimension + dimension // 8 + 1) // 2))


def step_rate(steps: int, first: float = FIRST_RATE, delay: float = DELAY) -> float:
    """ρ of the step after so many."""
    return min(first, delay / (steps + delay))


def mean_step(residuals: Array, rate: float) -> Array:
    """ρ E[r] (D,) of r (N, D) in q's coordinates; at most half as far as a draw is."""
    step: Array = rate * residuals.mean(axis=0)
    longest = 0.5 * np.sqrt(len(step))
    return step * (longest / max(longest, float(np.linalg.norm(step))))


@dataclass(frozen=True)
class Batch:
    """Draws in mirrored pairs, nearly of a Gaussian q, with their scores, (N, D) each."""

    q: Gaussian
    theta: Array
    scores: Array


class NaturalGradient(Averaged[Gaussian]):
    """Natural-gradient steps on (μ, Σ) from a Gaussian."""

    def __init__(self, density: CountedDensity, q: Gaussian, rng: np.random.Generator) -> None:
        super().__init__()
        self.density, self.rng = density, rng
        self.mean, self.root = q.mean.copy(), q.root.copy()
        self.draws = step_draws(density.dimension)
        self._seen: list[tuple[Array, Array]] = []

    def forget_average(self) -> None:
        super().forget_average()
        self._seen = []

    def batch(self, q: Gaussian) -> Batch:
        """Draws and scores of the steps in the average, which made ``q``; no new ones."""
        D = len(self.mean)
        halves = [x.reshape(2, -1, D) for rows in self._seen for x in rows]
        theta, scores = (
            np.concatenate(halves[k::2], axis=1).reshape(-1, D) if halves else np.empty((0, D))
            for k in (0, 1)
        )
        return Batch(q, theta, scores)

    def advance(self) -> float:
        z = antithetic(self.rng, self.draws, len(self.mean))
        theta = self.mean + z @ self.root.T
        log_q = standard_normal_logp(z) - np.log(np.diag(self.root)).sum()
        with np.errstate(all="ignore"):
            log_p, scores = self.density.log_density_gradient(theta)
        usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
        if usable.sum() >= 4:
            self._move(z[usable], scores[usable])
            if self.averaging:
                self._seen.append((theta[usable], scores[usable]))
        else:  # almost no mass where p̃ is: nearer to the mean there is more
            self.root = self.root / 2
        return float(np.mean(log_q[usable] - log_p[usable])) if usable.any() else np.inf

    def _move(self, z: Array, scores: Array) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            r = shorten_outliers(scores @ self.root + z)
        rate = step_rate(self.since_restart)
        step = mean_step(r, rate)
        stein = r.T @ z / len(z)
        self.mean = self.mean + self.root @ step
        self.root = self.root @ inverse_root(rate * (stein + stein.T) / 2, *MOST_CHANGE)

    def parameters(self) -> tuple[Array, ...]:
        return self.mean, self.root @ self.root.T

    def posterior(self, *parameters: Array) -> Gaussian:
        mean, cov = parameters
        return Gaussian(mean, cholesky(cov))
