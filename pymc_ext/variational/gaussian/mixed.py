"""Mixed variational inference: the Laplace approximation, partially re-fitted by the ELBO.

Notation: C is a root of the Laplace covariance, θ = μ_LA + C(m + A z), see ``gaussian.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from scipy.linalg import qr, svd

from pymc_ext.variational.core.base import INITIAL, VectorisedApproximation, stream
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.gaussian.fixed_draws import FixedDrawsInference, FixedDrawsObjective
from pymc_ext.variational.gaussian.groups import (
    DiagonalGroup,
    GaussianGroup,
    LowRankGroup,
    ScaledGroup,
)
from pymc_ext.variational.gaussian.laplace import LaplaceFinder
from pymc_ext.variational.gaussian.modes import LaplaceFit, check_search_options
from pymc_ext.variational.gaussian.runaway import refuse_runaway

Array = NDArray[np.floating]
VARIANTS: dict[str, type[GaussianGroup]] = {
    "mu": GaussianGroup,
    "eig": ScaledGroup,
    "lr": LowRankGroup,
}
BASE_NAMES = ("laplace", "unit")
LOW_RANK_SD = 0.1  # u, v ~ N(0, 0.01 I), the paper's start, in whitened coordinates
RANDOM_START = 20  # dimension up to which the random start is tried too: it never won beyond
POWER_STEPS = 4  # towards the directions in which the covariance gains most
STRETCH = 0.1  # nats per factor e in the size of u above which a fit has not converged
NARROW = 1e-2  # second start of VI-diag: σ² = 1e-4, as in the paper


class LaplaceBasedInference(FixedDrawsInference):
    """Fixed-draw fit of a Gaussian family that starts at the Laplace approximation.

    Parameters
    ----------
    base
        ``"laplace"``; ``"unit"``: N(start, I), where the density has no mode; or an approximation
        fitted by :class:`LaplaceVI` on the same model, whose mode and hyperparameters are taken.
    starts, indefinite
        As :class:`LaplaceVI`.
    engine
        As :class:`FixedDrawsInference`.
    """

    def __init__(
        self,
        approx: VectorisedApproximation,
        *,
        base: str | VectorisedApproximation,
        starts: int | None,
        indefinite: str,
        **engine: Any,
    ) -> None:
        check_search_options(starts, indefinite)
        if isinstance(base, VectorisedApproximation):
            check_same_variables(base, approx)
        elif base not in BASE_NAMES:
            raise ValueError(
                f"base must be one of {BASE_NAMES} or a fit by LaplaceVI, got {base!r}"
            )
        super().__init__(approx, **engine)
        self.base = base
        self.finder = LaplaceFinder(
            approx, starts=starts, indefinite=indefinite, random_seed=self.random_seed
        )

    def laplace(self, n: int, monitor: Monitor) -> LaplaceFit | None:
        """The Laplace fit that is the base; None for ``base="unit"``."""
        if isinstance(self.base, str) and self.base == "unit":
            return None
        if isinstance(self.base, VectorisedApproximation):
            return self._given_base(self.base)
        fit = self.finder.run(n, monitor)
        self._notes = fit.notes
        return fit

    def _given_base(self, base: VectorisedApproximation) -> LaplaceFit:
        if base.laplace is None:
            raise ValueError("base has not been fitted: run pm.fit with LaplaceVI first")
        for mine, given in zip(self.approx.groups[1:], base.groups[1:], strict=True):
            mine.params_dict["point"].set_value(given.params_dict["point"].get_value())
        self._notes = base.laplace.notes
        return base.laplace

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        result = super().optimise(n, monitor)
        if isinstance(self.base, str) and self.base == "unit":
            refuse_runaway(self.approx, self.random_seed)
            return self._check_scale(result)
        return result

    def _check_scale(self, result: FitResult) -> FitResult:
        """Not converged where stretching u would still gain: its gradient falls as 1/u for ever."""
        params = self.approx.group.params_dict
        if "u" not in params or self._objective is None:
            return result
        slope = self._objective.gradients(self._base_draws(self.draws))["u"]
        gain = -float(np.sum(params["u"].get_value(borrow=True) * slope))
        if gain < STRETCH:
            return result
        note = (
            f"the ELBO still rises by {gain:.2g} nats per factor e by which q is stretched: the "
            "posterior is improper or far wider than the unit base; give proper priors, or rescale"
        )
        return replace(result, converged=False, notes=(*result.notes, note))

    def prepared_evaluations(self) -> tuple[int, int]:
        return self.finder.evaluations


def check_same_variables(base: VectorisedApproximation, approx: VectorisedApproximation) -> None:
    """Raise ValueError unless both have the same variables and hyperparameters."""
    names = [[list(g.ordering) for g in a.groups] for a in (base, approx)]
    if names[0] != names[1]:
        raise ValueError(f"base approximates {names[0]}, this fit {names[1]}: they must agree")


class MixedVI(LaplaceBasedInference):
    r"""Mixed variational inference: ``pm.fit(method=MixedVI("lr"))``.

    Maximises the ELBO on fixed base draws,

    .. math:: \tfrac1S \sum_s \log\tilde p(\mu + L z_s) + \tfrac12 \log|2\pi e L L^\top|,

    over μ and part of L, where C is a root of the Laplace covariance Σ_LA = CCᵀ = Q diag(r²)Qᵀ:
    ``"mu"``: L = C; ``"eig"``: L = Q diag(r), r free; ``"lr"``: L = C + U Vᵀ of ``rank`` columns.

    Parameters
    ----------
    variant
        ``"mu"`` (eq. 8), ``"eig"`` (eq. 10) or ``"lr"`` (eq. 11).
    rank
        Columns of U and V, for ``"lr"``; ``rank`` = D is a full-rank Gaussian.
    draws, max_draws
        Number of base draws at first, and at most (see ``result.train_elbo`` and
        ``result.elbo``: training and fresh ELBO).
    base_draws
        ``"sobol"``, or ``"iid"`` as in the paper.
    optimizer
        ``"lbfgs"`` or ``"trust-krylov"``.
    hyperparameters
        Free variables (or names) optimised as point values with the ELBO (empirical Bayes);
        their prior counts on the constrained scale, without Jacobian.
    base, starts, indefinite
        ``"laplace"``, a fit by :class:`LaplaceVI` to start from, or, where the density has no
        mode, ``"unit"``: q starts at N(start, I). Number of starts of the mode search
        and treatment of indefinite Hessians as in :class:`LaplaceVI`.
    model, start, random_seed
        As :class:`LaplaceVI`.

    Raises
    ------
    NoModeError
        From ``fit``, if ``base="laplace"`` and there is no mode.
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
        draws: int = 1024,
        max_draws: int = 16_384,
        base_draws: str = "sobol",
        optimizer: str = "lbfgs",
        hyperparameters: Sequence[Any] = (),
        base: str | VectorisedApproximation = "laplace",
        starts: int | None = None,
        indefinite: str = "refuse",
        model: pm.Model | None = None,
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        if variant not in VARIANTS:
            raise ValueError(f"variant must be one of {tuple(VARIANTS)}, got {variant!r}")
        if rank != 1 and variant != "lr":
            raise ValueError(f"rank applies to variant 'lr' only, got rank={rank} with {variant!r}")
        options = {"rank": rank} if variant == "lr" else {}
        approx = VectorisedApproximation(
            VARIANTS[variant],
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
            **options,
        )
        super().__init__(
            approx,
            base=base,
            starts=starts,
            indefinite=indefinite,
            draws=draws,
            max_draws=max_draws,
            base_draws=base_draws,
            optimizer=optimizer,
            random_seed=random_seed,
        )
        self.variant = variant
        self.name = f"mixed-{variant}"

    def prepare(self, n: int, monitor: Monitor, objective: FixedDrawsObjective) -> list[Array]:
        group, laplace = self.approx.group, self.laplace(n, monitor)
        if laplace is not None and self.variant == "eig":
            group.set_base(laplace.theta, *eigen_root(laplace.factor))
        elif laplace is not None:
            group.set_base(laplace.theta, laplace.factor, laplace.factor_inverse)
        return self._low_rank_starts(objective) if self.variant == "lr" else [objective.x]

    def _low_rank_starts(self, objective: FixedDrawsObjective) -> list[Array]:
        """Starts of (u, v), for u = v = 0 is a saddle: steepest, and the paper's random if small.

        At A = I + u vᵀ with u = 0 the gradient in u is G v, and at v = 0 that in v is Gᵀu, with G
        the gradient in A: alternating them finds the leading singular directions of G.
        """
        params = self.approx.group.params_dict
        size = params["u"].get_value(borrow=True).shape
        random_u, random_v = LOW_RANK_SD * stream(self.random_seed, INITIAL).standard_normal(
            (2, *size)
        )

        def at(u: Array, v: Array) -> Array:
            params["u"].set_value(u)
            params["v"].set_value(v)
            return objective.x

        z, zero, right = self._base_draws(self.draws), np.zeros(size), _orthonormal(random_v)
        for _ in range(POWER_STEPS):
            at(zero, right)
            left = _orthonormal(-objective.gradients(z)["u"])
            at(left, zero)
            right = _orthonormal(-objective.gradients(z)["v"])
        steepest = at(LOW_RANK_SD * left, LOW_RANK_SD * right)
        return [steepest, at(random_u, random_v)] if size[0] <= RANDOM_START else [steepest]


