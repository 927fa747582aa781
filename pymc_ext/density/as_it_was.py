"""A model's data as they were at a time, for what is made of its draws later on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pymc as pm

from pymc_ext.density.shared_values import SharedValues


class AsItWas:
    """What ``pm.set_data`` changes in a model: values of shared variables, lengths and coords.

    Parameters
    ----------
    model
        The model.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Data("x", [1.0, 2.0])
    >>> before = AsItWas(model)
    >>> with model:
    ...     pm.set_data({"x": [3.0]})
    >>> with before():
    ...     print(x.get_value())
    [1. 2.]
    >>> print(x.get_value())
    [3.]
    """

    def __init__(self, model: pm.Model) -> None:
        made = [*model.basic_RVs, *model.deterministics, *model.potentials, *model.data_vars]
        held = [*made, *model.rvs_to_values.values(), *model.dim_lengths.values()]
        self._model, self._coords, self._shared = model, dict(model.coords), SharedValues(held)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The model with these, and with what it has now again afterwards."""
        coords, now = self._model.coords, dict(self._model.coords)
        with self._shared():
            try:
                _refill(coords, self._coords)
                yield
            finally:
                _refill(coords, now)


def _refill(coords: dict[str, tuple | None], content: Mapping[str, tuple | None]) -> None:
    coords.clear()
    coords.update(content)
