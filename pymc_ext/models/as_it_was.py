"""A model's data as they were at a time, for what is made of its draws later on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pymc as pm
from pytensor.graph.traversal import graph_inputs

from pymc_ext.pytensor_versions import TensorSharedVariable


class AsItWas:
    """What ``pm.set_data`` changes in a model: values of shared variables, lengths and coords.

    They are kept, not copied: ``pm.set_data`` puts others in their place.

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
        lengths = model.dim_lengths.values()
        values = model.rvs_to_values.values()
        made = [*model.basic_RVs, *model.deterministics, *model.potentials, *values, *lengths]
        self._model, self._coords = model, dict(model.coords)
        self._shared = {
            x: x.get_value(borrow=True)
            for x in graph_inputs([*made, *model.data_vars])
            if isinstance(x, TensorSharedVariable)  # random generators are none
        }

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """The model with these, and with what it has now again afterwards."""
        coords = dict(self._model.coords)
        shared = {x: x.get_value(borrow=True) for x in self._shared}
        try:
            self._put(self._coords, self._shared)
            yield
        finally:
            self._put(coords, shared)

    def _put(self, coords: Mapping[str, Any], shared: Mapping[TensorSharedVariable, Any]) -> None:
        self._model.coords.clear()
        self._model.coords.update(coords)
        for x, value in shared.items():
            x.set_value(value, borrow=True)
