"""What a source of rows is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from pymc_ext.maths.types import Array

Block = Mapping[str, Array]  # (n,) or (n, p) by name, the same n


class Rows(Protocol):
    """Rows that are read from the first to the last, as often as wanted, in the same order."""

    @property
    def fingerprint(self) -> str:
        """Another one where the rows are others."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of one row of each array: () or (p,)."""

    def __len__(self) -> int:
        """Number of rows."""

    def blocks(self, begin: int = 0) -> Iterator[Block]:
        """Blocks of rows from row ``begin`` on."""

    def sample(self, size: int) -> Block:
        """About ``size`` rows from all over the data, at most all of them."""
