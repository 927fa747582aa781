"""The variables in a flat θ, and the order in which their coordinates are conditioned."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density


class Block(NamedTuple):
    """A variable in the flat θ: its name, number of entries, and whether a transform bounds it."""

    name: str
    size: int
    transformed: bool = False


def blocks_of(density: Density) -> list[Block]:
    """The variables of a density, in the order of θ; one of all entries where it does not say."""
    blocks = getattr(density, "blocks", None)
    if blocks is not None:
        return [Block(*block) for block in blocks]
    names = getattr(density, "unconstrained_names", None)
    if names is None:
        return [Block("theta", density.dimension)]
    stems = [name.split(".")[0].split("[")[0] for name in names]
    return [Block(stem, len(list(run))) for stem, run in itertools.groupby(stems)]


def variable_order(
    blocks: Sequence[Block], ordering: Sequence[str] | None
) -> tuple[NDArray[np.intp], int]:
    """Permutation of the flat θ, and how many of its first entries are scalar variables.

    Entry k is conditioned on the entries before it. None puts the variables with few elements
    first (a model's hyperparameters), among equals those with a transform (scales: given them, what
    they scale is often Gaussian), then the given order. A sequence of names gives the order.
    """
    begins = np.cumsum([0, *(block.size for block in blocks)])
    entries = {
        block.name: np.arange(begin, begin + block.size)
        for block, begin in zip(blocks, begins[:-1], strict=True)
    }
    sizes = {block.name: block.size for block in blocks}
    if ordering is None:
        ordered = sorted(blocks, key=lambda block: (block.size, not block.transformed))
        names = [block.name for block in ordered]
    else:
        names = list(ordering)
        if sorted(names) != sorted(entries):
            raise ValueError(
                f"ordering must name each free variable once, got {names}; the model has "
                f"{list(entries)}"
            )
    scalars = list(itertools.takewhile(lambda name: sizes[name] == 1, names))
    return np.concatenate([entries[name] for name in names]), len(scalars)
