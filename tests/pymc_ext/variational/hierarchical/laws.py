"""Laws around draws, all else free."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.variational.hierarchical.lattice import LatticeLaplace, lattice_laplace
from pymc_ext.variational.hierarchical.nested import NestedLaplace, nested_laplace
from pymc_ext.variational.hierarchical.scan import Middle


def middle(density: CountedDensity, draws, along: Sequence[int], order) -> Middle | None:
    """Of ``order`` what governs comes before what it governs."""
    return Middle.of(density, draws, along, np.array([k for k in order[::-1] if k not in along]))


def nested(density: CountedDensity, draws, along: Sequence[int], order) -> NestedLaplace | None:
    start = middle(density, draws, along, order)
    return None if start is None else nested_laplace(density, start, along)


def on_lattice(
    density: CountedDensity, draws, crossing: Sequence[int], adding: Sequence[int], order
) -> LatticeLaplace | None:
    start = middle(density, draws, [*crossing, *adding], order)
    return None if start is None else lattice_laplace(density, start, crossing, adding)