class DiagonalVI(LaplaceBasedInference):
    r"""Gaussian with independent components: ``pm.fit(method=DiagonalVI())``.

    .. math:: q = N(\mu, \mathrm{diag}(\sigma^2))

    by the ELBO on fixed base draws (eq. 12), from two starts of which the better one is kept:
    σ² = diag Σ_LA and σ² = 1e-4, both at the Laplace mode. Arguments, errors and reference as
    :class:`MixedVI`.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.DiagonalVI(random_seed=1))
    """

    name = "diagonal"

    def __init__(
        self,
        *,
        draws: int = 1024,
        max_draws: int = 16_384,
        base_draws: str = "sobol",
        optimizer: str = "lbfgs",
        hyperparameters: Sequence[Any] = (),
        base: str | VectorisedApproximation = "laplace",
        starts: int | None = None,
        indefinite: str = "refuse",
        model: pm.Model | None = None,
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        approx = VectorisedApproximation(
            DiagonalGroup,
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
        )
        super().__init__(
            approx,
            base=base,
            starts=starts,
            indefinite=indefinite,
            draws=draws,
            max_draws=max_draws,
            base_draws=base_draws,
            optimizer=optimizer,
            random_seed=random_seed,
        )

    def prepare(self, n: int, monitor: Monitor, objective: FixedDrawsObjective) -> list[Array]:
        group, laplace = self.approx.group, self.laplace(n, monitor)
        if laplace is None:
            scale = wide = np.ones(group.ddim)
        else:
            scale = 1 / np.sqrt(np.sum(laplace.factor_inverse**2, axis=0))  # 1/√(−H)_ii
            wide = np.sqrt(np.sum(laplace.factor**2, axis=1))
            group.set_scale(laplace.theta, scale)
        starts = []
        for sd in (wide, np.full(group.ddim, NARROW)):
            group.params_dict["s"].set_value(np.log(sd / scale))
            starts.append(objective.x)
        return starts


def eigen_root(factor: Array) -> tuple[Array, Array]:
    """Q diag(r) and its inverse for Σ = CCᵀ = Q diag(r²)Qᵀ (eq. 9)."""
    Q, r, _ = svd(factor)  # not from Σ itself: that would square the condition number
    return Q * r, Q.T / r[:, None]


def _orthonormal(x: Array) -> Array:
    return qr(x, mode="economic")[0]
