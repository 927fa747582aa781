r"""Mixture of Laplace approximations at several modes, re-weighted and re-fitted by the ELBO.

The outlook of Gianniotis' paper (section VI). Component k, in coordinates whitened by its own
Laplace fit: θ = μ_k + C_k(m_k + A_k z). Shapes: K components, N draws, D parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.variational.opvi import node_property
from pytensor.tensor import TensorVariable

from pymc_ext.maths import lowrank
from pymc_ext.variational.core.base import (
    INITIAL,
    TransformGroup,
    VectorisedApproximation,
    standard_normal_logp,
    stream,
)
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.gaussian.fixed_draws import FixedDrawsInference, FixedDrawsObjective
from pymc_ext.variational.gaussian.groups import check_rank, shared
from pymc_ext.variational.gaussian.mixed import LOW_RANK_SD, eigen_root
from pymc_ext.variational.gaussian.modes import (
    LaplaceFit,
    LaplaceSearch,
    check_search_options,
)

Array = NDArray[np.floating]
VARIANTS = ("mu", "eig", "lr")
LEAST_LOG_WEIGHT = -10.0  # start of a component whose Laplace evidence is negligible


class MixtureGroup(TransformGroup):
    """q = Σ_k w_k N(μ_k + C_k m_k, (C_k A_k)(C_k A_k)ᵀ), w = softmax(logits), A as in MixedVI."""

    @property
    def latent_dim(self) -> int:
        """One normal chooses the component, D make the draw."""
        return self.ddim + 1

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        self.variant, self.rank = self._kwargs["variant"], self._kwargs["rank"]
        if self.variant == "lr":
            check_rank(self.rank, self.ddim)
        eye = np.eye(self.ddim)[None]
        self.center = shared(start[None], "centers")
        self.factor, self.factor_inverse = shared(eye, "C"), shared(eye, "C_inverse")
        params = {
            "logits": shared(np.zeros(1), "logits"),
            "m": shared(np.zeros_like(start[None]), "m"),
        }
        if self.variant == "eig":
            params["s"] = shared(np.zeros((1, self.ddim)), "s")
        if self.variant == "lr":
            zero = np.zeros((1, self.ddim, self.rank))
            params |= {"u": shared(zero, "u"), "v": shared(zero, "v")}
        return params

    def set_components(
        self, fits: Sequence[LaplaceFit], log_weights: Array, rng: np.random.Generator
    ) -> None:
        """One component at each Laplace fit, with the given log weights (K,)."""
        roots = [(f.factor, f.factor_inverse) for f in fits]
        if self.variant == "eig":
            roots = [eigen_root(f.factor) for f in fits]
        self.center.set_value(np.array([f.theta for f in fits]))
        self.factor.set_value(np.array([factor for factor, _ in roots]))
        self.factor_inverse.set_value(np.array([inverse for _, inverse in roots]))
        for name, param in self.params_dict.items():
            shape = (len(fits), *param.get_value(borrow=True).shape[1:])
            value = np.zeros(shape)
            if name == "logits":
                value = np.asarray(log_weights, dtype=float)
            elif name in ("u", "v"):  # u = v = 0 is a saddle
                value = LOW_RANK_SD * rng.standard_normal(shape)
            param.set_value(value)

    def move_to(self, theta: Array) -> None:
        """Centre the first component at θ (D,): what callbacks see during the mode search."""
        self.center.set_value(theta[None])

    def _noise(self, z: TensorVariable) -> TensorVariable:
        p = self.params_dict
        if self.variant == "eig":
            return z * pt.exp(p["s"])[:, None]
        return lowrank.multiply(z, p["u"], p["v"]) if self.variant == "lr" else z

    def _noise_inverse(self, x: TensorVariable) -> TensorVariable:
        p = self.params_dict
        if self.variant == "eig":
            return x * pt.exp(-p["s"])[:, None]
        return lowrank.solve(x, p["u"], p["v"]) if self.variant == "lr" else x

    def _log_det(self) -> TensorVariable:
        p, base = self.params_dict, pt.linalg.slogdet(self.factor)[1]
        if self.variant == "eig":
            return base + p["s"].sum(-1)
        return base + lowrank.log_abs_det(p["u"], p["v"]) if self.variant == "lr" else base

    @node_property
    def log_weights(self) -> TensorVariable:
        """log w, shape (K,)."""
        return pt.special.log_softmax(self.params_dict["logits"])

    def component_draws(self, z: TensorVariable) -> TensorVariable:
        """Every component's image of z (N, D), shape (K, N, D)."""
        x = self.params_dict["m"][:, None] + self._noise(pt.tile(z, (self.center.shape[0], 1, 1)))
        return self.center[:, None] + x @ lowrank.transpose(self.factor)

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """Draws of the mixture; there is no single Jacobian: see :meth:`log_density`."""
        u = 0.5 * pt.erfc(-z[:, 0] / np.sqrt(2.0))  # Φ(z₀) is uniform
        edges = pt.cumsum(pt.exp(self.log_weights))[:-1]
        k = pt.sum(u[:, None] > edges, axis=1)
        theta = self.component_draws(z[:, 1:])[k, pt.arange(z.shape[0])]
        return theta, standard_normal_logp(z) - self.log_density(theta)

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        difference = theta[None] - self.center[:, None]
        x = difference @ lowrank.transpose(self.factor_inverse) - self.params_dict["m"][:, None]
        each = standard_normal_logp(self._noise_inverse(x)) - self._log_det()[:, None]
        return pt.logsumexp(self.log_weights[:, None] + each, axis=0)

    def weighted_draws(self) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
        """Stratified: all components see all base draws, weighted by w."""
        theta = self.component_draws(self.symbolic_initial[:, 1:])
        weight = pt.exp(self.log_weights)[:, None] + pt.zeros_like(theta[..., 0])
        theta = theta.reshape((-1, self.ddim))
        return theta, self.log_density(theta), weight.ravel()

    @node_property
    def component_means(self) -> TensorVariable:
        """Means of the components, (K, D)."""
        return self.center + (self.factor @ self.params_dict["m"][..., None])[..., 0]

    @node_property
    def component_covs(self) -> TensorVariable:
        """Covariances of the components, (K, D, D)."""
        eye = pt.tile(pt.eye(self.ddim), (self.center.shape[0], 1, 1))
        root = self.factor @ lowrank.transpose(self._noise(eye))
        return root @ lowrank.transpose(root)

    @node_property
    def mean(self) -> TensorVariable:
        return pt.exp(self.log_weights) @ self.component_means

    @node_property
    def cov(self) -> TensorVariable:
        w, d = pt.exp(self.log_weights), self.component_means - self.mean
        return (w[:, None, None] * (self.component_covs + d[:, :, None] * d[:, None, :])).sum(0)

    @node_property
    def std(self) -> TensorVariable:
        return pt.sqrt(pt.diag(self.cov))


