"""Expectation propagation, all sites at once, with damping and Anderson acceleration.

For site i with cavity N(m_c, v_c) of the projected latent and f's variance V = v_c + d_i, let g be
the slope and h = (v̂ − V)/V² the curvature of log Ẑ in m_c, v̂ the tilted variance. Matching the
moments gives a τ = −h/(1 + v_c h) = −h V²/(V d_i + v_c v̂) and a ν = g + a τ (m_c + v_c g).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.gp.errors import ConvergenceError, ImproperPosteriorError
from pymc_ext.gp.evidence import cavities, tilted_slopes
from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Posterior, Prior
from pymc_ext.gp.rules.anderson import Anderson
from pymc_ext.gp.rules.rule import FixedPoint, Rule, Slopes, check_limits
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.maths.types import Array

SMALLEST_STEP = 1e-3  # a choice: half and twice fail on the same one of 24 problems, with outliers
PATIENCE = 10  # updates without progress before the step is halved (a choice: so do 5 and 20)
PROGRESS = 0.99  # share of the best residual that counts as fallen (a choice: .9 to 1 do the same)
# A residual below it that no longer falls is rounding, not a failure: 1e-7 of Poisson counts under
# a prior variance of 1e8, 8e-7 of negative binomial ones under 1e10
ROUNDING = 1e-6


@dataclass(frozen=True)
class EP(Rule):
    """(Power) expectation propagation.

    Parameters
    ----------
    power
        a in (0, 1]: 1 is EP; towards 0 it becomes variational inference.
    damping
        Share of the old site kept by a plain update, in [0, 1). It grows by itself where the
        updates do not contract, and where a cavity would lose its variance. Updates extrapolated
        from earlier ones (Anderson) are taken where they come nearer to the fixed point. The
        default is a choice: 0, .1 and .4 solve the same 33 of 34 problems by 1 % more, 2 % fewer
        and 6 % more updates.
    tolerance
        Largest change of a natural parameter by one more undamped update, relative above 1. Where
        rounding hides it (it does not fall for ten updates), 1e-6 is enough. The default is a
        choice: means are within 3e-7 sd of those at 1e-11, with 1e-8 within 2e-6.
    max_iterations
        Updates of all sites before `ConvergenceError`. A choice: of 34 problems the 33 solved take
        37 at most.

    Notes
    -----
    EP need not converge for likelihoods that are not log-concave; negative site precisions are
    kept as they are.

    References
    ----------
    Minka (2001), arXiv:1301.2294; Rasmussen & Williams (2006), section 3.6; Jylänki, Vanhatalo &
    Vehtari (2011), Robust Gaussian process regression with a Student-t likelihood.
    """

    power: float = 1.0
    damping: float = 0.2
    tolerance: float = 1e-9
    max_iterations: int = 1000
    default = "ep"
    stationary = frozenset({"ep"})
    allowed = frozenset({"ep"})

    def __post_init__(self) -> None:
        if not 0 < self.power <= 1:
            raise ValueError(f"power must be in (0, 1], got {self.power!r}; CVI() is its limit 0")
        if not 0 <= self.damping < 1:
            raise ValueError(f"damping must be in [0, 1), got {self.damping!r}")
        check_limits(self)

    def options(self, formula: str) -> dict[str, float]:
        return {"power": self.power}

    def update(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> GaussianSites:
        """As of any rule; ImproperPosteriorError where a cavity has no variance."""
        a = self.power
        m_c, v_c, k = cavities(posterior, sites, a)
        if np.any(k <= 0):
            raise ImproperPosteriorError(f"{int(np.sum(k <= 0))} cavities have no variance")
        d = posterior.residual
        V = v_c + d
        t, g, h = tilted_slopes(lik, m_c, V, y, phi, a)
        precision = -h * V**2 / (V * d + v_c * t.variance) / a
        return GaussianSites(g / a + precision * (m_c + v_c * g), precision)

    def solve(
        self,
        prior: Prior,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
        start: GaussianSites | None = None,
    ) -> FixedPoint:
        sites = GaussianSites.flat(len(y)) if start is None else start
        post = prior.condition(sites)
        target = self.update(post, sites, lik, y, phi)
        residual, best, stale = sites.distance(target), np.inf, 0
        step, count, history = 1 - self.damping, 1, Anderson()
        while residual >= self.tolerance:
            if count >= self.max_iterations or step < SMALLEST_STEP:
                raise ConvergenceError(self._reason(count, step, residual))
            proposal = history.propose(sites, target, step)
            count += 1
            try:
                new = prior.condition(proposal)
                new_target = self.update(new, proposal, lik, y, phi)
            except (ImproperPosteriorError, ConvergenceError):  # of the quadrature, at infinity
                step = step if history.used else step / 2
                history.clear()
                continue
            if history.used and not proposal.distance(new_target) < residual:
                history.clear()
                continue
            sites, post, target = proposal, new, new_target
            residual = sites.distance(target)
            stale = 0 if residual < PROGRESS * best else stale + 1
            best = min(best, residual)
            if stale >= PATIENCE and residual < ROUNDING:
                break
            if stale >= PATIENCE:
                step, stale, best = step / 2, 0, residual
        return FixedPoint(sites, post, count, residual)

    def _reason(self, count: int, step: float, residual: float) -> str:
        why = (
            f"{count} updates of all sites were not enough"
            if step >= SMALLEST_STEP
            else "every update lost the variance of a cavity or of the posterior, or moved the "
            f"sites without end, down to a step of {step:.1g}"
        )
        return (
            f"EP did not converge: {why}; one more update would move a site by {residual:.2g}. "
            "Raise damping or max_iterations, lower power, or use rule=CVI() with learning='ep'"
        )

    def slopes(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> Slopes:
        """Raises TypeError: the EP energy is stationary in EP's sites."""
        raise TypeError("the EP energy is stationary in EP's sites: no slopes are needed")
