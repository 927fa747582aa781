"""The dims of a model's variable as a file keeps them, and in the next model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor import TensorVariable

__all__ = ["Dim", "dims_of"]

Label = str | int | float | bool


@dataclass(frozen=True)
class Dim:
    """One axis of a variable.

    Parameters
    ----------
    name
        Of the dim.
    length
        Of the axis.
    labels
        The coords; None where the model has none for it.
    """

    name: str
    length: int
    labels: tuple[Label, ...] | None

    def as_json(self) -> dict[str, Any]:
        """For :meth:`of_json`."""
        return asdict(self)

    @classmethod
    def of_json(cls, entry: Mapping[str, Any]) -> Dim:
        """From what a file holds."""
        labels = entry["labels"]
        kept = None if labels is None else tuple(labels)
        return cls(str(entry["name"]), int(entry["length"]), kept)

    def into(self, model: pm.Model, variable: str) -> None:
        """See that the model has it: added where there is none of the name.

        Raises
        ------
        ValueError
            There is one, of other labels or another length: an index of today's would be another
            group's yesterday.
        """
        if self.name not in model.coords:
            if self.labels is None:
                model.add_coord(self.name, length=self.length)
            else:
                model.add_coord(self.name, list(self.labels))
            return
        ours = _dim(model, self.name)
        unlike = self.labels is not None and ours.labels is not None and self.labels != ours.labels
        if ours.length != self.length or unlike:
            raise ValueError(
                f"{variable} has the dim {self.name!r} of {self._said()}, this model's is of "
                f"{ours._said()}: give this model's another name, or leave {variable} out of "
                "variables"
            )

    def _said(self) -> str:
        if self.labels is None:
            return f"length {self.length}"
        few = ", ".join(map(str, self.labels[:6]))
        return f"{self.length} labels {few}{', …' if self.length > 6 else ''}"


def dims_of(model: pm.Model, rv: TensorVariable) -> tuple[Dim, ...]:
    """Those of a variable; empty where it has none, or not for all of its axes."""
    names: Sequence[str | None] = model.named_vars_to_dims.get(rv.name) or ()
    return () if None in names else tuple(_dim(model, str(name)) for name in names)


def _dim(model: pm.Model, name: str) -> Dim:
    labels = model.coords[name]
    length = int(model.dim_lengths[name].eval())
    return Dim(name, length, None if labels is None else tuple(_label(x) for x in labels))


def _label(label: object) -> Label:
    """As JSON holds it: dates and the like by their texts."""
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, str | int | float | bool) else str(label)
