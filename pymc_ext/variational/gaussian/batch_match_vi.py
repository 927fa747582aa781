r"""A robust Gaussian from scores alone, as a method of ``pm.fit``."""

from __future__ import annotations

import pymc as pm

from pymc_ext.variational.gaussian.batch_match import PATHS, BatchMatch
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Start


class BatchMatchVI(AlgorithmVI):
    r"""A Gaussian whose ELBO is raised until it gains no more: ``pm.fit(method=BatchMatchVI())``.

    .. math:: q = N(\mu, \Sigma), \quad \mathrm{ELBO} = E_q[\log\tilde p - \log q]

    on the **unconstrained** space, log-Jacobian included. Paths of an optimiser give a start, batch
    and match inside a trust region brings it near, natural gradients of the ELBO end it; no mode,
    no Hessian and no learning rate is needed, and some hundred to some thousand scores. It works
    where Laplace has no mode, and where the mode is not where the mass is. Beyond 300 parameters
    :math:`\Sigma = \Lambda\Lambda^\top + \operatorname{diag}\psi` with few factors, in memory and
    time that grow as D.

    Where importance weights, or a mean or an sd by them, have a k̂ above .5, the fit makes a
    *proposal* beside q with heavier tails (Hesterberg 1995), if it lowers that k̂: weights are of it
    (``approx.weighted_draws``, ``result.khat``), all else is of q.

    Parameters
    ----------
    paths
        Paths of the first part, from the start and from dispersed points.
    finish
        ``"elbo"``; None ends with batch and match, which minimises a score divergence.
    rank
        Columns of Λ, 1 … D; None: a dense Σ up to 300 parameters, beyond 32,000/D, at least 10 and
        at most 32.
    model, start, random_seed
        As :class:`LaplaceVI`. ``pm.Minibatch`` data are refused, for parts are compared by log p̃.

    Raises
    ------
    ValueError
        From ``fit``: log p̃ has no finite score near the start, or q ran away along a direction in
        which the posterior is improper. At once or from ``fit``: ``rank`` is out of range.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.BatchMatchVI(random_seed=1))
    >>> approx.result.elbo, approx.result.gradient_evaluations

    References
    ----------
    Cai et al. (2024), arXiv:2402.14758 (batch and match); Modi, Cai & Saul (2025),
    arXiv:2410.22292 (low rank); Zhang et al. (2022), arXiv:2108.03782
    (paths); Khan & Rue (2023), arXiv:2107.04562 (natural gradients); Hesterberg (1995),
    doi:10.1080/00401706.1995.10484303 (proposal).
    """

    def __init__(
        self,
        *,
        paths: int = PATHS,
        finish: str | None = "elbo",
        rank: int | None = None,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = BatchMatch(paths, finish, rank)
        super().__init__(algorithm, model=model, start=start, random_seed=random_seed)
