"""What moves while governors are held: which coordinates, and how these are coupled in log p̃."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.by_value import ByValue
from pymc_ext.variational.hierarchical.columns import Columns, few_columns
from pymc_ext.variational.hierarchical.pattern import Pattern, least_fill

Coordinates = NDArray[np.integer]


@dataclass(frozen=True, eq=False)
class Others(ByValue):
    """Coordinates x, in an order in which Cholesky factors fill in little.

    Parameters
    ----------
    places
        In θ, (k,).
    coupled
        Pairs of which the second derivative is not zero, (k, k), symmetric.
    """

    places: Coordinates
    coupled: NDArray[np.bool_]

    @classmethod
    def all_coupled(cls, places: Coordinates) -> Others:
        """Of which nothing is known yet, in this order."""
        return cls(places, np.ones((len(places), len(places)), dtype=bool))

    @classmethod
    def ordered(cls, places: Coordinates, coupled: NDArray[np.bool_]) -> Others:
        """Those with few neighbours first, else in this order."""
        order = least_fill(coupled)
        return cls(places[order], coupled[np.ix_(order, order)])

    def __len__(self) -> int:
        return len(self.places)

    def without(self, held: Sequence[int]) -> Others:
        """Those that are not held, which are places in θ."""
        free = np.flatnonzero(~np.isin(self.places, held))
        return Others(self.places[free], self.coupled[np.ix_(free, free)])

    def shared(self, most: int) -> Coordinates:
        """The places of the ``most`` that are coupled with most others, as what all groups share
        is; in their order."""
        fullest = np.argsort(-self.coupled.sum(axis=0), kind="stable")[:most]
        return self.places[np.sort(fullest)]

    @cached_property
    def pattern(self) -> Pattern:
        """Of −H and its factor."""
        return Pattern.of(self.coupled)

    @cached_property
    def columns(self) -> Columns:
        """Differences of scores that tell H."""
        return few_columns(self.coupled)