class MixtureVI(FixedDrawsInference):
    r"""Mixture of Gaussians at the posterior's modes: ``pm.fit(method=MixtureVI())``.

    .. math:: q = \sum_k w_k N(\mu_k, L_k L_k^\top)

    Modes are found from many starts; each gives a Laplace approximation; weights and the part of
    each component that ``variant`` frees then maximise the ELBO on fixed draws, stratified over
    the components. log q is the exact mixture density.

    Parameters
    ----------
    variant
        What is free in each component, as in :class:`MixedVI`.
    rank
        Columns of U_k and V_k, for ``"lr"``.
    components
        At most so many modes are kept, those of highest Laplace evidence.
    starts, spread
        Number of starts of the mode search, and half the side of the cube around the initial
        point, on the unconstrained space, from which they are drawn.
    draws, max_draws, base_draws, optimizer, indefinite, model, start, random_seed
        As :class:`MixedVI`.

    Raises
    ------
    NoModeError
        From ``fit``, if no start reaches a mode.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.MixtureVI(random_seed=1))
    >>> np.exp(approx.group.log_weights.eval())

    References
    ----------
    Gianniotis (2019), section VI, doi:10.1109/IJCNN.2019.8852348; Gershman, Hoffman & Blei (2012),
    arXiv:1206.4665.
    """

    name = "mixture"

    def __init__(
        self,
        variant: str = "eig",
        *,
        rank: int = 1,
        components: int = 8,
        starts: int = 20,
        spread: float = 4.0,
        draws: int = 1024,
        max_draws: int = 16_384,
        base_draws: str = "sobol",
        optimizer: str = "lbfgs",
        indefinite: str = "refuse",
        model: pm.Model | None = None,
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        check_search_options(starts, indefinite)
        if variant not in VARIANTS:
            raise ValueError(f"variant must be one of {VARIANTS}, got {variant!r}")
        if rank != 1 and variant != "lr":
            raise ValueError(f"rank applies to variant 'lr' only, got rank={rank} with {variant!r}")
        if not isinstance(components, int | np.integer) or components < 1:
            raise ValueError(f"components must be an integer >= 1, got {components!r}")
        if not 0 < spread < np.inf:
            raise ValueError(f"spread must be > 0 and finite, got {spread!r}")
        approx = VectorisedApproximation(
            MixtureGroup,
            model=model,
            start=start,
            random_seed=random_seed,
            variant=variant,
            rank=rank,
        )
        super().__init__(
            approx,
            draws=draws,
            max_draws=max_draws,
            base_draws=base_draws,
            optimizer=optimizer,
            random_seed=random_seed,
        )
        self.components, self.starts, self.spread = components, starts, spread
        self.indefinite = indefinite
        self._search: LaplaceSearch | None = None

    def prepare(self, n: int, monitor: Monitor, objective: FixedDrawsObjective) -> list[Array]:
        if self._search is None:
            self._search = LaplaceSearch(
                self.approx,
                starts=self.starts,
                spread=self.spread,
                indefinite=self.indefinite,
                random_seed=self.random_seed,
            )
        fits = sorted(self._search.modes(n, monitor), key=lambda fit: -fit.log_marginal)
        kept = fits[: self.components]
        evidence = np.array([fit.log_marginal for fit in kept])
        weights = np.maximum(evidence - evidence.max(), LEAST_LOG_WEIGHT)
        self.approx.group.set_components(kept, weights, stream(self.random_seed, INITIAL))
        self._notes = (f"{len(kept)} of {len(fits)} modes found from {self.starts} starts",)
        return [objective.x]

    def prepared_evaluations(self) -> tuple[int, int]:
        return (0, 0) if self._search is None else self._search.density.counts
