"""The Jaakkola–Jordan (Pólya–Gamma) quadratic bound on the logistic likelihood.

log p(y|f) ≥ (y − ½) f + log s(t) − t/2 − ½ a(t)(f² − t²), a(t) = (s(t) − ½)/t, tightest in
expectation at t² = E f²: sites ν = y − ½, τ = a(t), which is `CVI` on the bounded expectations.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.gp.likelihoods.bernoulli import BernoulliLogit
from pymc_ext.gp.likelihoods.likelihood import Expectations, Likelihood, Parameters
from pymc_ext.gp.rules.cvi import CVI
from pymc_ext.maths.jaakkola import jaakkola_bound
from pymc_ext.maths.types import Array


class _BoundedLogit(BernoulliLogit):
    """`BernoulliLogit` whose expectation is the bound; all else is exact."""

    def expectations(
        self,
        mean: Array,
        variance: Array,
        y: Array,
        phi: Parameters,
        order: int = 2,
    ) -> Expectations:
        bound, slope, a = jaakkola_bound(mean, np.sqrt(variance))
        # in the roles of E ℓ', E ℓ'': dE/dμ = d1, dE/ds = d2/2; no formula asks for more
        d = np.stack([y - slope, -a, *np.zeros((2, len(y)))])
        return Expectations(y * mean - bound, d, np.empty((0, 3, len(y))))


@dataclass(frozen=True)
class JaakkolaBound(CVI):
    """The Jaakkola–Jordan bound for `BernoulliLogit`: fast, too narrow, a bound on the ELBO.

    Parameters
    ----------
    rho, tolerance, max_iterations
        As in `CVI`; ρ = 1 is the closed-form update t_i² = μ_i² + s_i.

    References
    ----------
    Jaakkola & Jordan (2000), doi:10.1023/A:1008932416310. Polson, Scott & Windle (2013),
    arXiv:1205.0310.
    """

    rho: float = 1.0
    allowed = frozenset({"elbo"})

    def prepare(self, lik: Likelihood) -> Likelihood:
        if not isinstance(lik, BernoulliLogit):
            raise ValueError(
                f"JaakkolaBound bounds the logistic likelihood, got {type(lik).__name__}: use "
                "likelihood=BernoulliLogit() or rule=CVI()"
            )
        return _BoundedLogit()
