r"""Pathfinder as a method of ``pm.fit``."""

from __future__ import annotations

import pymc as pm

from pymc_ext.variational.gaussian.path import HISTORY
from pymc_ext.variational.gaussian.pathfinder import DRAWS, PATHS, Pathfinder
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Start


class PathfinderVI(AlgorithmVI):
    r"""The best Gaussian along paths of L-BFGS: ``pm.fit(method=PathfinderVI())``.

    .. math:: q = N(\theta_l + H_l \nabla\log\tilde p(\theta_l), H_l)

    at the iterate l, of all paths, with the highest ELBO; H is L-BFGS's inverse Hessian, a diagonal
    plus low rank. Unconstrained space, log-Jacobian included. Some thirty to a hundred scores a
    path: a first look, a start for others.

    Parameters
    ----------
    paths
        From the start and from dispersed points.
    history
        Pairs of steps and changes of gradient behind H.
    elbo_draws
        Values behind the ELBO of each iterate.
    model, start, random_seed
        As :class:`LaplaceVI`. ``pm.Minibatch`` data are refused.

    Raises
    ------
    NoPathError
        From ``fit``, where no path finds a Gaussian; a ValueError.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.PathfinderVI(random_seed=1))
    >>> approx.result.stop_reason

    References
    ----------
    Zhang, Carpenter, Gelman & Vehtari (2022), JMLR 23(306), arXiv:2108.03782.
    """

    def __init__(
        self,
        *,
        paths: int = PATHS,
        history: int = HISTORY,
        elbo_draws: int = DRAWS,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = Pathfinder(paths, history, elbo_draws)
        super().__init__(algorithm, model=model, start=start, random_seed=random_seed)
