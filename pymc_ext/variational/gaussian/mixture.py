r"""Mixture of Laplace approximations at several modes, re-weighted and re-fitted by the ELBO.

The outlook of Gianniotis' paper (section VI). Where there is no mode, or none is wanted, Gaussians
from scores alone take their place, one for every basin (:mod:`.matched`). Component k, in
coordinates whitened by its own base: θ = μ_k + C_k(m_k + A_k z). Shapes: K components, N draws, D
parameters.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_softmax, logsumexp

from pymc_ext.density import CountedDensity
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count, require_type
from pymc_ext.variational.core.monitor import Monitor, nothing_yet
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.elbo.fixed_draws import FixedDrawsAlgorithm, Prepared
from pymc_ext.variational.elbo.objective import Family
from pymc_ext.variational.gaussian.matched import Matched, matched_basins
from pymc_ext.variational.gaussian.mixed import (
    LOW_RANK_SD,
    check_variant,
    make_noise,
)
from pymc_ext.variational.gaussian.modes import LaplaceFit, LaplaceSearch, ModeSearch
from pymc_ext.variational.gaussian.noise import LowRank
from pymc_ext.variational.gaussian.posteriors import GaussianMixture
from pymc_ext.variational.gaussian.whitened import WhitenedGaussian

logger = logging.getLogger(__name__)
MATCH = "match"
NO_MODE = "Gaussians from scores alone, as there is no Laplace approximation"
INTERRUPTED = ", before Ctrl-C ended the search: there may be more"
LEAST_LOG_WEIGHT = -10.0  # start of a component whose Laplace evidence is negligible
SEARCH = ModeSearch(starts=20, spread=4.0)  # wider than Laplace's: it is after every mode


class WhitenedMixture(Family):
    """Σ_k w_k of :class:`WhitenedGaussian`; x = (logits of w, x of each component).

    Draws are stratified: all components see all fixed draws (of which the first normal, that a
    draw's component comes from, is not used), weighted by w.
    """

    def __init__(self, components: Sequence[WhitenedGaussian], logits: Array) -> None:
        self.components = list(components)
        self.latent_dimension = self.components[0].dimension + 1
        self.logits = np.asarray(logits, dtype=float)

    @property
    def x(self) -> Array:  # of the parts, which hold it
        """Logits, then the components' numbers."""
        return np.concatenate([self.logits, *(c.x for c in self.components)])

    @x.setter
    def x(self, x: Array) -> None:
        K = len(self.components)
        self.logits = x[:K]
        for component, part in zip(self.components, np.split(x[K:], K), strict=True):
            component.x = part

    def posterior(self) -> GaussianMixture:
        return GaussianMixture(
            log_softmax(self.logits), tuple(c.posterior() for c in self.components)
        )

    def draws(self, z: Array) -> tuple[Array, Array]:
        theta = np.concatenate([c.draws(z[:, 1:])[0] for c in self.components])
        return theta, np.repeat(np.exp(log_softmax(self.logits)), len(z))

    def loss(self, z: Array, log_p: Array, scores: Array) -> tuple[float, Array]:
        # L = Σ_m weight_m f(θ_m), f = log q − log p̃, θ_m from component k, weight_m = w_k
        K, N = len(self.components), len(z)
        theta, weight = self.draws(z)
        at = [self._at(component, theta) for component in self.components]
        log_w = log_softmax(self.logits)
        joint = log_w[:, None] + np.stack([log_q for _, log_q, _ in at])  # (K, M)
        log_q = logsumexp(joint, axis=0)
        r = np.exp(joint - log_q)  # responsibilities
        f, w = log_q - log_p, np.exp(log_w)
        # of q's own density at fixed θ, in θ: Σ_j r_j (−Σ_j⁻¹)(θ − mean_j)
        slope = sum(r_j[:, None] * g for r_j, (_, _, g) in zip(r, at, strict=True))
        by_theta = weight[:, None] * (slope - scores)
        by_logits = w * (f.reshape(K, N).sum(axis=1) - weight @ f) + r @ weight - N * w
        parts = [by_logits]
        for k, component in enumerate(self.components):
            own = component._whiten_scores(by_theta[k * N : (k + 1) * N])
            # of log N_k at fixed θ: −½|z|² − log|det A| with z = A⁻¹(C⁻¹(θ − μ) − m)
            z_k, rw = at[k][0], r[k] * weight
            back = rw[:, None] * component.noise.solve_transposed(component.p, z_k)
            by_m = own.sum(axis=0) + back.sum(axis=0)
            by_p = component.noise.pullback(component.p, own, z[:, 1:])
            by_p = by_p + component.noise.pullback(component.p, back, z_k)
            by_p = by_p - rw.sum() * component.noise.log_det_gradient(component.p)
            parts += [by_m, by_p]
        return float(weight @ f), np.concatenate(parts)

    @staticmethod
    def _at(component: WhitenedGaussian, theta: Array) -> tuple[Array, Array, Array]:
        """z behind θ, log N_k, and its gradient in θ; (M, D), (M,), (M, D)."""
        noise, p = component.noise, component.p
        x = (theta - component.center) @ component.factor_inverse.T - component.m
        z = noise.solve(p, x)
        log_q = standard_normal_logp(z) - component._log_det() - noise.log_det(p)
        return z, log_q, -noise.solve_transposed(p, z) @ component.factor_inverse


@dataclass(frozen=True)
class Mixture(FixedDrawsAlgorithm):
    """Algorithm of :class:`pymc_ext.MixtureVI`, for any density.

    Parameters
    ----------
    variant, rank
        What is free in each component, as in :class:`~.mixed.Mixed`.
    components
        At most so many are kept, those of highest Laplace evidence, or ELBO.
    search
        From where modes are looked for; ``"match"``: Gaussians from scores alone in their place,
        which a search is, with a warning, where it finds no mode.
    fixed_draws
        As :class:`~.mixed.Mixed`.
    """

    name = "mixture"
    variant: str = "eig"
    rank: int = 1
    components: int = field(default=8, kw_only=True)
    search: ModeSearch | str = field(default=SEARCH, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.search != MATCH:
            require_type("search", self.search, ModeSearch)
        check_variant(self.variant, self.rank)
        require_count("components", self.components)

    def prepare(
        self, density: CountedDensity, start: Array, seed: int | None, budget: int, monitor: Monitor
    ) -> Prepared:
        bases, notes, interrupted = self._bases(density, start, seed, budget, monitor)
        kept = sorted(bases, key=lambda base: -base.log_marginal)[: self.components]
        evidence = np.array([base.log_marginal for base in kept])
        # of a single one whose draws have no density it is −∞
        weights = np.nan_to_num(np.maximum(evidence - evidence.max(), LEAST_LOG_WEIGHT))
        rng = stream(seed, Purpose.INITIAL)
        family = WhitenedMixture([self._component(base, rng) for base in kept], weights)
        first, *more = notes
        said = f"{len(kept)} of {len(bases)} {first}{INTERRUPTED if interrupted else ''}"
        return Prepared(family, [family.x], (said, *more), interrupted)

    def _bases(
        self, density: CountedDensity, start: Array, seed: int | None, budget: int, monitor: Monitor
    ) -> tuple[Sequence[LaplaceFit | Matched], tuple[str, ...], bool]:
        """What components start at; what these are, and why; whether Ctrl-C left others unseen."""
        no_mode: tuple[str, ...] = ()
        options = SEARCH
        if isinstance(self.search, ModeSearch):
            options = self.search
            search = LaplaceSearch(density, start, options, seed)
            of_modes = (f"modes found from {options.starts} starts",)
            try:
                return search.modes(budget, monitor), of_modes, False
            except KeyboardInterrupt as stop:
                if not search.found:
                    raise nothing_yet(stop) from None
                return search.found, of_modes, True
            except NoModeError as error:
                no_mode = (f"{NO_MODE}: {error}",)
                logger.warning(no_mode[0])
        basins: list[Matched] = []
        notes = ("basins found by fits from scores alone", *no_mode)
        try:
            basins.extend(matched_basins(density, options.points(start, seed), seed))
        except KeyboardInterrupt as stop:
            if not basins:
                raise nothing_yet(stop) from None
            return basins, notes, True
        return basins, notes, False

    def _component(self, fit: LaplaceFit | Matched, rng: np.random.Generator) -> WhitenedGaussian:
        D = len(fit.theta)
        component = WhitenedGaussian(make_noise(self.variant, D, self.rank), fit.theta)
        component.set_base(fit.theta, *component.noise.root(fit.factor, fit.factor_inverse))
        if isinstance(component.noise, LowRank):  # u = v = 0 is a saddle
            component.x[D:] = LOW_RANK_SD * rng.standard_normal(component.noise.size)
        return component
