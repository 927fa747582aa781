"""The figure of a calibration: how far ranks are from uniform, and how far they may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bridge.calibration.bands import ecdf, ecdf_band
from bridge.calibration.run import MOST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ecdf_figure"]

NAMED = 5  # lines outside the band that a legend has room for


def ecdf_figure(
    ranks: NDArray[np.integer],
    quantities: Sequence[str],
    outside: Sequence[str],
    level: float,
    title: str,
    axis: Axes | None,
) -> Figure:
    """ECDFs of ranks (S, Q) less that of uniform ones, in their band of ``level``; the worst of
    those ``outside`` are named."""
    from matplotlib.figure import Figure

    if axis is None:
        axis = Figure(figsize=(5.2, 3.4), layout="constrained").subplots()
    z, lower, upper = ecdf_band(len(ranks), MOST, level)
    axis.fill_between(z, lower - z, upper - z, color="0.85", lw=0, label=f"{level:.0%} band")
    lines = ecdf(ranks, MOST) / len(ranks) - z[:, None]
    farthest = dict(zip(quantities, np.abs(lines).max(axis=0), strict=True))
    named = sorted(outside, key=lambda name: -farthest[name])[:NAMED]
    for name, line in zip(quantities, lines.T, strict=True):
        if name in named:
            axis.plot(z, line, lw=1.4, label=name)
        else:
            axis.plot(z, line, lw=0.7, color="0.1" if name in outside else "0.5", zorder=1)
    axis.set(xlabel="rank / 200", ylabel="ECDF − uniform", xlim=(0, 1))
    axis.set_title(title, fontsize=10)
    axis.legend(  # below, as lines may be anywhere inside
        frameon=False, fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2)
    )
    figure = axis.figure
    assert isinstance(figure, Figure)
    return figure
