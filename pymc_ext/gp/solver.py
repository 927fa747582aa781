"""From covariance numbers to evidence numbers: behind one call.

The gradient of the evidence L(λ*(θ), θ) in the prior's inputs is exact: the part at fixed sites,
and, where L is not stationary in the sites, the implicit part through dλ*/dθ.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from pymc_ext.gp.errors import ConvergenceError, HyperparameterError, ImproperPosteriorError
from pymc_ext.gp.evidence import FORMULAS, Correction
from pymc_ext.gp.full import FullPrior
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Arrays, Posterior, Prior
from pymc_ext.gp.rules.rule import FixedPoint, Rule, Slopes
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.gp.sparse import SparsePrior
from pymc_ext.maths.types import Array

logger = logging.getLogger(__name__)

# Nats by which rounding may take a log probability above 0: 4e-13 are the most of 200 observations
# that are certain, for 240 settings; a choice beyond that, as more rows round more
ABOVE_ONE = 1e-6
# Counts below are of 34 problems (n = 30 to 200): six likelihoods, prior variances of 1 to 1e6
# Slopes in the marginals, relative to the evidence, that count as none. A choice: with a tenth the
# gradients are the same, with ten times they move by 9e-7
NO_SLOPE = 1e-7
# Relative residual of the implicit gradient's system, directions and restarts of GMRES for it.
# Choices: ten times, half and twice move the gradients by 4e-8 at most
ADJOINT_GOAL = 1e-11
RESTART, RESTARTS = 100, 20
# Where rounding keeps it above that: residual accepted (a choice: ten times either way solves the
# same), and that relative to terms which cancel in the right side, thousands of roundings of a
# double: of counts of some hundreds under a prior variance of 25 so little is left of them that
# the first is out of reach, and the gradient right to five to seven digits
ADJOINT_TOLERANCE, ADJOINT_ROUNDING = 1e-7, 1e-12


@dataclass(frozen=True)
class Solution:
    """Evidence and sites at given observations, likelihood parameters and prior."""

    value: float
    fixed_point: FixedPoint
    correction: Correction
    phi: Array
    y: Array


class Solver:
    """A rule, a likelihood and an evidence formula.

    Parameters
    ----------
    likelihood, rule
        The likelihood is checked against the rule.
    learning
        ``"laplace"``, ``"ep"``, ``"elbo"``, ``"sites"``, or None for the rule's own.

    Notes
    -----
    The last solution is kept: asking again at the same numbers costs nothing, and for log-concave
    likelihoods it is where the next search starts.
    """

    def __init__(self, likelihood: Likelihood, rule: Rule, learning: str | None = None):
        self.rule = rule
        self.likelihood = rule.prepare(likelihood)
        self.learning = rule.default if learning is None else learning
        if self.learning not in FORMULAS:
            raise ValueError(f"learning must be one of {', '.join(FORMULAS)}, got {learning!r}")
        if self.learning not in rule.allowed:
            raise ValueError(
                f"{type(rule).__name__} learns by {' or '.join(sorted(rule.allowed))}, got "
                f"learning={self.learning!r}"
            )
        if self.likelihood.n_latent > 1 and self.learning not in ("elbo", "sites"):
            raise ValueError(
                f"{type(likelihood).__name__} learns by elbo or sites, got learning={learning!r}"
            )
        self._last: tuple[Arrays, Solution] | None = None
        self._covariance_checked = False
        self._jitter_said = False

    @property
    def has_solved(self) -> bool:
        """Whether there is a solution for some hyperparameters yet."""
        return self._last is not None

    def solve(self, y: Array, phi: Parameters, prior_inputs: Arrays) -> Solution:
        """Sites at the fixed point and the evidence there, includes all normalisers.

        Parameters
        ----------
        y : (n,) array
        phi : (P,) array
            Likelihood parameters, constrained.
        prior_inputs
            (m, K) of `FullPrior` or (m, K_mm, K_nm, k_nn) of `SparsePrior`.

        Raises
        ------
        ValueError
            If an input is not finite, a parameter or an observation out of range, or K not
            positive definite (the full K is checked once a solver, and whenever it shows).
        ConvergenceError
            If the rule does not reach its fixed point, or the evidence is not finite there, or
            above 0 where observations are discrete.
        """
        key = (y, phi, *prior_inputs)
        if self._last is not None and _same(self._last[0], key):
            return self._last[1]
        fixed = self._fixed_point(y, phi, prior_inputs)
        correction = self.correct(fixed.posterior, fixed.sites, y, phi)
        value = self.evidence(fixed.posterior, correction)
        solution = Solution(value, fixed, correction, phi.copy(), y)
        self._last = (tuple(np.array(k) for k in key), solution)
        return solution

    def posterior(self, y: Array, phi: Parameters, prior_inputs: Arrays) -> Posterior:
        """The posterior at the fixed point, also where the evidence is undefined there."""
        try:
            return self.solve(y, phi, prior_inputs).fixed_point.posterior
        except (ImproperPosteriorError, ConvergenceError):  # of the evidence, else it comes again
            return self._fixed_point(y, phi, prior_inputs).posterior

    def _fixed_point(self, y: Array, phi: Parameters, prior_inputs: Arrays) -> FixedPoint:
        self.likelihood.check_parameters(phi)
        prior = make_prior(prior_inputs)
        self._check_observations(y, len(prior.mean))
        if not self._covariance_checked:
            prior.check()
            self._covariance_checked = True
        if prior.jitter and not self._jitter_said:
            what = "K_mm of the inducing inputs is not positive definite to rounding"
            logger.warning("%s: %.1e added to it (said once)", what, prior.jitter)
            self._jitter_said = True
        return self._from_last(prior, y, phi)

    def _check_observations(self, y: Array, n: int) -> None:
        """`pm.set_data` may have changed them."""
        if len(y) != n:
            raise ValueError(f"X has {n} rows, y has {len(y)} entries: pm.set_data sets both")
        self.likelihood.check(y)

    def _from_last(self, prior: Prior, y: Array, phi: Parameters) -> FixedPoint:
        """Warm start where the fixed point is unique; from scratch if that fails."""
        args = (prior, self.likelihood, y, phi)
        if self._last is None or not self.likelihood.log_concave:
            return self.rule.solve(*args)
        start = self._last[1].fixed_point.sites
        if len(start.linear) != len(y) or not np.array_equal(self._last[1].y, y):
            return self.rule.solve(*args)
        try:
            return self.rule.solve(*args, start)
        except (ConvergenceError, ValueError):
            return self.rule.solve(*args)

    def correct(
        self, posterior: Posterior, sites: GaussianSites, y: Array, phi: Parameters
    ) -> Correction:
        """The evidence formula's correction at any sites."""
        options = self.rule.options(self.learning)
        return FORMULAS[self.learning](posterior, sites, self.likelihood, y, phi, **options)

    def evidence(self, posterior: Posterior, correction: Correction) -> float:
        """Both terms together; raises ConvergenceError unless the sum can be a log probability."""
        value = posterior.centred_log_normaliser + correction.value
        if not np.isfinite(value):
            raise ConvergenceError(
                f"the evidence by learning={self.learning!r} is {value} at the sites of {self.rule}"
            )
        if self.likelihood.discrete and self.learning == "ep" and value > ABOVE_ONE:
            raise ConvergenceError(
                f"the EP energy at the sites of {self.rule} is {value:.3g}, above 0, which no log "
                f"probability is: for {self.likelihood} with a prior this wide they are too far "
                "from EP's; use learning='elbo', rule=EP(), or more inducing inputs"
            )
        return value

    def gradient(self, y: Array, phi: Parameters, prior_inputs: Arrays) -> Arrays:
        """Exact derivatives of the evidence in phi and in every prior input."""
        s = self.solve(y, phi, prior_inputs)
        post, c = s.fixed_point.posterior, s.correction
        if self.learning not in self.rule.stationary:
            by_phi, by_mean, by_variance = self._implicit(s)
            by_marginals = c.mean + by_mean, c.variance + by_variance, c.residual + by_variance
            return c.parameters + by_phi, *post.gradient(*by_marginals)
        if self._marginals_matter(post, c):
            return c.parameters, *post.gradient(c.mean, c.variance, c.residual)
        return c.parameters, *post.gradient()

    def _marginals_matter(self, post: Posterior, c: Correction) -> bool:
        """At a stationary point the correction's slopes in the marginals vanish, but for d."""
        scale = NO_SLOPE * (1 + abs(c.value))
        return bool(
            np.any(post.residual > 0)
            or np.max(np.abs(c.mean)) > scale
            or np.max(np.abs(c.variance)) > scale
        )

    def held_gradient(
        self, y: Array, phi: Parameters, prior_inputs: Arrays, sites: GaussianSites
    ) -> tuple[float, Arrays]:
        """Evidence and its derivatives in phi and the prior's inputs with the sites held."""
        post = make_prior(prior_inputs).condition(sites)
        c = self.correct(post, sites, y, phi)
        bars = post.gradient(c.mean, c.variance, c.residual)
        return self.evidence(post, c), (c.parameters, *bars)

    def _implicit(self, s: Solution) -> tuple[Array, Array, Array]:
        """Derivative through the sites: w = (1 − J)⁻ᵀ ∂L/∂λ, pulled through the map to φ, μ, s."""
        post, sites, c = s.fixed_point.posterior, s.fixed_point.sites, s.correction
        slopes = self.rule.slopes(post, sites, self.likelihood, s.y, s.phi)
        if not len(s.phi) and slopes.constant:
            return np.zeros(0), np.zeros_like(post.mean), np.zeros_like(post.mean)
        moved = post.pull_back_to_sites(c.mean, c.variance)
        by_linear = post.mean + moved[0] + c.linear
        second = post.mean**2 + post.variance
        by_precision = -0.5 * second + moved[1] + c.precision
        w = _adjoint(post, slopes, by_linear, by_precision)
        by_mean, by_variance = _pull(slopes, w)
        by_phi = slopes.linear_parameters @ w[0] + slopes.precision_parameters @ w[1]
        return by_phi, by_mean, by_variance


