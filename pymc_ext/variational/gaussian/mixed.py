"""Mixed variational inference: the Laplace approximation, partially re-fitted by the ELBO.

Notation: C is a root of the Laplace covariance, θ = μ_LA + C(m + A z), see :mod:`.whitened`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import qr

from pymc_ext.density import CountedDensity
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.elbo.fixed_draws import FixedDrawsAlgorithm, Prepared
from pymc_ext.variational.elbo.objective import DrawsObjective
from pymc_ext.variational.gaussian.laplace import Laplace, find_laplace
from pymc_ext.variational.gaussian.matched import Matched
from pymc_ext.variational.gaussian.modes import LaplaceFit
from pymc_ext.variational.gaussian.noise import LowRank, Noise, NoNoise, Scales
from pymc_ext.variational.gaussian.whitened import WhitenedDiagonal, WhitenedGaussian
from pymc_ext.variational.ill_posed.runaway import refuse_runaway

logger = logging.getLogger(__name__)
GaussianBase = str | Laplace | LaplaceFit  # the last: made before
BASE_NAMES = ("laplace", "match", "unit")
LOW_RANK_SD = 0.1  # u, v ~ N(0, 0.01 I), the paper's start, in whitened coordinates
RANDOM_START = 20  # dimension up to which the random start is tried too: it never won beyond
POWER_STEPS = 4  # towards the directions in which the covariance gains most
STILL_GROWS = 0.1  # nats per factor e in the size of u above which a fit has not converged
NARROW = 1e-2  # second start of VI-diag: σ² = 1e-4, as in the paper


@dataclass(frozen=True)
class LaplaceBasedAlgorithm(FixedDrawsAlgorithm):
    """Fixed-draw fit of a Gaussian family that starts at the Laplace approximation.

    Parameters
    ----------
    base
        ``"laplace"``, or :class:`Laplace` with options of its own; ``"match"``: the Gaussian of
        :class:`~.batch_match.BatchMatch`, which ``"laplace"`` is, with a warning, where there is
        no mode; ``"unit"``: N(start, I); or a :class:`LaplaceFit` made before.
    """

    base: GaussianBase = field(default="laplace", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.base, str) and self.base == "laplace":
            object.__setattr__(self, "base", Laplace())
        if not isinstance(self.base, Laplace | LaplaceFit) and self.base not in ("match", "unit"):
            raise ValueError(
                f"base must be one of {BASE_NAMES}, Laplace(...) or a fit by LaplaceVI, got "
                f"{self.base!r}"
            )

    def fitted_base(
        self, density: CountedDensity, start: Array, seed: int | None, budget: int, monitor: Monitor
    ) -> LaplaceFit | Matched | None:
        """The Gaussian that the fit starts at; None for ``base="unit"``."""
        if self.base == "match":
            return Matched.to(density, start, seed)
        if not isinstance(self.base, Laplace):
            return self.base if isinstance(self.base, LaplaceFit) else None
        try:
            return find_laplace(density, start, self.base.search, seed, budget, monitor)
        except NoModeError as error:
            if self.base != Laplace() or density.extra_size:
                raise
            note = f"base match, as there is no Laplace approximation: {error}"
            logger.warning(note)
            return replace(Matched.to(density, start, seed), notes=(note,))

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Posterior]:
        fitted = super().run(density, start, seed=seed, budget=budget, monitor=monitor, state=state)
        if self.base != "unit":
            return fitted
        refuse_runaway(fitted.q, density, seed)
        return self._check_scale(fitted, density, seed)

    def _check_scale(
        self, fitted: Fitted[Posterior], density: CountedDensity, seed: int | None
    ) -> Fitted[Posterior]:
        """Not converged where a longer u would still gain: its gradient falls as 1/u for ever."""
        assert isinstance(fitted.state, Prepared)
        family = fitted.state.family
        if not isinstance(family, WhitenedGaussian) or not isinstance(family.noise, LowRank):
            return fitted
        u, by_u = (
            family.noise.factors(x)[0]
            for x in (family.p, self._gradient(family, density, seed)[family.dimension :])
        )
        gain = -float(np.sum(u * by_u))
        if gain < STILL_GROWS:
            return fitted
        note = (
            f"the ELBO still rises by {gain:.2g} nats per factor e by which q is made wider: the "
            "posterior is improper or far wider than the unit base; give proper priors, or rescale"
        )
        result = replace(fitted.result, converged=False, notes=(*fitted.result.notes, note))
        return replace(fitted, result=result)

    def _gradient(
        self, family: WhitenedGaussian, density: CountedDensity, seed: int | None
    ) -> Array:
        """Gradient of −ELBO on the first fixed draws, at the family's present numbers, (P,)."""
        objective = DrawsObjective(family, density)
        z = self.normals(self.fixed_draws.draws, family.latent_dimension, seed)
        return objective.value_and_gradient(objective.x, z)[1][: len(family.x)]


