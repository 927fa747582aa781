"""Fitted Gaussians as PyMC's groups: what ``pm.fit`` shows of q, whatever family it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.variational.core.groups import TransformGroup, shared
from pymc_ext.variational.core.pymc_variational import node_property
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian, GaussianMixture

if TYPE_CHECKING:
    from pymc_ext.pytensor_versions import TensorSharedVariable

Array = NDArray[np.floating]


class GaussianGroup(TransformGroup):
    """q = N(μ, LLᵀ): parameters ``mean`` (D,) and ``root`` L (D, D)."""

    def create_shared_params(self, start: Array) -> dict[str, TensorSharedVariable]:
        eye = np.eye(self.ddim)
        self.root_inverse = shared(eye, "root_inverse")
        return {"mean": shared(start, "mean"), "root": shared(eye, "root")}

    def hold(self, q: Gaussian) -> None:  # type: ignore[override]
        """Take over a fitted Gaussian."""
        self.params_dict["mean"].set_value(pm.pytensorf.floatX(q.mean))
        self.params_dict["root"].set_value(pm.pytensorf.floatX(q.root))
        self.root_inverse.set_value(pm.pytensorf.floatX(q.root_inverse))

    def posterior(self) -> Gaussian:
        mean, root = (self.params_dict[name].get_value() for name in ("mean", "root"))
        return Gaussian(mean, root, self.root_inverse.get_value())

    @property
    def root(self) -> TensorVariable:
        """L, shape (D, D), with Cov θ = LLᵀ."""
        return self.params_dict["root"]

    @node_property
    def log_det(self) -> TensorVariable:
        """log|det L|."""
        return pt.linalg.slogdet(self.root)[1]

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        theta = self.params_dict["mean"] + z @ self.root.T
        return theta, self.log_det + pt.zeros_like(z[:, 0])

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        z = (theta - self.params_dict["mean"]) @ self.root_inverse.T
        return standard_normal_logp(z) - self.log_det

    @node_property
    def mean(self) -> TensorVariable:
        return self.params_dict["mean"]

    @node_property
    def cov(self) -> TensorVariable:
        return self.root @ self.root.T

    @node_property
    def std(self) -> TensorVariable:
        return pt.sqrt(pt.sum(self.root**2, axis=1))


class DiagonalGroup(TransformGroup):
    """q = N(μ, diag(σ²)) in O(D) a draw: parameters ``mean`` and ``sd`` (D,)."""

    def create_shared_params(self, start: Array) -> dict[str, TensorSharedVariable]:
        return {"mean": shared(start, "mean"), "sd": shared(np.ones(self.ddim), "sd")}

    def hold(self, q: DiagonalGaussian | Gaussian) -> None:  # type: ignore[override]
        """Take over a fitted Gaussian, or the scales of one that a search passes through."""
        self.params_dict["mean"].set_value(pm.pytensorf.floatX(q.mean))
        self.params_dict["sd"].set_value(pm.pytensorf.floatX(q.std))

    def posterior(self) -> DiagonalGaussian:
        mean, sd = (self.params_dict[name].get_value() for name in ("mean", "sd"))
        return DiagonalGaussian(mean, sd)

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        sd = self.params_dict["sd"]
        theta = self.params_dict["mean"] + sd * z
        return theta, pt.log(sd).sum() + pt.zeros_like(z[:, 0])

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        sd = self.params_dict["sd"]
        return standard_normal_logp((theta - self.params_dict["mean"]) / sd) - pt.log(sd).sum()

    @node_property
    def mean(self) -> TensorVariable:
        return self.params_dict["mean"]

    @node_property
    def std(self) -> TensorVariable:
        return self.params_dict["sd"]

    @node_property
    def cov(self) -> TensorVariable:
        return pt.diag(self.std**2)


class MixtureGroup(TransformGroup):
    """q = Σ_k w_k N(μ_k, L_k L_kᵀ): ``log_weights`` (K,), ``means`` (K, D), ``roots`` (K, D, D)."""

    @property
    def latent_dim(self) -> int:
        """One normal chooses the component, D make the draw."""
        return self.ddim + 1

    def create_shared_params(self, start: Array) -> dict[str, TensorSharedVariable]:
        eye = np.eye(self.ddim)[None]
        self.root_inverses = shared(eye, "root_inverses")
        return {
            "log_weights": shared(np.zeros(1), "log_weights"),
            "means": shared(start[None], "means"),
            "roots": shared(eye, "roots"),
        }

    def hold(self, q: GaussianMixture | Gaussian) -> None:  # type: ignore[override]
        """Take over a fitted mixture, or the one Gaussian that a search passes through."""
        if isinstance(q, Gaussian):
            q = GaussianMixture(np.zeros(1), (q,))
        self.params_dict["log_weights"].set_value(q.log_weights)
        self.params_dict["means"].set_value(np.array([c.mean for c in q.components]))
        self.params_dict["roots"].set_value(np.array([c.root for c in q.components]))
        self.root_inverses.set_value(np.array([c.root_inverse for c in q.components]))

    def posterior(self) -> GaussianMixture:
        p = {name: v.get_value() for name, v in self.params_dict.items()}
        parts = zip(p["means"], p["roots"], self.root_inverses.get_value(), strict=True)
        return GaussianMixture(p["log_weights"], tuple(Gaussian(*part) for part in parts))

    @property
    def log_weights(self) -> TensorVariable:
        """log w, shape (K,)."""
        return self.params_dict["log_weights"]

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """Draws of the mixture; there is no single Jacobian: see :meth:`log_density`."""
        u = 0.5 * pt.erfc(-z[:, 0] / np.sqrt(2.0))  # Φ(z₀) is uniform
        k = pt.sum(u[:, None] > pt.cumsum(pt.exp(self.log_weights))[:-1], axis=1)
        images = z[:, 1:] @ pt.swapaxes(self.params_dict["roots"], -1, -2)  # (K, N, D)
        theta = (self.component_means[:, None] + images)[k, pt.arange(z.shape[0])]
        return theta, standard_normal_logp(z) - self.log_density(theta)

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        difference = theta[None] - self.component_means[:, None]
        z = difference @ pt.swapaxes(self.root_inverses, -1, -2)
        each = standard_normal_logp(z) + pt.linalg.slogdet(self.root_inverses)[1][:, None]
        return pt.logsumexp(self.log_weights[:, None] + each, axis=0)

    @property
    def component_means(self) -> TensorVariable:
        """Means of the components, (K, D)."""
        return self.params_dict["means"]

    @node_property
    def component_covs(self) -> TensorVariable:
        """Covariances of the components, (K, D, D)."""
        roots = self.params_dict["roots"]
        return roots @ pt.swapaxes(roots, -1, -2)

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
