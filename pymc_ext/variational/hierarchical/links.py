"""Who governs whose scale, for a reader: names, slopes, standard errors, a plot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pymc_ext.density.protocol import readable
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.hierarchical.moments import Moments

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DIGIT = 0.01  # the last one of a slope that is shown
_STEM = re.compile(r"[\[.].*")


@dataclass(frozen=True)
class Link:
    """The log scale of one coordinate changes along another, its governor.

    Parameters
    ----------
    governor, governed
        Names on the unconstrained space; elements by the coords of a PyMC model, else by indices,
        which of a Stan program count from 1, as in it.
    slope
        Change of the governed's log sd per unit of the governor, in the middle of q: near 1 for
        effects under a log standard deviation, 1/2 under a log variance, −1/2 under a log
        precision, where the data say little of the effect; nearer 0 where they say much.
    error
        Of the slope in the middle of the posterior: Monte Carlo noise of the last training, how far
        its residuals show one layer to be from the posterior's law there, and by how much slopes
        one sd to either side differ from it (hundredths where data are few or scales multiply).
        Three of them hold the exact slope of 96 % of links and more, of each of eight simulated
        models. It does not say how far the posterior of these data is from the model's exponent.
        None where no training tells it.
    """

    governor: str
    governed: str
    slope: float
    error: float | None


@dataclass(frozen=True)
class Links:
    """All links of a fit, the governors in the map's order; ``print`` sums them up by variable.

    Examples
    --------
    >>> print(Links((Link("log tau", "x[0]", 0.97, 0.03), Link("log tau", "x[1]", 1.02, 0.03))))
    log tau governs x[0], x[1]: slopes 0.97 … 1.02, each ± 0.03
    """

    links: tuple[Link, ...] = ()

    @classmethod
    def of(cls, q: HierarchicalMap, moments: Moments | None, names: Sequence[str]) -> Links:
        """The links of a map, with errors from the residuals of its last training."""
        own = q.root.diagonal[: q.governors]
        gate = q.at(np.zeros((1, q.dimension))).gate[0]
        slope = (q.sense * (1 - gate))[:, None] * q.scales / own  # ∂a/∂w = σ (1 − g) C
        error = None if moments is None else moments.scale_off / own
        named = [readable(names[k]) for k in q.order]
        pairs = np.argwhere(q.scales.T != 0)  # (governor, governed), in the map's order
        pairs = pairs[np.lexsort((q.order[pairs[:, 1]], pairs[:, 0]))]  # as the model has them
        return cls(
            tuple(
                Link(
                    governor=named[j],
                    governed=named[i],
                    slope=float(slope[i, j]),
                    error=None if error is None else float(error[i, j]),
                )
                for j, i in pairs
            )
        )

    def __len__(self) -> int:
        return len(self.links)

    def __str__(self) -> str:
        if not self.links:
            return "no coordinate governs the scale of another"

        groups: dict[tuple[str, str], list[Link]] = {}
        for link in self.links:
            groups.setdefault((link.governor, _STEM.sub("", link.governed)), []).append(link)
        return "\n".join(_sentence(group) for group in groups.values())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Slopes as an image: a column a governor, a row a governed coordinate.

        Parameters
        ----------
        ax
            Matplotlib axes; None makes a figure.
        """
        import matplotlib.pyplot as plt

        columns = list(dict.fromkeys(link.governor for link in self.links))
        rows = list(dict.fromkeys(link.governed for link in self.links))
        slopes = np.full((len(rows), len(columns)), np.nan)
        for link in self.links:
            slopes[rows.index(link.governed), columns.index(link.governor)] = link.slope
        if ax is None:
            size = 2.5 + 0.35 * len(columns), 1.5 + 0.2 * len(rows)
            ax = plt.subplots(figsize=size, layout="constrained")[1]
        largest = float(np.nanmax(np.abs(slopes), initial=1.0))
        image = ax.imshow(slopes, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto")
        ax.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
        ax.set_yticks(range(len(rows)), rows)
        ax.set(xlabel="governor", ylabel="governed")
        ax.figure.colorbar(image, ax=ax, label="slope of the log scale")
        return ax


def _sentence(group: list[Link]) -> str:
    first, last = group[0], group[-1]
    errors = [link.error for link in group if link.error is not None]
    # rounded up: no slope is known to ± 0.00
    known = f" ± {max(DIGIT, float(np.median(errors))):.2f}" if errors else ""
    if len(group) == 1:
        return f"{first.governor} governs {first.governed}: slope {first.slope:.2f}{known}"
    slopes = [link.slope for link in group]
    span = f"{min(slopes):.2f} … {max(slopes):.2f}"
    known = known and f", each{known}"
    whom = f"{first.governed}{' … ' if len(group) > 2 else ', '}{last.governed}"
    return f"{first.governor} governs {whom}: slopes {span}{known}"
