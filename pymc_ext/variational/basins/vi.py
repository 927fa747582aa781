r"""A map for every basin, as a method of ``pm.fit``."""

from __future__ import annotations

import pymc as pm

from pymc_ext.variational.basins.algorithm import MOST, Basins
from pymc_ext.variational.plugin.groups import MixtureGroup
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Start


class BasinsVI(AlgorithmVI):
    r"""A weighted sum of maps, one a basin of the posterior: ``pm.fit(method=BasinsVI())``.

    .. math:: q = \sum_k w_k q_k

    on the **unconstrained** space, log-Jacobian included. The first q_k is what
    :class:`HierarchicalVI` finds; paths from 34 points then look for basins outside, each
    of which gets a map of its own, until no path finds mass that matters elsewhere. The
    weights are those of least KL(p ‖ q), by importance sampling, so that they compare the masses of
    basins that no chain goes between: labellings of a mixture model, say. It sees no basin that no
    path reaches. ``approx.result.links`` says who governs whose scale in each basin: ``print`` it,
    ``links.heaviest``, ``links.plot()``.

    Parameters
    ----------
    components
        At most so many basins.
    model, start, random_seed
        As :class:`LaplaceVI`. ``pm.Minibatch`` data are refused, for steps are compared by log p̃.

    Raises
    ------
    ValueError
        As :class:`BatchMatchVI`; ``components`` is not an integer of at least 1.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.BasinsVI(random_seed=1))
    >>> np.exp(approx.q.log_weights)

    References
    ----------
    Zhang, Carpenter, Gelman & Vehtari (2022), arXiv:2108.03782 (paths); Cappé, Douc, Guillin, Marin
    & Robert (2008), doi:10.1007/s11222-008-9059-x (weights).
    """

    def __init__(
        self,
        *,
        components: int = MOST,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        super().__init__(
            Basins(components), MixtureGroup, model=model, start=start, random_seed=random_seed
        )
