"""A flow judged on fresh draws, and the choice between settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.polish.policy import POLICY, Policy
from pymc_ext.variational.core.weights import are_constant, effective_draws

TRAINED = "ELBO"  # objective of the first phase, whose flow is q


class HasLogRatios(Protocol):
    """Whatever gives log p̃ − log q of the draws that normals make."""

    def log_ratios(self, z: Array) -> Array:
        """(N, K) -> (N,)."""


@dataclass
class FlowFit:
    """A flow and what it approximates."""

    flow: BernsteinFlow
    density: CountedDensity

    def log_ratios(self, z: Array) -> Array:
        """log p̃ − log q of the draws made from normals z, (N, K) -> (N,)."""
        with np.errstate(all="ignore"):  # of a flow that ran away
            theta, log_q = self.flow.forward(z)
            return self.density.log_density(theta) - log_q

    def below_base(self, z: Array, policy: Policy = POLICY) -> bool:
        """Whether the flow's ELBO is below its base's by more than Monte Carlo error.

        Parameters
        ----------
        z
            Normals (N, K), the same for both: errors that they share cancel.
        policy
            How many standard errors count.
        """
        y = z[:, : self.flow.dimension]
        theta, log_det = self.flow.base.forward(y)
        with np.errstate(all="ignore"):
            base_ratios = self.density.log_density(theta) + log_det - standard_normal_logp(y)
        if not np.isfinite(base_ratios).all():
            return False  # the base's ELBO is −∞
        difference = self.log_ratios(z) - base_ratios
        with np.errstate(invalid="ignore"):  # −∞ among them: then NaN, which is below
            se = np.std(difference) / np.sqrt(len(difference))
            return not np.mean(difference) >= -policy.standard_errors * se

    def values(self) -> list[Array]:
        """What polishing changes of the flow, copied."""
        return [self.flow.x.copy(), self.flow.stretch.copy()]

    def restore(self, values: list[Array]) -> None:
        """Put :meth:`values` back."""
        self.flow.set(values[0])
        self.flow.stretch[...] = values[1]


@dataclass(frozen=True)
class Stage:
    """ELBO, k̂ and relative effective sample size of a flow after one phase, on fresh draws.

    ``kept``: importance weights are taken of this one.
    """

    objective: str
    elbo: float
    khat: float
    relative_ess: float
    kept: bool = False

    def _use(self) -> str:
        if not self.kept:
            return ""
        return " (q, for weights too)" if self.objective == TRAINED else " (proposal for weights)"

    def describe(self) -> str:
        """One sentence for ``result.notes``."""
        return (
            f"after {self.objective}: ELBO {self.elbo:.4f}, k̂ {self.khat:.2f}, "
            f"ESS {self.relative_ess:.2f} N{self._use()}"
        )


def _khat(log_ratios: Array, policy: Policy) -> float:
    """k̂ of log importance ratios, shape (N,); −inf where they are constant (q = p)."""
    if len(log_ratios) < policy.fewest_ratios:
        return np.inf
    if are_constant(log_ratios):
        return -np.inf
    return float(psislw(log_ratios)[1])


def measure(objective: str, fit: HasLogRatios, z: Array, policy: Policy = POLICY) -> Stage:
    """Measures q on the draws made from the normals ``z``."""
    log_ratio = fit.log_ratios(z)
    inside = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    finite = inside[np.isfinite(inside)]
    share = effective_draws(inside) / len(z)
    return Stage(objective, float(inside.mean()), _khat(finite, policy), share)


def keep_best(
    place: Array,
    settings: Iterable[tuple[str, Array]],
    fit: HasLogRatios,
    z: Array,
    *,
    plain: Stage,
    floor: float,
    policy: Policy = POLICY,
) -> Stage | None:
    """Set ``place`` to the first setting with a good k̂, or to that with the lowest k̂.

    Parameters
    ----------
    place
        Numbers of the flow, changed in place.
    settings
        Name and value of each setting, those that cost the least ELBO first.
    fit, z
        The flow on its density, and the normals behind the draws on which ``plain`` was judged.
    plain
        The present setting, judged.
    floor
        ELBO below which no setting is taken.

    Returns
    -------
    Stage or None
        The one chosen; None, with the numbers as they were, if k̂ falls by less than its scatter.
    """
    before = place.copy()
    best, chosen = plain, before
    for name, value in settings:
        place[...] = value
        stage = measure(name, fit, z, policy)
        if stage.khat < best.khat and stage.elbo >= floor:
            best, chosen = stage, place.copy()
        if best.khat < policy.good_khat:
            break
    gained = best.khat < plain.khat - policy.scatter
    place[...] = chosen if gained else before
    return best if gained else None


def better(polished: Stage, plain: Stage, policy: Policy = POLICY) -> bool:
    """Whether k̂ fell by more than its own scatter; where it hardly changed the higher ESS wins.

    Where both k̂ are beyond use neither they nor the ESS mean much, and the higher ELBO wins. A
    lower k̂ at the largest price is no gain: q lies thinly over everything.
    """
    if min(polished.khat, plain.khat) > policy.reliable_khat:
        return polished.elbo > plain.elbo
    if polished.elbo < plain.elbo - policy.largest_price:
        return False
    if abs(polished.khat - plain.khat) < policy.scatter:
        return polished.relative_ess > plain.relative_ess
    return polished.khat < plain.khat
