"""Successive states of chains, as samplers of this package hand them over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import NDArray

from pymc_ext.maths.types import Array


@dataclass(frozen=True)
class Transitions:
    """States and statistics; see `pymc_ext.sampling.protocol.Transitions`."""

    points: Array
    statistics: Mapping[str, NDArray]
