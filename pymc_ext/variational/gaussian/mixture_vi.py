r"""A mixture of Gaussians at several modes, as a method of ``pm.fit``."""

from __future__ import annotations

import pymc as pm

from pymc_ext.variational.elbo.fixed_draws import FixedDraws
from pymc_ext.variational.gaussian.mixture import SEARCH, Mixture
from pymc_ext.variational.gaussian.modes import ModeSearch
from pymc_ext.variational.gaussian.noise import check_rank
from pymc_ext.variational.plugin.groups import MixtureGroup
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Start


class MixtureVI(AlgorithmVI):
    r"""Mixture of Gaussians at the posterior's modes: ``pm.fit(method=MixtureVI())``.

    .. math:: q = \sum_k w_k N(\mu_k, L_k L_k^\top)

    Modes are found from many starts; each gives a Laplace approximation; weights and the part of
    each component that ``variant`` frees then maximise the ELBO on fixed draws, stratified over
    the components. log q is the exact mixture density. Where no start reaches a mode, as in a
    centred hierarchy, components are Gaussians from scores alone, one for every basin that fits
    from the starts end in, and the result says so. Ctrl-C while they are looked for leaves the
    mixture of those found by then, if there is one, unfinished.

    Parameters
    ----------
    variant
        What is free in each component, as in :class:`MixedVI`.
    rank
        Columns of U_k and V_k, for ``"lr"``.
    components
        At most so many are kept: of modes those of highest Laplace evidence, of Gaussians from
        scores alone those of highest ELBO.
    search
        From how many points modes are looked for (20), and how far from the initial one (4);
        ``"match"``: Gaussians from scores alone at once, as :class:`BatchMatchVI` has them.
    fixed_draws, model, start, random_seed
        As :class:`MixedVI`.

    Raises
    ------
    RunawayError
        From ``fit``, if there is no mode and the posterior is improper.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.MixtureVI(random_seed=1))
    >>> np.exp(approx.q.log_weights)

    References
    ----------
    Gianniotis (2019), section VI, doi:10.1109/IJCNN.2019.8852348; Gershman, Hoffman & Blei (2012),
    arXiv:1206.4665.
    """

    def __init__(
        self,
        variant: str = "eig",
        *,
        rank: int = 1,
        components: int = 8,
        search: ModeSearch | str = SEARCH,
        fixed_draws: FixedDraws | None = None,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        fixed_draws = FixedDraws() if fixed_draws is None else fixed_draws
        algorithm = Mixture(
            variant, rank, components=components, search=search, fixed_draws=fixed_draws
        )
        super().__init__(algorithm, MixtureGroup, model=model, start=start, random_seed=random_seed)
        check_rank(rank, self.approx.group.ddim)
