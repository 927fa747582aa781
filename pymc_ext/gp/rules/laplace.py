"""Laplace's approximation: sites from slope and curvature of log p(y|f) at the mode.

Ψ(f) = log p(y|f) − ½ αᵀ(f − m) with f = m + Kα is maximised by Newton's method; the Newton target
at f is the posterior mean under the sites taken at f, so every step is one posterior. Each one's
factor serves for further steps, δ = S (∇ log p(y|f) − α) with the old S, while they contract: they
cost n² where a factorisation costs n³/3 (the chord method).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_ext.gp.errors import ConvergenceError, ImproperPosteriorError
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Posterior, Prior
from pymc_ext.gp.rules.rule import (
    FixedPoint,
    Rule,
    Slopes,
    check_limits,
    first_sites,
    from_derivatives,
)
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.maths.types import Array

# Counts below are of 24 problems (n = 60): six likelihoods, prior variances of 1.7 and 51
HALVINGS = 30  # of a step, to 1e-9 of it; 10 do there
SLACK = 1e-13  # relative, a row: some hundred roundings (a choice: 1e-15 and 1e-11 do the same)
CONTRACTION = 0.2  # of steps with an old factor; half and twice take 261 and 246 new ones for 255
# Noise variances of the first posteriors of several searches. A choice: of four Student-t problems
# the third finds a higher mode in one, six ratios a higher one yet in the same
NOISE_RATIOS = (1.0, 9.0, 100.0)


@dataclass(frozen=True)
class Laplace(Rule):
    """Laplace's approximation.

    Parameters
    ----------
    tolerance
        Largest last Newton step of any latent, relative above 1 (its square for steps with an old
        factor); one more follows it, so that the error left is about its square. The default is a
        choice: evidences are within 4e-9 of those at 1e-7, with 1e-3 within 2e-6.
    max_iterations
        Newton steps before `ConvergenceError`. A choice: 69 are the most of 34 problems, over three
        searches for a Student-t.

    Notes
    -----
    Where the likelihood is not log-concave (`StudentT`) the search direction uses max(−ℓ'', 0)
    wherever the exact curvature gives no descent; the final sites keep their negative precisions.
    There may then be several modes: of those that searches from posteriors under the noise and
    under 9 and 100 times its variance find, the one with the highest log p(y|f) + log p(f) is
    taken. (The evidence is no guide: it rises without bound where a mode is about to vanish.) As
    a function of the hyperparameters the evidence jumps where another mode becomes the highest.

    References
    ----------
    Rasmussen & Williams (2006), algorithms 3.1 and 5.1. Vanhatalo, Jylänki & Vehtari (2009).
    """

    tolerance: float = 1e-5
    max_iterations: int = 300
    default = "laplace"
    allowed = frozenset({"laplace", "elbo", "ep"})

    def __post_init__(self) -> None:
        check_limits(self)

    def update(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> GaussianSites:
        d1, d2, _ = lik.derivatives(posterior.mean, y, phi)
        return from_derivatives(posterior.mean, d1, d2)

    def solve(
        self,
        prior: Prior,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
        start: GaussianSites | None = None,
    ) -> FixedPoint:
        if start is None:
            start = first_sites(lik, y, phi, prior.mean)
            if not lik.log_concave:
                return self._highest_mode(prior, lik, y, phi, start)
        return self._mode(prior, lik, y, phi, start)

    def _highest_mode(
        self, prior: Prior, lik: Likelihood, y: Array, phi: Parameters, start: GaussianSites
    ) -> FixedPoint:
        found: list[FixedPoint] = []
        errors: list[ConvergenceError] = []
        for ratio in NOISE_RATIOS:
            wider = GaussianSites(start.linear / ratio, start.precision / ratio)
            try:
                found.append(self._mode(prior, lik, y, phi, wider))
            except ConvergenceError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        posteriors = [point.posterior for point in found]
        heights = [_psi(post.mean, post.alpha, prior, lik, y, phi) for post in posteriors]
        searched = sum(point.iterations for point in found)
        return replace(found[int(np.argmax(heights))], iterations=searched)

    def _mode(
        self, prior: Prior, lik: Likelihood, y: Array, phi: Parameters, start: GaussianSites
    ) -> FixedPoint:
        post, count = prior.condition(start), 1
        best = _psi(post.mean, post.alpha, prior, lik, y, phi)
        f, alpha, best, size = self._chord(post, post.mean, post.alpha, best, np.inf, lik, y, phi)
        while size >= self.tolerance**2:
            if count >= self.max_iterations:
                raise ConvergenceError(
                    f"Laplace: no mode after {count} Newton steps, the last moved a latent by "
                    f"{size:.2g}; raise max_iterations or use rule=CVI()"
                )
            d1, d2, _ = lik.derivatives(f, y, phi)
            post = _newton_target(prior, f, d1, d2)
            count += 1
            df, da = post.mean - f, post.alpha - alpha
            size, step = float(np.max(np.abs(df) / (1 + np.abs(f)))), 1.0
            for _ in range(HALVINGS):
                value = _psi(f + step * df, alpha + step * da, prior, lik, y, phi)
                if value >= best - _slack(best, y):
                    break
                step /= 2
            else:
                raise ConvergenceError(
                    f"Laplace: no Newton step improves log p(f, y) = {best:.6g}; the last one "
                    f"moved a latent by {size:.2g}; check the covariance for infinite entries"
                )
            f, alpha, best = f + step * df, alpha + step * da, value
            if step == 1.0 and size < self.tolerance:
                break
            if step == 1.0:
                f, alpha, best, size = self._chord(post, f, alpha, best, size, lik, y, phi)
        return self._finish(prior, lik, y, phi, f, count, size)

    def _chord(
        self,
        post: Any,  # of one latent: it applies its covariance
        f: Array,
        alpha: Array,
        best: float,
        size: float,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> tuple[Array, Array, float, float]:
        """Further steps with one factor while they contract, the last one being ``size``.

        Where there may be several modes they could leave the one that Newton's steps lead to.
        """
        before, tau = (f, alpha, best, size), post.sites.precision
        while lik.log_concave and size >= self.tolerance**2:
            residual = lik.derivatives(f, y, phi)[0] - alpha
            df = post.apply_covariance(residual)
            new_size = float(np.max(np.abs(df) / (1 + np.abs(f))))
            if not new_size < CONTRACTION * size:
                break
            f, alpha, size = f + df, alpha + residual - tau * df, new_size
        value = _psi(f, alpha, post.prior, lik, y, phi)
        return (f, alpha, value, size) if value >= best - _slack(best, y) else before

    def _finish(
        self,
        prior: Prior,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
        f: Array,
        count: int,
        size: float,
    ) -> FixedPoint:
        d1, d2, _ = lik.derivatives(f, y, phi)
        sites = from_derivatives(f, d1, d2)
        try:
            return FixedPoint(sites, prior.condition(sites), count + 1, size)
        except ImproperPosteriorError as error:
            raise ConvergenceError(
                "Laplace: the stationary point found is a saddle, not a mode; use rule=CVI()"
            ) from error

    def slopes(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> Slopes:
        f = posterior.mean
        d3 = lik.derivatives(f, y, phi)[2]
        par = lik.parameter_derivatives(f, y, phi)
        zero = np.zeros_like(f)
        return Slopes(-d3 * f, zero, -d3, zero, par[:, 1] - par[:, 2] * f, -par[:, 2])


def _psi(f: Array, alpha: Array, prior: Prior, lik: Likelihood, y: Array, phi: Parameters) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sum(lik.log_prob(f, y, phi)) - 0.5 * alpha @ (f - prior.mean))


def _slack(best: float, y: Array) -> float:
    """Rounding error of Ψ."""
    return SLACK * (1 + abs(best)) * len(y)


def _newton_target(prior: Prior, f: Array, d1: Array, d2: Array) -> Posterior:
    sites = from_derivatives(f, d1, d2)
    if np.all(d2 <= 0):
        return prior.condition(sites)
    try:
        post = prior.condition(sites)
        if d1 @ (post.mean - f) - post.alpha @ (post.mean - f) >= 0:  # ascends or rests
            return post
    except ImproperPosteriorError:
        pass
    sites = from_derivatives(f, d1, np.minimum(d2, 0.0))
    return prior.condition(sites)
