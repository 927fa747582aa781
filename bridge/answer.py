"""What `bridge.fit` settled on: draws, whether they are to be trusted, and all that was tried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version

from bridge.attempt import Attempt
from bridge.methods.base import Fit
from bridge.methods.named_draws import NamedDraws
from bridge.targets.draws import InferenceData

__all__ = ["Advice"]


@dataclass(frozen=True)
class Advice:
    """What :func:`bridge.fit` settled on.

    Attributes
    ----------
    method
        The name of the method of the draws; ``"warm-nuts"`` for chains in the coordinates of an
        approximation, ``"flow-nuts"`` in those of a flow, ``"nuts"`` for the sampler of the model's
        own package.
    attempts
        Every method tried, in order.
    fit
        Draws of the chosen approximation before resampling, with ``log_q``, and of its proposal,
        where it has one: that is what was resampled. None for chains.
    draws
        What ``idata`` is made of.
    doubts
        Why the draws of NUTS are not to be trusted, one sentence each; empty where they are.
    unknown
        Names of quantities with tails so heavy that no number of draws tells their sd, or mean:
        what is trusted of them are quantiles.
    random_seed
        As it was given.
    """

    method: str
    attempts: tuple[Attempt, ...]
    fit: Fit | None
    draws: NamedDraws | InferenceData
    doubts: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    random_seed: int | None = None

    @property
    def trusted(self) -> bool:
        """Whether the draws may be taken for the posterior."""
        return not self.doubts

    @cached_property
    def idata(self) -> InferenceData:
        """The draws as ArviZ holds them, constrained, with the model's coords and dims.

        ``sample_stats`` has ``lp``; PSIS-resampled where the method is an approximation, chains as
        they are. The attributes of ``posterior`` are those of :attr:`attributes`.
        """
        if isinstance(self.draws, NamedDraws):
            idata = self.draws.inference_data()
        else:
            idata = self.draws
        idata["posterior"].attrs.update(self.attributes)
        return idata

    @property
    def gradients(self) -> int:
        """Scores of log p̃ of all attempts and searches, as far as methods count them."""
        return sum(attempt.all_gradients for attempt in self.attempts)

    @property
    def log_evidence(self) -> tuple[float, float] | None:
        """log Z from the importance weights of the approximation that is trusted, and its standard
        error, nats; None for chains, which have no normaliser."""
        if self.fit is None:
            return None
        last = self.attempts[-1]
        return last.log_marginal_is, last.log_marginal_is_se

    @property
    def attributes(self) -> dict[str, str | int | float]:
        """What goes with the draws wherever they are kept, as NetCDF can hold it."""
        found: dict[str, str | int | float] = {
            "inference_library": "trusted-posteriors",
            "inference_library_version": version("trusted-posteriors"),
            "method": self.method,
            "trusted": int(self.trusted),
            "reasons": self.reasons,
            "gradient_evaluations": self.gradients,
        }
        if self.unknown:
            found["unknown"] = ", ".join(self.unknown)
        if self.random_seed is not None:
            found["random_seed"] = self.random_seed
        if self.log_evidence is not None:
            found["log_evidence"], found["log_evidence_se"] = self.log_evidence
        return found

    @property
    def reasons(self) -> str:
        """One line a method tried, what was taken in the end, and whether it is to be trusted."""
        lines = [str(attempt) for attempt in self.attempts]
        lines.append(f"taken: {self.method} ({'trusted' if self.trusted else 'not trusted'})")
        lines += [f"not trusted: {doubt}" for doubt in self.doubts]
        if self.log_evidence is not None:
            lines.append("log evidence: {:.3f} ± {:.3f}".format(*self.log_evidence))
        return "\n".join(lines)
