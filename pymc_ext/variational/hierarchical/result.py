"""How a fit of the map went."""

from __future__ import annotations

from dataclasses import dataclass, field

from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.hierarchical.law import LawAlong
from pymc_ext.variational.hierarchical.links import Links


@dataclass(frozen=True)
class HierarchicalResult(FitResult):
    """How a fit went, with its :class:`~.links.Links`: who governs whose scale.

    ``law`` is that of :mod:`.nested` along what governs most, whose tails weights reach; None where
    nothing governs, in more than 300 dimensions, or where it was not looked for. ``field_given``
    names the globals of a field, whose law q is then; None where it is a map or a Gaussian.
    """

    links: Links = field(default_factory=Links)
    law: LawAlong | None = field(default=None, repr=False)
    field_given: tuple[str, ...] | None = None

    @property
    def ends_before_its_mass(self) -> bool:
        """Whether a tail of the law has mass beyond where it is known, so that no draws are."""
        return self.law is not None and bool(self.law.open_ends)

    @property
    def usable(self) -> bool | None:
        """As of any fit, and False where a tail's mass is not known."""
        return False if self.ends_before_its_mass else super().usable

    @property
    def verdict(self) -> str:
        """The same in words."""
        if self.ends_before_its_mass and self.missed is not None:
            return f"its draws miss {self.missed}"
        return super().verdict

    def __str__(self) -> str:
        if self.field_given is None:
            return f"{super().__str__()}\n{self.links}"
        given = f" given {', '.join(self.field_given)}" if self.field_given else ""
        return f"{super().__str__()}\na field{given}: each coordinate depends on few others"
