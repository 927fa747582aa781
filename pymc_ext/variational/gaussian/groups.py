"""Gaussian families in coordinates whitened by a base N(μ₀, CCᵀ): θ = μ₀ + C(m + A z).

With the Laplace approximation as base, m and A are near 0 and I whatever the units of θ, which is
what a quasi-Newton method wants. Families differ in A: see Table I of Gianniotis.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.variational.opvi import node_property
from pytensor.tensor import TensorVariable

from pymc_ext.maths import lowrank
from pymc_ext.variational.core.base import TransformGroup, standard_normal_logp

Array = NDArray[np.floating]


def shared(value: Array, name: str) -> Any:
    """A shared variable of PyTensor's float type."""
    return pytensor.shared(pm.pytensorf.floatX(np.asarray(value, dtype=float)), name)


def check_rank(rank: int, dim: int) -> None:
    """Raise ValueError unless 1 <= rank <= dim."""
    if not isinstance(rank, int | np.integer) or not 1 <= rank <= dim:
        raise ValueError(f"rank must be between 1 and the dimension {dim}, got {rank}")


class GaussianGroup(TransformGroup):
    """q = N(μ₀ + C m, (CA)(CA)ᵀ) with A = I: only the mean moves (MVI-μ, eq. 8; and Laplace)."""

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        eye = np.eye(self.ddim)
        self.center = shared(start, "center")
        self.factor, self.factor_inverse = shared(eye, "C"), shared(eye, "C_inverse")
        self.factor_log_det = shared(np.zeros(()), "log_det_C")
        return {"m": shared(np.zeros(self.ddim), "m"), **self.create_noise_params()}

    def create_noise_params(self) -> dict[str, Any]:
        """Shared variables of A, at A = I."""
        return {}

    def set_base(self, center: Array, factor: Array, factor_inverse: Array) -> None:
        """Set μ₀ (D,), C and C⁻¹ (D, D), and m = 0; A stays."""
        self.center.set_value(pm.pytensorf.floatX(center))
        self.factor.set_value(pm.pytensorf.floatX(factor))
        self.factor_inverse.set_value(pm.pytensorf.floatX(factor_inverse))
        self.factor_log_det.set_value(pm.pytensorf.floatX(np.linalg.slogdet(factor)[1]))
        self.params_dict["m"].set_value(np.zeros_like(center))

    def move_to(self, theta: Array) -> None:
        """Centre q at θ (D,): what callbacks see during a mode search."""
        self.center.set_value(pm.pytensorf.floatX(theta))

    def noise(self, z: TensorVariable) -> TensorVariable:
        """A z, row by row."""
        return z

    def noise_inverse(self, x: TensorVariable) -> TensorVariable:
        """A⁻¹ x, row by row."""
        return x

    def noise_log_det(self) -> TensorVariable:
        """log|det A|."""
        return pt.constant(0.0)

    def log_det(self) -> TensorVariable:
        """log|det CA|."""
        return self.factor_log_det + self.noise_log_det()

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        theta = self.center + (self.params_dict["m"] + self.noise(z)) @ self.factor.T
        return theta, self.log_det() + pt.zeros_like(z[:, 0])

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        x = (theta - self.center) @ self.factor_inverse.T - self.params_dict["m"]
        return standard_normal_logp(self.noise_inverse(x)) - self.log_det()

    @node_property
    def mean(self) -> TensorVariable:
        return self.center + self.factor @ self.params_dict["m"]

    @node_property
    def root(self) -> TensorVariable:
        """L = CA, shape (D, D), with Cov θ = LLᵀ."""
        return self.factor @ self.noise(pt.eye(self.ddim)).T

    @node_property
    def cov(self) -> TensorVariable:
        return self.root @ self.root.T

    @node_property
    def std(self) -> TensorVariable:
        return pt.sqrt(pt.sum(self.root**2, axis=1))


class ScaledGroup(GaussianGroup):
    """A = diag(e^s): with C = Q diag(r_LA) this is MVI-eig, r = r_LA e^s (eq. 10)."""

    def create_noise_params(self) -> dict[str, Any]:
        return {"s": shared(np.zeros(self.ddim), "s")}

    def noise(self, z: TensorVariable) -> TensorVariable:
        return z * pt.exp(self.params_dict["s"])

    def noise_inverse(self, x: TensorVariable) -> TensorVariable:
        return x * pt.exp(-self.params_dict["s"])

    def noise_log_det(self) -> TensorVariable:
        return pt.sum(self.params_dict["s"])


class LowRankGroup(GaussianGroup):
    """A = I + u vᵀ, u and v (D, r): MVI-lr with U = C u, V = v (eq. 11)."""

    def create_noise_params(self) -> dict[str, Any]:
        rank = self._kwargs.get("rank", 1)
        check_rank(rank, self.ddim)
        zero = np.zeros((self.ddim, rank))
        return {"u": shared(zero, "u"), "v": shared(zero, "v")}

    def noise(self, z: TensorVariable) -> TensorVariable:
        return lowrank.multiply(z, self.params_dict["u"], self.params_dict["v"])

    def noise_inverse(self, x: TensorVariable) -> TensorVariable:
        return lowrank.solve(x, self.params_dict["u"], self.params_dict["v"])

    def noise_log_det(self) -> TensorVariable:
        return lowrank.log_abs_det(self.params_dict["u"], self.params_dict["v"])


class DiagonalGroup(ScaledGroup):
    """Independent components: C = diag(c) kept as a vector, O(D) a draw (VI-diag, eq. 12)."""

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        self.center, self.scale = shared(start, "center"), shared(np.ones(self.ddim), "c")
        return {"m": shared(np.zeros(self.ddim), "m"), **self.create_noise_params()}

    def set_scale(self, center: Array, scale: Array) -> None:
        """Set μ₀ and c (D,), and m = s = 0."""
        self.center.set_value(pm.pytensorf.floatX(center))
        self.scale.set_value(pm.pytensorf.floatX(scale))
        for name in ("m", "s"):
            self.params_dict[name].set_value(np.zeros_like(center))

    def log_det(self) -> TensorVariable:
        return pt.sum(pt.log(self.scale)) + self.noise_log_det()

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        theta = self.center + self.scale * (self.params_dict["m"] + self.noise(z))
        return theta, self.log_det() + pt.zeros_like(z[:, 0])

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        x = (theta - self.center) / self.scale - self.params_dict["m"]
        return standard_normal_logp(self.noise_inverse(x)) - self.log_det()

    @node_property
    def mean(self) -> TensorVariable:
        return self.center + self.scale * self.params_dict["m"]

    @node_property
    def std(self) -> TensorVariable:
        return self.scale * pt.exp(self.params_dict["s"])

    @node_property
    def root(self) -> TensorVariable:
        return pt.diag(self.std)
