"""Which variables pymc-extras summed out of a model, the model with them, and their sums again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pymc as pm
from pytensor.graph.basic import Apply
from pytensor.graph.fg import FunctionGraph

from pymc_ext.pymc_extras_versions import MarginalRV, marginalize, unmarginalize
from pymc_ext.pymc_versions import remove_value_transforms

__all__ = ["hidden_names", "summed_out", "with_hidden"]


def hidden_names(model: pm.Model) -> list[str]:
    """Names of what was summed out, in the order of sums: the outermost, summed last, first."""
    return list(_names_within(FunctionGraph(outputs=model.basic_RVs, clone=True).toposort()))


def _names_within(nodes: Iterable[Apply]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node.op, MarginalRV):
            yield str(getattr(node.op, "marginalized_name", node.op.inner_outputs[0].name))
            yield from _names_within(node.op.fgraph.toposort())


def with_hidden(model: pm.Model) -> pm.Model:
    """The model before variables were summed out, on the constrained space of the draws."""
    return remove_value_transforms(unmarginalize(model))


def summed_out(full: pm.Model, names: Sequence[str]) -> pm.Model:
    """The model with these summed out, the last of them first.

    One at a time: of several at once pymc-extras chooses the order.
    """
    for name in reversed(names):
        full = marginalize(full, [name])
    return full
