"""What the runs of a comparison have in common: what they were asked for, and what made them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version

from bridge.measures.limits import KHAT_FEWEST_DRAWS
from pymc_ext.options import require_memory

__all__ = ["Settings", "versions"]

PACKAGES = ("trusted-posteriors", "pymc", "pytensor", "numpy", "scipy")


@dataclass(frozen=True)
class Settings:
    """What a run depends on besides case, method and seed."""

    draws: int = 20_000
    repetitions: int = 5
    database: str | None = None

    def __post_init__(self) -> None:
        if self.repetitions < 1 or self.draws < KHAT_FEWEST_DRAWS * self.repetitions:
            raise ValueError(
                f"need repetitions >= 1 and at least {KHAT_FEWEST_DRAWS} draws for each k̂, got "
                f"draws={self.draws}, repetitions={self.repetitions}"
            )
        require_memory("draws", self.draws, 1)  # of each parameter, the number of which cases have

    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@cache
def versions() -> str:
    """Of the packages that numbers come from, as JSON."""
    return json.dumps({name: version(name) for name in PACKAGES})
