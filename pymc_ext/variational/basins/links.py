"""Who governs whose scale in each basin, for a reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pymc_ext.variational.hierarchical.links import Links

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class BasinLinks:
    """Links of each basin's map; ``print`` tells them basin by basin, the heaviest first.

    Parameters
    ----------
    weights
        Of the basins, in the order of q's components.
    basins
        Links of each, in the same order.

    Examples
    --------
    >>> from pymc_ext.variational.hierarchical.links import Link
    >>> funnel = Links((Link("log tau", "x", 0.97, 0.03),))
    >>> print(BasinLinks((0.25, 0.75), (Links(), funnel)))
    basin 2, of weight 0.75:
      log tau governs x: slope 0.97 ± 0.03
    basin 1, of weight 0.25:
      no coordinate governs the scale of another
    """

    weights: tuple[float, ...] = ()
    basins: tuple[Links, ...] = ()

    @property
    def heaviest(self) -> Links:
        """Those of the basin of the highest weight."""
        return self.basins[int(np.argmax(self.weights))]

    def __len__(self) -> int:
        return sum(len(links) for links in self.basins)

    def __str__(self) -> str:
        if len(self.basins) == 1:
            return str(self.basins[0])
        return "\n".join(
            f"{self._title(k)}:\n  " + str(self.basins[k]).replace("\n", "\n  ")
            for k in self._heaviest_first()
        )

    def plot(self) -> NDArray[np.object_]:
        """An image of slopes for each basin that has links, the heaviest first.

        Returns the axes, (basins,). Raises ValueError where no basin has any.
        """
        import matplotlib.pyplot as plt

        linked = [k for k in self._heaviest_first() if len(self.basins[k])]
        if not linked:
            raise ValueError("no basin has links: there is nothing to plot")
        height = 1.5 + 0.2 * max(len({x.governed for x in self.basins[k].links}) for k in linked)
        size = 3.5 * len(linked), height
        axes = plt.subplots(1, len(linked), figsize=size, layout="constrained", squeeze=False)[1][0]
        for ax, k in zip(axes, linked, strict=True):
            drawn: Axes = self.basins[k].plot(ax)
            drawn.set_title(self._title(k))
        return axes

    def _heaviest_first(self) -> list[int]:
        return np.argsort(-np.array(self.weights), kind="stable").tolist()

    def _title(self, k: int) -> str:
        return f"basin {k + 1}, of weight {self.weights[k]:.3g}"
