"""Values that graphs read from elsewhere, as they were at a time: data, hyperparameters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pytensor.graph.traversal import graph_inputs
from pytensor.tensor import TensorVariable

from pymc_ext.density.model import ONE_AT_A_TIME
from pymc_ext.pytensor_versions import TensorSharedVariable


class SharedValues:
    """Present values of the shared variables of graphs, to be put back for a while later on.

    They are not copied: ``pm.set_data`` puts another array there and leaves the old one alone.

    Parameters
    ----------
    graphs
        What reads them; random generators are left out.
    copied
        Those that a fit may change in place.
    """

    def __init__(
        self, graphs: Collection[TensorVariable], copied: Collection[TensorSharedVariable] = ()
    ) -> None:
        self._values: dict[TensorSharedVariable, object] = {
            x: x.get_value(borrow=x not in copied)
            for x in graph_inputs(graphs)
            if isinstance(x, TensorSharedVariable)
        }

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A context in which the variables have these values, in no other thread's calls."""
        with ONE_AT_A_TIME:
            now = {x: x.get_value(borrow=True) for x in self._values}
            try:
                _put(self._values)
                yield
            finally:
                _put(now)


def _put(values: dict[TensorSharedVariable, object]) -> None:
    for x, value in values.items():
        x.set_value(value, borrow=True)
