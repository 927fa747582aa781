"""The dims of a model's variable as a file keeps them, and in the next model."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor import TensorVariable

__all__ = ["Dim", "add_dims", "dims_of"]

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

    def as_json(self) -> dict[str, object]:
        """For :meth:`of_json`."""
        return asdict(self)

    @classmethod
    def of_json(cls, entry: Mapping[str, Any]) -> Dim:
        """From what a file holds."""
        labels = entry["labels"]
        kept = None if labels is None else tuple(labels)
        return cls(str(entry["name"]), int(entry["length"]), kept)

    def is_like(self, other: Dim) -> bool:
        """Whether an index of the one is that of the other, as far as there are labels."""
        if self.labels is None or other.labels is None:
            return self.length == other.length
        return len(self.labels) == len(other.labels) and all(
            a == b or (a != a and b != b)  # NaN
            for a, b in zip(self.labels, other.labels, strict=True)
        )

    def __str__(self) -> str:
        if self.labels is None:
            return f"length {self.length}"
        few = ", ".join(map(str, self.labels[:6]))
        return f"{self.length} labels {few}{', …' if self.length > 6 else ''}"


def add_dims(model: pm.Model, dims: Mapping[str, Sequence[Dim]]) -> None:
    """Give the model the dims of variables by name that it does not have, once all are looked at.

    Raises
    ------
    ValueError
        It has one of other labels or another length, or two variables have: an index of today's
        would be another group's yesterday.
    """
    known = {name: ("this model", _dim(model, name)) for name in model.coords}
    new = dict[str, Dim]()
    for variable, own in dims.items():
        for dim in own:
            whose, other = known.setdefault(dim.name, (variable, dim))
            if not dim.is_like(other):
                raise ValueError(
                    f"{variable} has the dim {dim.name!r} of {dim}, that of {whose} is of {other}: "
                    f"give this model's another name, or leave {variable} out of variables"
                )
            if whose != "this model":
                new[dim.name] = other
    for dim in new.values():
        if dim.labels is None:
            model.add_coord(dim.name, length=dim.length)
        else:
            model.add_coord(dim.name, list(dim.labels))


def dims_of(model: pm.Model, rv: TensorVariable) -> tuple[Dim, ...]:
    """Those of a variable; empty where it has none, or not for all of its axes."""
    names: Sequence[str | None] = model.named_vars_to_dims.get(rv.name) or ()
    return () if None in names else tuple(_dim(model, str(name)) for name in names)


def _dim(model: pm.Model, name: str) -> Dim:
    labels, length = model.coords[name], _value_of(model.dim_lengths[name])
    return Dim(name, length, None if labels is None else tuple(_label(x) for x in labels))


def _value_of(length: Any) -> int:
    """Of a constant, a shared value, or else a graph, whose function takes a second to compile."""
    for kept in ("data", "get_value"):
        if hasattr(length, kept):
            value = getattr(length, kept)
            return int(value() if callable(value) else value)
    return int(length.eval())


def _label(label: object) -> Label:
    """As JSON holds it: dates and the like by their texts, whatever held them."""
    if isinstance(label, np.datetime64 | datetime.date) and not getattr(label, "tzinfo", None):
        return str(np.datetime_as_string(np.asarray(label, dtype="datetime64[us]"), unit="auto"))
    if isinstance(label, np.timedelta64 | datetime.timedelta):
        return str(np.asarray(label, dtype="timedelta64[us]"))
    if isinstance(label, np.generic):
        label = label.item()
    return label if isinstance(label, str | int | float | bool) else str(label)
