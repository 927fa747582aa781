"""The answer of a run of chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from numpy.typing import NDArray

from pymc_ext.maths.types import Array
from pymc_ext.sampling.diagnostics import Diagnostics
from pymc_ext.variational.core.checks import MISSED, Check


@dataclass(frozen=True)
class Sampled:
    """Draws of the posterior with their verdict and their cost.

    Attributes
    ----------
    theta
        (chains, draws, D), unconstrained, after warm-up.
    lp
        log p̃ (chains, draws), Jacobian and constants as the density has them.
    statistics
        Of the sampler, by ArviZ's names, each (chains, draws).
    diagnostics
        What the draws are worth.
    checks
        All that they were judged by.
    notes
        What else is worth knowing.
    sampler
        Its name.
    in_map
        Whether the draws come from chains in the approximation's coordinates; otherwise the sampler
        adapted by itself in θ.
    stop_reason
        Why the run ended.
    gradient_evaluations, density_evaluations
        Of log p̃, with warm-up, and with what was spent in coordinates that were given up.
    warm_up_gradients
        Those before the first of these draws.
    seconds, compile_seconds
        Wall time without compilation, and of compilation.
    random_seed
        Of the run.
    """

    theta: Array = field(repr=False)
    lp: Array = field(repr=False)
    statistics: Mapping[str, NDArray] = field(repr=False)
    diagnostics: Diagnostics
    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    sampler: str
    in_map: bool
    stop_reason: str
    gradient_evaluations: int
    density_evaluations: int
    warm_up_gradients: int
    seconds: float
    compile_seconds: float
    random_seed: int | None

    @property
    def trusted(self) -> bool:
        """Whether the draws may be taken for the posterior: all checks passed."""
        return all(check.passed for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why not, one sentence each; empty where they may."""
        return tuple(check.found for check in self.checks if not check.passed)

    def missing(self, doubts: Sequence[str]) -> Sampled:
        """With modes or tails that the draws do not show, a sentence each."""
        failed = (Check(MISSED, False, doubt) for doubt in doubts)
        return replace(self, checks=(*failed, *self.checks))

    @property
    def verdict(self) -> str:
        """One line: trusted, or why not."""
        return "trusted" if self.trusted else "not trusted: " + "; ".join(self.reasons)
