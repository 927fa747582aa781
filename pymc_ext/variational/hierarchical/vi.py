r"""The hierarchical map as a method of ``pm.fit``."""

from __future__ import annotations

import pymc as pm

from pymc_ext.variational.gaussian.batch_match import PATHS
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Start


class HierarchicalVI(AlgorithmVI):
    r"""A map with the conditional laws of hierarchical models: ``pm.fit(method=HierarchicalVI())``.

    .. math:: w_i = e^{a_i} y_i + (g_i - g_{i0})(m_i + \textstyle\sum_j H_{ij} w_j) + \ldots, \quad
        g_i = \mathrm{sigmoid}\bigl(2 \textstyle\sum_j C_{ij} w_j + 2 d_i\bigr), \quad
        a_i = \tfrac12 \log (g_i / g_{i0}), \quad \theta = \mu + L w

    on the **unconstrained** space, log-Jacobian included: the scale and the mean of some
    coordinates depend on others, as those of a group's effects on its log standard deviation. It
    starts at the Gaussian of :class:`BatchMatchVI`; that batch's scores show which coordinate
    governs whose scale. No priors are read, and of the model only the order in which its variables
    depend on one another, as one order of conditioning among those tried. Scales, gates and
    marginals are added one by one and kept only where the ELBO of fresh draws rises by more than
    its error; where nothing is found, q is the Gaussian. Some hundred to some ten thousand scores.
    Where coordinates have few neighbours, as in time series and fields on maps, q is the nested
    Laplace law instead: marginals of the globals, and the field's own normal law given them.
    Beyond 300 parameters rows of locals hold the globals and their own group only, both found from
    scores, and time and memory grow as D; where there is no such structure q is the low-rank
    Gaussian.
    ``approx.result.links`` says who governs whom: ``print`` it, or ``links.plot()``. A proposal
    with heavier tails may lie beside q, as of :class:`BatchMatchVI`.

    Parameters
    ----------
    paths
        Paths of the Gaussian's first part.
    model, start, random_seed
        As :class:`LaplaceVI`. ``pm.Minibatch`` data are refused, for steps are compared by log p̃.

    Raises
    ------
    ValueError
        As :class:`BatchMatchVI`.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.HierarchicalVI(random_seed=1))
    >>> approx.result.links, approx.result.elbo

    References
    ----------
    Kingma et al. (2016), arXiv:1606.04934 (autoregressive flows); Gorinova, Moore & Hoffman (2020),
    arXiv:1906.03028 (non-centring found automatically); Rue, Martino & Chopin (2009),
    doi:10.1111/j.1467-9868.2008.00700.x (nested Laplace approximations).
    """

    def __init__(
        self,
        *,
        paths: int = PATHS,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        super().__init__(Hierarchical(paths), model=model, start=start, random_seed=random_seed)
