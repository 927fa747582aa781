"""The answer of a run of chains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from numpy.typing import NDArray

from pymc_ext.maths.types import Array
from pymc_ext.sampling.diagnostics import Diagnostics


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
    trusted
        Whether they may be taken for the posterior.
    reasons
        Why not, one sentence each; empty where ``trusted``.
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
    trusted: bool
    reasons: tuple[str, ...]
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
    def verdict(self) -> str:
        """One line: trusted, or why not."""
        return "trusted" if self.trusted else "not trusted: " + "; ".join(self.reasons)