def make_prior(inputs: Arrays) -> FullPrior | SparsePrior:
    """The prior its inputs describe: two arrays the full one, four the sparse one."""
    for array in inputs:
        if not np.isfinite(array).all():
            raise HyperparameterError(
                "mean or covariance holds NaN or infinity: check X and the hyperparameters"
            )
    if len(inputs[1]) == 0:
        raise HyperparameterError("there is no inducing input or observation")
    n, rows = len(inputs[0]), len(inputs[1 if len(inputs) == 2 else 2])
    if n != rows:
        raise ValueError(f"mean_func gives {n} numbers for {rows} rows of X: it must give one each")
    return FullPrior(*inputs) if len(inputs) == 2 else SparsePrior(*inputs)


def _same(a: Arrays, b: Arrays) -> bool:
    return all(x.shape == y.shape and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _pull(slopes: Slopes, w: Array) -> tuple[Array, Array]:
    """Cotangents of the marginals' mean and variance from those of (ν, τ)."""
    return (
        slopes.linear_mean * w[0] + slopes.precision_mean * w[1],
        slopes.linear_variance * w[0] + slopes.precision_variance * w[1],
    )


def _adjoint(post: Posterior, slopes: Slopes, by_linear: Array, by_precision: Array) -> Array:
    """Solve w − (∂marginals/∂λ)ᵀ (∂map/∂marginals)ᵀ w = ∂L/∂λ, (2, n)."""
    n = len(by_linear)
    b = np.concatenate([by_linear, by_precision])
    if not np.any(b):
        return b.reshape(2, n)

    def moved(w: Array) -> Array:
        return np.concatenate(post.pull_back_to_sites(*_pull(slopes, w.reshape(2, n))))

    def apply(w: Array) -> Array:
        return w - moved(w)

    first = moved(b)  # Newton's map has J² = 0 at its fixed point: two terms are exact
    if np.max(np.abs(moved(first))) < ADJOINT_GOAL * np.max(np.abs(b)):
        return (b + first).reshape(2, n)
    matrix = LinearOperator((2 * n, 2 * n), apply)
    w, info = gmres(matrix, b, rtol=ADJOINT_GOAL, restart=RESTART, maxiter=RESTARTS)
    terms = np.linalg.norm([post.mean, 0.5 * (post.mean**2 + post.variance)])  # they cancel in b
    accepted = max(ADJOINT_TOLERANCE * np.linalg.norm(b), ADJOINT_ROUNDING * terms)
    if info and np.linalg.norm(b - apply(w)) > accepted:
        raise ConvergenceError(
            f"the implicit gradient's linear system was not solved to {ADJOINT_TOLERANCE}: the "
            "rule's fixed point is nearly singular here; use learning='elbo' or stronger priors"
        )
    return w.reshape(2, n)
