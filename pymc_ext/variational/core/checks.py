"""What an answer is judged by: each thing that is looked at, its number, its limit, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["JUMPS", "MISSED", "Check"]

JUMPS: Final = "jumps"
MISSED: Final = "missed mass"

# By name: what the number is, and what to do where it does not pass.
WHAT: Final = {
    "weights": (
        "k̂, the shape of the tail of p/q: from .7 on weights do not repair q, unless they hardly "
        "differ",
        "fit a richer family, or make exact draws by px.sample in the coordinates of this one",
    ),
    "effective draws": (
        "how many independent draws the estimates are worth",
        "make more draws, or fit a richer family",
    ),
    "means and sds": (
        "the largest Monte Carlo error of a mean or an sd, in sds; where k̂ of its own is too large "
        "for an error to be known, that k̂",
        "make more draws, or exact ones by px.sample; of what has no sd take quantiles",
    ),
    MISSED: (
        "whether modes are known in which no draws are, or tails of what governs scales; a number "
        "is what the heaviest mode is worth, as a share of the mass that draws cover",
        "fit px.BasinsVI(), a map for each mode, as bridge.fit does by itself; write a level not "
        "centred, with a proper prior of its scale",
    ),
    "R̂": (
        "how far chains differ, by ranks: 1 where they agree",
        "run longer chains, or write the model so that they mix",
    ),
    "sds": (
        "the largest standard error of an sd, as a share of it",
        "run longer chains; of what has no sd take quantiles",
    ),
    "divergences": (
        "the share of transitions that diverged",
        "raise target_accept, or write the model not centred",
    ),
    "E-FMI": (
        "how well momenta reach the energies of the posterior, of the worst chain",
        "write the model so that no scale falls with what it is of",
    ),
    JUMPS: (
        "by how many nats log p̃ jumps between draws, of which its score says nothing",
        "sum over the places where it may jump (pymc_extras.marginalize, of whole numbers), or "
        "write the step as a smooth one, as of x by sigmoid((t - x) / width)",
    ),
    "end": ("whether it came to its own end", "run it again, with a larger budget if it was short"),
}


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Parameters
    ----------
    name
        What it is, one of `WHAT`.
    passed
        Whether it speaks for trust.
    found
        What was found, in words.
    number, limit
        What it was judged by, as `meaning` says; NaN where there is no number.
    """

    name: str
    passed: bool
    found: str
    number: float = float("nan")
    limit: float = float("nan")

    @property
    def meaning(self) -> str:
        """What the number is."""
        return WHAT[self.name][0]

    @property
    def to_do(self) -> str:
        """What to do where it is not passed."""
        return WHAT[self.name][1]

    def __str__(self) -> str:
        return f"{self.name}: {'' if self.passed else 'NOT PASSED, '}{self.found}"
