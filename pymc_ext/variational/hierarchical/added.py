"""What governors whose terms add up in log p̃ add to the terms of the rest, by their scans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

from pymc_ext.maths.types import Array
from pymc_ext.variational.hierarchical.law import Terms, place_between
from pymc_ext.variational.hierarchical.maxima import Maximum
from pymc_ext.variational.hierarchical.scan import Scan

__all__ = ["Added"]


class Added:
    """The terms of scans, each less those of the middle, which the rest has already.

    Parameters
    ----------
    scans
        Of S governors; of none nothing is added.
    middle
        Where all scans meet.
    origin
        From which x is measured, (k,).
    """

    def __init__(self, scans: Sequence[Scan], middle: Maximum, origin: Array) -> None:
        self.scans, self.middle, self.origin = scans, middle, origin

    @cached_property
    def _of_middle(self) -> Terms:
        return Terms.of_maxima([self.middle], self.origin)

    @cached_property
    def _at_nodes(self) -> tuple[Terms, ...]:
        return tuple(scan.terms(self.origin).plus(self._of_middle, -1) for scan in self.scans)

    @cached_property
    def _between(self) -> tuple[Callable[[Array], Terms], ...]:
        return tuple(scan.between(self.origin) for scan in self.scans)

    def at(self, t: Array, rest: Terms) -> Terms:
        """Terms of all at values (N, S), of the node that each is nearest to."""
        for k, (scan, own) in enumerate(zip(self.scans, self._at_nodes, strict=True)):
            rest = rest.plus(own[place_between(t[:, k], scan.edges)])
        return rest

    def between(self, t: Array, rest: Terms) -> Terms:
        """The same without steps from node to node; beyond the last place as there."""
        for k, own in enumerate(self._between):
            rest = rest.plus(own(t[:, k])).plus(self._of_middle, -1)
        return rest
