r"""The low-rank Gaussian of the highest ELBO, by natural gradients from scores: products only.

With Σ = ΛΛᵀ + diag ψ, t = Σ⁻¹(θ − μ) and the path residual δ = ∇log p̃ + t, which is zero where
q = p, the ELBO's gradient in Σ is ½ E[δ tᵀ] (Price's theorem), so that those in Λ and ψ are
sym E[δ tᵀ] Λ and ½ E[δ_i t_i]. Steps divide by their part of the Fisher information: Λ by Σ⁻¹ on
the left and Λᵀ Σ⁻¹ Λ on the right, ψ_i through the precision (Σ⁻¹)_ii. Dense in
:mod:`.natural_gradient`; the residual without noise is that of Roeder, Wu & Duvenaud (2017),
arXiv:1703.09194.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.course import Averaged
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.natural_gradient import (
    MOST_CHANGE,
    mean_step,
    step_draws,
    step_rate,
)
from pymc_ext.variational.gaussian.numbers import antithetic, shorten_outliers, whole_pairs
from pymc_ext.variational.gaussian.retreat import Retreat

RIDGE = 0.05  # information lent to a factor, whose own is 1 where it says all of its coordinates
LONGEST_FACTOR = 0.5  # Frobenius norm, in q's coordinates, of a step of one factor


class LowRankGradient(Averaged[LowRankGaussian]):
    """Steps on (μ, Λ, log ψ) from a Gaussian made by :meth:`LowRankGaussian.from_factor`."""

    def __init__(
        self, density: CountedDensity, q: LowRankGaussian, rng: np.random.Generator
    ) -> None:
        super().__init__()
        self.density, self.rng, self.q = density, rng, q
        self.factor, self.log_variance = q.factor, 2 * np.log(q.scale)
        self.draws = step_draws(q.rank)
        # a batch of 50 draws may point far off where q is poor and factors are many
        self.retreat = Retreat(self.parameters())

    def advance(self) -> float:
        z = antithetic(self.rng, self.draws, self.q.dimension)
        theta, log_q = self.q.forward(z)
        with np.errstate(all="ignore"):
            log_p, scores = self.density.log_density_gradient(theta)
        usable = whole_pairs(np.isfinite(log_p) & np.isfinite(scores).all(axis=1))
        if usable.sum() < 4:  # almost no mass where p̃ is: nearer to the mean there is more
            mean, factor, log_variance = self.parameters()
            self._set(mean, factor / 2, log_variance - np.log(4))
            return np.inf
        log_ratios = (log_p - log_q)[usable]
        if self.retreat.fell(self.parameters(), log_ratios):
            self._set(*self.retreat.best)
        else:
            self._move(z[usable], scores[usable])
        return -float(np.mean(log_ratios))

    def _set(self, mean: Array, factor: Array, log_variance: Array) -> None:
        self.factor, self.log_variance = factor, log_variance
        self.q = self.posterior(mean, factor, log_variance)

    def _move(self, z: Array, scores: Array) -> None:
        q, n = self.q, len(z)
        rate = self.retreat.damping * step_rate(self.since_restart)
        r = shorten_outliers(q.pullback(z, scores) + z)  # Rᵀ δ
        mean = q.mean + q.root_product(mean_step(r, rate)[None])[0]
        # with t = R⁻ᵀ z: u = Λᵀ t = (R⁻¹Λ)ᵀ z, and R × the gradient in Λ
        own = q.root_solve(self.factor.T).T
        by_factor = (r.T @ (z @ own) + z.T @ (r @ own)) / (2 * n)
        information = own.T @ own + RIDGE * np.eye(q.rank)
        along = rate * np.linalg.solve(information, by_factor.T)  # R⁻¹ × the step, by factors
        length = np.linalg.norm(along, axis=1, keepdims=True)
        along *= LONGEST_FACTOR / np.maximum(LONGEST_FACTOR, length)
        # E[δ_i t_i] over (Σ⁻¹)_ii is 1 − (p's precision)_ii / (q's)_ii
        t, delta = q.root_transposed_solve(z), q.root_transposed_solve(r)
        change = np.clip(rate * np.mean(delta * t, axis=0) / q.precision_diagonal, *MOST_CHANGE)
        factor = self.factor + q.root_product(along).T
        self._set(mean, factor, self.log_variance - np.log1p(-change))

    def parameters(self) -> tuple[Array, Array, Array]:
        return self.q.mean, self.factor, self.log_variance

    def posterior(self, *parameters: Array) -> LowRankGaussian:
        mean, factor, log_variance = parameters
        return LowRankGaussian.from_factor(mean, factor, np.exp(log_variance))
