"""Natural-gradient variational inference in the sites (conjugate-computation VI).

λ_i ← (1 − ρ) λ_i + ρ ∇_{μ_i} E_q log p(y_i|f_i) with the gradient in the expectation parameters
(E f, E f²): with d1, d2 = E ℓ', E ℓ'' (Bonnet, Price) the target is τ = −d2, ν = d1 + τ μ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.gp.errors import ConvergenceError, ImproperPosteriorError
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Posterior, Prior
from pymc_ext.gp.rules.anderson import Anderson
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

# Counts below are of 34 problems (n = 30 to 200): six likelihoods, prior variances of 1 to 1e6
SMALLEST_STEP = 1e-4  # a choice: ten times either way solves the same
# Of a step after one that raised the ELBO. A choice: 1.25 and 3 solve the same by 12 and 38 % fewer
# updates, which most of all the priors of variance 1e4 and more take
GROWTH = 1.5
# Changes of the ELBO, relative or an observation, that may be quadrature error. A choice: ten and a
# hundred times either way solve the same, their means within .006 sd
FLAT = 1e-9
# A residual below it where no step raises the ELBO is rounding, not a failure: 5e-6 is left with
# counts under a prior variance of 1e8. Ten times either way solves the same, means within .003 sd
ROUNDING = 1e-5

State = tuple[GaussianSites, Posterior, GaussianSites]  # sites, what they make, their full update


@dataclass(frozen=True)
class CVI(Rule):
    """Variational inference by natural gradients.

    Parameters
    ----------
    rho
        Step ρ of `px.gp.fit_hyperparameters`' E-steps, in (0, 1]. Where the fixed point itself is
        wanted (in the model's evidence), steps adapt between ρ and 1: the limit is the same. The
        default is Li, John & Solin's.
    tolerance
        Largest change of a natural parameter by one more full update, relative above 1. Where
        rounding hides it (prior variances of 1e5 and more), 1e-5 is enough. The default is a
        choice: means are within 1e-8 sd of those at 1e-11, with 1e-8 within 1e-7.
    max_iterations
        Updates before `ConvergenceError`. A choice: 590 are the most of 34 problems, 1,500 with
        the labels of a probit under a prior variance of 1e8.

    References
    ----------
    Khan & Lin (2017), Conjugate-computation variational inference, arXiv:1703.04265. Li, John &
    Solin (2023), Improving hyperparameter learning under approximate inference in Gaussian process
    models, arXiv:2306.04201.
    """

    rho: float = 0.1
    tolerance: float = 1e-9
    max_iterations: int = 2000
    default = "elbo"
    stationary = frozenset({"elbo"})
    allowed = frozenset({"elbo", "ep"})

    def __post_init__(self) -> None:
        if not 0 < self.rho <= 1:
            raise ValueError(f"rho must be in (0, 1], got {self.rho!r}")
        check_limits(self)

    def prepare(self, lik: Likelihood) -> Likelihood:
        return lik

    def update(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> GaussianSites:
        return _target(posterior, lik, y, phi)[0]

    def solve(
        self,
        prior: Prior,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
        start: GaussianSites | None = None,
    ) -> FixedPoint:
        sites = _start(lik, y, phi, prior.mean) if start is None else start
        post = prior.condition(sites)
        target, bound = _target(post, lik, y, phi)
        residual, history = sites.distance(target), Anderson()
        count, step = 1, 1.0
        while count < self.max_iterations:
            if residual < self.tolerance:
                return FixedPoint(sites, post, count, residual)
            proposal = history.propose(sites, target, step, accelerated=step == 1.0)
            count += 1
            try:
                new = prior.condition(proposal)
                new_target, new_bound = _target(new, lik, y, phi)
            except (ImproperPosteriorError, ConvergenceError):  # of the quadrature, at infinity
                new_bound = -np.inf
            better = new_bound > bound
            if abs(new_bound - bound) < FLAT * (len(y) + abs(bound)):
                better = proposal.distance(new_target) < residual
                if not better and residual > ROUNDING:  # it need not fall on the way up
                    better = _gain((sites, post, target), (proposal, new, new_target)) > 0
            if better:
                sites, post, target, bound = proposal, new, new_target, new_bound
                residual = sites.distance(target)
                step = min(1.0, GROWTH * step)
            elif history.used:
                history.clear()
            else:
                step /= 2
            if step < SMALLEST_STEP and residual < ROUNDING:
                return FixedPoint(sites, post, count, residual)
            if step < SMALLEST_STEP:
                raise ConvergenceError(
                    f"CVI: no step of at least {SMALLEST_STEP} raises the ELBO {bound:.10g}; "
                    f"the sites would still move by {residual:.2g}"
                )
        raise ConvergenceError(
            f"CVI: {self.max_iterations} updates were not enough, one more would move a site by "
            f"{residual:.2g}; raise max_iterations or tolerance"
        )

    def slopes(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> Slopes:
        mu = posterior.mean
        e = lik.expectations(mu, posterior.variance + posterior.residual, y, phi, order=4)
        _, _, d3, d4 = e.derivatives
        par = e.parameters
        return Slopes(
            linear_mean=-d3 * mu,
            linear_variance=0.5 * (d3 - d4 * mu),
            precision_mean=-d3,
            precision_variance=-0.5 * d4,
            linear_parameters=par[:, 1] - par[:, 2] * mu,
            precision_parameters=-par[:, 2],
        )


def _start(lik: Likelihood, y: Array, phi: Parameters, mean: Array) -> GaussianSites:
    """Under the prior alone E exp(f) may be any number, and its square lost in rounding.

    Where the bound has several maxima none is preferred: flat sites, as in the papers.
    """
    if lik.log_concave and lik.n_latent == 1:
        return first_sites(lik, y, phi, mean)
    return GaussianSites.flat(len(y), lik.n_latent)


def _gain(old: State, new: State) -> float:
    """The ELBO's change by the trapezoid rule in the marginals: no difference of large numbers.

    Its slopes at fixed marginals are E ℓ' − α in μ and (τ − τ_target)/2 in v.
    """
    total = 0.0
    for sites, post, target in (old, new):
        slope = target.linear - target.precision * post.mean - post.alpha
        total += np.sum(slope * (new[1].mean - old[1].mean))
        by_variance = 0.5 * (sites.precision - target.precision)
        total += np.sum(by_variance * (new[1].variance - old[1].variance))
    return 0.5 * float(total)


def _target(
    post: Posterior, lik: Likelihood, y: Array, phi: Parameters
) -> tuple[GaussianSites, float]:
    """The full update, and the ELBO at the present sites."""
    mu, v = post.mean, post.variance
    e = lik.expectations(mu, v + post.residual, y, phi)
    precision = post.sites.precision
    bound = post.centred_log_normaliser + np.sum(e.value) + 0.5 * np.sum(precision * v)
    if not np.isfinite(bound):
        raise ConvergenceError(
            f"CVI: the ELBO is {bound}, latents of variance {np.max(v + post.residual):.3g} are "
            "too wide for E log p(y|f): use more inducing inputs, a narrower prior, or rule=EP()"
        )
    return from_derivatives(mu, *e.derivatives[:2]), float(bound)
