"""Sites from the table of closed forms: no iteration at all."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np

from pymc_ext.gp.likelihoods.likelihood import Likelihood, Parameters
from pymc_ext.gp.posterior import Posterior, Prior
from pymc_ext.gp.rules.rule import FixedPoint, Rule, Slopes
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.matching.table import check_method
from pymc_ext.maths.types import Array


@dataclass(frozen=True)
class Matching(Rule):
    """Replace the likelihood once by a Gaussian: classification becomes exact GP regression.

    Parameters
    ----------
    method
        ``"laplace"``, ``"moment"``, ``"moment-ori"`` or ``"variational"``, see
        `pymc_ext.matching.table`.
    alpha
        Pseudo-count α > 0 of the auxiliary prior (Beta, Dirichlet or Gamma). Choose it, with the
        method, by the log-likelihood of the training rows: 0.1 suits nearly noiseless labels; where
        classes overlap it makes all but ``"laplace"`` overconfident, and α = 1 does not.

    Notes
    -----
    For `BernoulliLogit`, `Categorical`, `Poisson` (and `Gaussian`, exactly). ``learning="sites"``
    is the exact evidence of the replaced model; ``learning="elbo"`` judges the same posterior
    under the true likelihood: its evidences, of fits with several α, choose between them. Few
    rows (some tens) are matched crudely: `EP` or `CVI` cost little there.

    References
    ----------
    Bui, Likelihood approximations via Gaussian approximate inference, sections 3.2, 3.3 and
    appendix B. Milios et al. (2018), arXiv:1805.10915.
    """

    method: str = "variational"
    alpha: float = 0.1
    default = "sites"
    allowed = frozenset({"sites", "elbo", "ep"})

    def __post_init__(self) -> None:
        check_method(self.method)
        if not (isinstance(self.alpha, Real) and np.isfinite(self.alpha) and self.alpha > 0):
            raise ValueError(
                f"alpha must be positive and finite, got {self.alpha!r}; to choose it, learn "
                "with several and compare their evidences by learning='elbo'"
            )

    def prepare(self, lik: Likelihood) -> Likelihood:
        lik.matched(np.ones(1), np.ones(len(lik.names)), self.method, self.alpha)
        return lik

    def update(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> GaussianSites:
        return self._sites(lik, y, phi)

    def solve(
        self,
        prior: Prior,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
        start: GaussianSites | None = None,
    ) -> FixedPoint:
        sites = self._sites(lik, y, phi)
        return FixedPoint(sites, prior.condition(sites), 1, 0.0)

    def _sites(self, lik: Likelihood, y: Array, phi: Parameters) -> GaussianSites:
        mean, variance = lik.matched(y, phi, self.method, self.alpha)
        return GaussianSites(mean / variance, 1 / variance)

    def slopes(
        self,
        posterior: Posterior,
        sites: GaussianSites,
        lik: Likelihood,
        y: Array,
        phi: Parameters,
    ) -> Slopes:
        mean = sites.linear / sites.precision
        zero = np.zeros_like(mean)
        par = lik.parameter_derivatives(mean, y, phi)  # the matched likelihoods with parameters
        linear, precision = par[:, 1] - par[:, 2] * mean, -par[:, 2]  # are Gaussian themselves
        return Slopes(zero, zero, zero, zero, linear, precision)