@dataclass(frozen=True)
class Mixed(LaplaceBasedAlgorithm):
    """Algorithm of :class:`pymc_ext.MixedVI`, for any density: m and A of θ = μ + C(m + A z).

    Parameters
    ----------
    variant
        ``"mu"``, ``"eig"`` or ``"lr"``.
    rank
        Columns of u and v, for ``"lr"``.
    base, fixed_draws
        As :class:`LaplaceBasedAlgorithm`.
    """

    variant: str = "lr"
    rank: int = 1

    def __post_init__(self) -> None:
        check_variant(self.variant, self.rank)
        super().__post_init__()

    @property
    def name(self) -> str:
        return f"mixed-{self.variant}"

    def prepare(
        self, density: CountedDensity, start: Array, seed: int | None, budget: int, monitor: Monitor
    ) -> Prepared:
        base = self.fitted_base(density, start, seed, budget, monitor)
        family = WhitenedGaussian(make_noise(self.variant, density.dimension, self.rank), start)
        if base is not None:
            family.set_base(base.theta, *family.noise.root(base.factor, base.factor_inverse))
        starts, interrupted = [family.x], is_interrupted(base)
        if isinstance(family.noise, LowRank):
            starts = self._low_rank_starts(family, family.noise, density, seed, interrupted)
        return Prepared(family, starts, () if base is None else base.notes, interrupted)

    def _low_rank_starts(
        self,
        family: WhitenedGaussian,
        noise: LowRank,
        density: CountedDensity,
        seed: int | None,
        interrupted: bool,
    ) -> list[Array]:
        """Starts of (u, v), for u = v = 0 is a saddle: steepest, and the paper's random if small.

        At A = I + u vᵀ with u = 0 the gradient in u is G v, and at v = 0 that in v is Gᵀu, with G
        the gradient in A: alternating them finds the leading singular directions of G. Where the
        fit was ``interrupted``, the base itself, as a u = 0 from which a later run can move.
        """
        D, size = family.dimension, (family.dimension, noise.rank)
        rng = stream(seed, Purpose.INITIAL)
        random_u, random_v = LOW_RANK_SD * rng.standard_normal((2, *size))

        def at(u: Array, v: Array) -> Array:
            return np.concatenate([np.zeros(D), u.ravel(), v.ravel()])

        def gradients(x: Array) -> tuple[Array, Array]:
            family.x = x
            return noise.factors(self._gradient(family, density, seed)[D:])

        zero, right = np.zeros(size), _orthonormal(random_v)
        if interrupted:
            return [at(zero, random_v)]
        for _ in range(POWER_STEPS):
            left = _orthonormal(-gradients(at(zero, right))[0])
            right = _orthonormal(-gradients(at(left, zero))[1])
        steepest = at(LOW_RANK_SD * left, LOW_RANK_SD * right)
        family.x = steepest
        return [steepest, at(random_u, random_v)] if D <= RANDOM_START else [steepest]


@dataclass(frozen=True)
class Diagonal(LaplaceBasedAlgorithm):
    """Algorithm of :class:`pymc_ext.DiagonalVI`, for any density; options as its base class."""

    name = "diagonal"

    def prepare(
        self, density: CountedDensity, start: Array, seed: int | None, budget: int, monitor: Monitor
    ) -> Prepared:
        base, D = self.fitted_base(density, start, seed, budget, monitor), density.dimension
        family = WhitenedDiagonal(Scales(D), start)
        scale = wide = np.ones(D)
        if base is not None:
            scale = 1 / np.sqrt(np.sum(base.factor_inverse**2, axis=0))  # 1/√(−H)_ii
            wide = np.sqrt(np.sum(base.factor**2, axis=1))
            family.set_scale(base.theta, scale)
        starts = [
            np.concatenate([np.zeros(D), np.log(sd / scale)]) for sd in (wide, np.full(D, NARROW))
        ]
        family.x = starts[0]
        notes = () if base is None else base.notes
        return Prepared(family, starts, notes, is_interrupted(base))


VARIANTS: dict[str, type[Noise]] = {"mu": NoNoise, "eig": Scales, "lr": LowRank}


def check_variant(variant: str, rank: int) -> None:
    """Raise ValueError for an unknown variant, or a rank where it does not apply."""
    if variant not in VARIANTS:
        from pymc_ext.keywords import did_you_mean  # not a file of a fit's

        meant = did_you_mean([str(variant)], tuple(VARIANTS), "{!r}")
        raise ValueError(
            f"variant must be one of {tuple(VARIANTS)}, got {variant!r}{meant and f': {meant}'}"
        )
    if rank != 1 and not VARIANTS[variant].ranked:
        raise ValueError(f"rank applies to variant 'lr' only, got rank={rank} with {variant!r}")


def is_interrupted(base: LaplaceFit | Matched | None) -> bool:
    """Whether Ctrl-C ended the fit of a base: then it is all that there is."""
    return isinstance(base, Matched) and base.interrupted


def make_noise(variant: str, dimension: int, rank: int = 1) -> Noise:
    """What ``variant`` leaves free in the scale."""
    return VARIANTS[variant].of(dimension, rank)


def _orthonormal(x: Array) -> Array:
    return qr(x, mode="economic")[0]
