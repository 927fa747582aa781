r"""Mixed variational inference, and its mean-field relative, as methods of ``pm.fit``."""

from __future__ import annotations

from dataclasses import replace

import pymc as pm

from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.elbo.fixed_draws import FixedDraws
from pymc_ext.variational.gaussian.approximation import LaplaceApproximation
from pymc_ext.variational.gaussian.mixed import Diagonal, GaussianBase, LaplaceBasedAlgorithm, Mixed
from pymc_ext.variational.gaussian.noise import check_rank
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Hyperparameters, Start


class _LaplaceBasedVI(AlgorithmVI):
    """What :class:`MixedVI` and :class:`DiagonalVI` share: a base that may be a fit made before."""

    algorithm: LaplaceBasedAlgorithm

    _given: VectorisedApproximation | None = None

    def _take_base(self, base: GaussianBase | VectorisedApproximation) -> None:
        if isinstance(base, VectorisedApproximation):
            check_same_variables(base, self.approx)
            self._given = base

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        """As of any family; ValueError where ``base`` is given and has not been fitted."""
        given = self._given
        if given is not None and self.state is None:
            if not isinstance(given, LaplaceApproximation) or given.laplace is None:
                raise ValueError("base has not been fitted: run pm.fit with LaplaceVI first")
            for mine, point in zip(self.approx.groups[1:], given.groups[1:], strict=True):
                mine.params_dict["point"].set_value(point.params_dict["point"].get_value())
            self.algorithm = replace(self.algorithm, base=given.laplace)
        return super().optimise(n, monitor)


def _known(base: GaussianBase | VectorisedApproximation) -> GaussianBase:
    """What the algorithm is told of a base; that of a fit is known once it has been fitted."""
    return "laplace" if isinstance(base, VectorisedApproximation) else base


def _given_draws(fixed_draws: FixedDraws | None) -> FixedDraws:
    return FixedDraws() if fixed_draws is None else fixed_draws


def check_same_variables(base: VectorisedApproximation, approx: VectorisedApproximation) -> None:
    """Raise ValueError unless both have the same variables and hyperparameters."""
    names = [[list(g.ordering) for g in a.groups] for a in (base, approx)]
    if names[0] != names[1]:
        raise ValueError(f"base approximates {names[0]}, this fit {names[1]}: they must agree")


class MixedVI(_LaplaceBasedVI):
    r"""Mixed variational inference: ``pm.fit(method=MixedVI("lr"))``.

    Maximises the ELBO on fixed draws,

    .. math:: \tfrac1S \sum_s \log\tilde p(\mu + L z_s) + \tfrac12 \log|2\pi e L L^\top|,

    over μ and part of L, where C is a root of the Laplace covariance Σ_LA = CCᵀ = Q diag(r²)Qᵀ:
    ``"mu"``: L = C; ``"eig"``: L = Q diag(r), r free; ``"lr"``: L = C + U Vᵀ of ``rank`` columns.

    Parameters
    ----------
    variant
        ``"mu"`` (eq. 8), ``"eig"`` (eq. 10) or ``"lr"`` (eq. 11).
    rank
        Columns of U and V, for ``"lr"``; ``rank`` = D is a full-rank Gaussian.
    base
        ``"laplace"``, or ``Laplace(px.ModeSearch(...))`` of :mod:`.laplace`; a fit by
        :class:`LaplaceVI` to start from; ``"match"``, the Gaussian of :class:`BatchMatchVI`, which
        needs no mode and takes the place of ``"laplace"``, with a warning, where there is none; or
        ``"unit"``: q starts at N(start, I).
    fixed_draws
        Number of draws at first and at most (``result.train_elbo`` and ``result.elbo`` are
        the training and the fresh ELBO), their kind, and the optimiser.
    hyperparameters
        Free variables (or names) optimised as point values with the ELBO (empirical Bayes);
        their prior counts on the constrained scale, without Jacobian.
    model, start, random_seed
        As :class:`LaplaceVI`.

    Raises
    ------
    NoModeError
        From ``fit``, if there is no mode, and the search was given or there are hyperparameters.
    ValueError
        From ``fit``, if ``base="unit"`` and q runs away, as under an improper posterior.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.MixedVI("eig", random_seed=1))
    >>> idata = approx.sample(1000)

    References
    ----------
    Gianniotis (2019), Mixed Variational Inference, IJCNN, doi:10.1109/IJCNN.2019.8852348.
    """

    def __init__(
        self,
        variant: str = "lr",
        *,
        rank: int = 1,
        base: GaussianBase | VectorisedApproximation = "laplace",
        fixed_draws: FixedDraws | None = None,
        hyperparameters: Hyperparameters = (),
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = Mixed(variant, rank, base=_known(base), fixed_draws=_given_draws(fixed_draws))
        super().__init__(
            algorithm,
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
        )
        check_rank(rank, self.approx.group.ddim)
        self._take_base(base)


class DiagonalVI(_LaplaceBasedVI):
    r"""Gaussian with independent components: ``pm.fit(method=DiagonalVI())``.

    .. math:: q = N(\mu, \mathrm{diag}(\sigma^2))

    by the ELBO on fixed draws (eq. 12), from two starts of which the better one is kept:
    σ² = diag Σ_LA and σ² = 1e-4, both at the Laplace mode. Arguments, errors and reference as
    :class:`MixedVI`.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.DiagonalVI(random_seed=1))
    """

    def __init__(
        self,
        *,
        base: GaussianBase | VectorisedApproximation = "laplace",
        fixed_draws: FixedDraws | None = None,
        hyperparameters: Hyperparameters = (),
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = Diagonal(base=_known(base), fixed_draws=_given_draws(fixed_draws))
        super().__init__(
            algorithm,
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
        )
        self._take_base(base)
