"""Dataclasses that hold arrays, compared by what is in them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import ArrayLike


class ByValue:
    """Equality field by field, arrays entry by entry; for a ``@dataclass(frozen=True, eq=False)``.

    >>> from pymc_ext.variational.gaussian.posteriors import Gaussian
    >>> Gaussian(np.zeros(2), np.eye(2)) == Gaussian(np.zeros(2), np.eye(2))
    True
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(np.array_equal(a, b) for a, b in zip(_values(self), _values(other), strict=True))

    def __hash__(self) -> int:
        return hash((type(self), *(np.shape(value) for value in _values(self))))


def _values(instance: ByValue) -> list[ArrayLike]:
    return [getattr(instance, f.name) for f in fields(instance)]  # type: ignore[arg-type]
