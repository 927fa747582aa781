"""The triangular Bernstein flow as a PyMC variational group.

Notation of Dürr et al. (2024): latent v, x = αv + β, u = σ(x); component j of y is a Bernstein
polynomial of u_j whose coefficients a masked network makes from the components before j. With
tails, −s_L softplus(−x) + s_R softplus(x) is added. Conditioning on x itself adds terms linear in
the components before j to ϑ_0 and to the log of an overall scale. θ = μ + L y.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.variational.opvi import node_property
from pytensor.tensor import TensorVariable
from scipy.stats import norm as normal
from scipy.stats import qmc

from pymc_ext.maths.autoregressive import MaskedNetwork
from pymc_ext.maths.bernstein_basis import identity_coefficients, inverse_softplus
from pymc_ext.ops.bernstein import bernstein_map
from pymc_ext.variational.base import TransformGroup, standard_normal_logp
from pymc_ext.variational.bernstein_latents import Latent, TruncatedNormal
from pymc_ext.variational.gaussian import shared

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
INPUT_MAPS = ("f1", "f2", "f3")
TAILS = ("linear", "bounded")
CONDITIONING = ("latent", "squashed")
TAIL_SHARE = 0.5  # share of the identity that the tails carry at the start
MOMENT_DRAWS = 1024  # Sobol points behind mean, std and cov


class BernsteinGroup(TransformGroup):
    """q of θ = μ + L·flow(v); options are those of :class:`BernsteinVI`."""

    def __init_group__(self, group: list[TensorVariable]) -> None:
        option = self._kwargs
        self.order: int = option["order"]
        self.input_map: str = option["input_map"]
        self.tails: str = option["tails"]
        self.conditioning: str = option["conditioning"]
        self.whitened: bool = option["whitened"]
        # f3 brings its own law of the latent variables
        self.law: Latent = TruncatedNormal() if self.input_map == "f3" else option["latent"]
        super().__init_group__(group)

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        D = self.ddim
        self.permutation = variable_order(self, self._kwargs["ordering"])
        heads = {"raw": self.order, "local": 1 + 2 * self._linear + self._scaled}
        self.network = MaskedNetwork(D, self._kwargs["hidden"], heads)
        if self.network.grouped:
            logger.info(
                f"hidden layers of {self.network.hidden} units are narrower than the {D - 1} "
                "variables conditioned on, which are therefore seen in groups; pass "
                f"hidden=({D - 1}, {D - 1}) for full conditioning"
            )
        self.center = shared(start[self.permutation], "center")
        self.factor = shared(np.eye(D), "factor")
        rng = np.random.default_rng(self.rng.randint(2**30))
        return {name: shared(v, name) for name, v in self._initial_values(rng).items()}

    @property
    def latent_dim(self) -> int:
        return self.ddim * self.law.normals

    @property
    def _linear(self) -> bool:
        return self.tails == "linear"

    @property
    def _scaled(self) -> bool:
        """Whether components before j enter linearly: a Gaussian's, or a funnel's, dependence."""
        return self.conditioning == "latent" and self.ddim > 1

    def _initial_values(self, rng: np.random.Generator) -> dict[str, Array]:
        D = self.ddim
        offset, increments = self._identity()
        tails = [inverse_softplus(np.array(TAIL_SHARE))] * (2 * self._linear)
        local = [offset, *tails] + [0.0] * self._scaled
        values = self.network.initial(
            rng,
            {
                "raw": np.tile(inverse_softplus(increments), (D, 1)),
                "local": np.tile(np.array(local, dtype=float), (D, 1)),
            },
        )
        if self.input_map == "f1":
            values["alpha"] = np.full(D, inverse_softplus(np.array(1.0)))
            values["beta"] = np.zeros(D)
        if self._scaled:
            values["skip"], values["skip_scale"] = np.zeros((D, D)), np.zeros((D, D))
        return values

    def _identity(self) -> tuple[float, Array]:
        slope = 1 - TAIL_SHARE if self._linear else 1.0
        if self.input_map == "f3":  # u is near (0.5, 0.15) already: y = (u - 0.5) / 0.15
            return -0.5 / 0.15, np.full(self.order, 1 / 0.15 / self.order)
        return identity_coefficients(self.order, slope)

    # ---- base and coordinates --------------------------------------------------------------

    def set_base(self, mean: Array, cov: Array) -> None:
        """Whiten with N(mean (D,), cov (D, D)), both in the model's order."""
        p = self.permutation
        self.center.set_value(np.asarray(mean, dtype=float)[p])
        self.factor.set_value(np.linalg.cholesky(np.asarray(cov, dtype=float)[np.ix_(p, p)]))

    def from_coordinates(self, y: TensorVariable) -> TensorVariable:
        """θ in the model's order from the flow's y in the conditioning order."""
        theta = self.center + (y @ self.factor.T if self.whitened else y)
        return theta[:, np.argsort(self.permutation)]

    def to_coordinates(self, theta: Array) -> Array:
        """Inverse of :meth:`from_coordinates`, NumPy."""
        y = (theta[:, self.permutation] - self.center.get_value()).T
        return (np.linalg.solve(self.factor.get_value(), y) if self.whitened else y).T

    def log_det_base(self) -> TensorVariable:
        """log|det L|."""
        return pt.log(pt.diag(self.factor)).sum() if self.whitened else pt.constant(0.0)

    # ---- the flow --------------------------------------------------------------------------

    def logit_input(self, v: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """x = logit of the polynomial's argument and Σ log dx/dv; (N, D) -> (N, D), (N,)."""
        if self.input_map == "f2":
            return v, pt.zeros_like(v[:, 0])
        if self.input_map == "f3":
            return pt.log(v) - pt.log1p(-v), -(pt.log(v) + pt.log1p(-v)).sum(-1)
        alpha = pt.softplus(self.params_dict["alpha"])
        return alpha * v + self.params_dict["beta"], pt.log(alpha).sum() + pt.zeros_like(v[:, 0])

    def latent_input(self, x: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """v and Σ log dx/dv from x: the inverse of :meth:`logit_input`."""
        if self.input_map == "f2":
            v = x
        elif self.input_map == "f3":
            v = pt.sigmoid(x)
        else:
            v = (x - self.params_dict["beta"]) / pt.softplus(self.params_dict["alpha"])
        return v, self.logit_input(v)[1]

    def on_support(self, x: Array) -> NDArray[np.bool_]:
        """Whether x (N, D) can be drawn: f3's input ends at 1e-4 and 1 - 1e-4."""
        if not isinstance(self.law, TruncatedNormal):
            return np.ones(len(x), dtype=bool)
        limit = np.log1p(-self.law.margin) - np.log(self.law.margin)
        return np.all(np.abs(x) <= limit, axis=1)

    def conditionals(self, x: TensorVariable) -> dict[str, TensorVariable]:
        """What those before j say of j: raw (N, D, M), offset, log_scale, left, right (N, D)."""
        seen = pt.sigmoid(x) - 0.5 if self.conditioning == "squashed" else x
        heads = self.network(self.params_dict, seen)
        local, out = heads["local"], {"raw": heads["raw"]}
        out["offset"] = local[..., 0]
        out["log_scale"] = pt.zeros_like(x)
        if self._scaled:
            out["offset"] += x @ pt.triu(self.params_dict["skip"], 1)
            out["log_scale"] = local[..., -1] + x @ pt.triu(self.params_dict["skip_scale"], 1)
        if self._linear:
            out["left"], out["right"] = pt.softplus(local[..., 1]), pt.softplus(local[..., 2])
        return out

    def push(self, x: TensorVariable, given: dict[str, TensorVariable]) -> tuple[Any, Any]:
        """y (N, D) and Σ log dy/dx (N,)."""
        value, log_slope = bernstein_map(x, given["raw"])
        if self._linear:
            value = value - given["left"] * pt.softplus(-x) + given["right"] * pt.softplus(x)
            tail = given["left"] * pt.sigmoid(-x) + given["right"] * pt.sigmoid(x)
            log_slope = pt.logaddexp(log_slope, pt.log(tail))
        y = given["offset"] + pt.exp(given["log_scale"]) * value
        return y, (log_slope + given["log_scale"]).sum(-1)

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        v = self.law.draw(z, self.ddim)
        x, log_dx = self.logit_input(v)
        y, log_dy = self.push(x, self.conditionals(x))
        log_q = self.law.log_density(v).sum(-1) - log_dx - log_dy - self.log_det_base()
        # with one normal per latent variable this is log|det ∂θ/∂z|; with two (Student-t) only
        # log q has a meaning, and log q is what the base class makes of it
        return self.from_coordinates(y), standard_normal_logp(z) - log_q

    # ---- moments ---------------------------------------------------------------------------

    @node_property
    def _moment_draws(self) -> TensorVariable:
        u = qmc.Sobol(self.latent_dim, scramble=True, rng=1).random(MOMENT_DRAWS)
        return self.transform(pt.constant(normal.ppf(u)))[0]

    @node_property
    def mean(self) -> TensorVariable:
        return self._moment_draws.mean(0)

    @node_property
    def cov(self) -> TensorVariable:
        centred = self._moment_draws - self.mean
        return centred.T @ centred / MOMENT_DRAWS

    @node_property
    def std(self) -> TensorVariable:
        return pt.sqrt(pt.diag(self.cov))


def variable_order(group: TransformGroup, ordering: Sequence[str] | None) -> NDArray[np.intp]:
    """Permutation of the flat θ: entry k is conditioned on the entries before it.

    None puts the variables with few elements first (a model's hyperparameters), ties in the
    model's order; a sequence of names gives the order of the variables.
    """
    slices = {rv.name: group.ordering[group.model.rvs_to_values[rv].name][1] for rv in group.group}
    sizes = {name: s.stop - s.start for name, s in slices.items()}
    if ordering is None:
        names = sorted(slices, key=lambda name: sizes[name])
    else:
        names = list(ordering)
        if sorted(names) != sorted(slices):
            raise ValueError(
                f"ordering must name each free variable once, got {names}; the model has "
                f"{list(slices)}"
            )
    return np.concatenate([np.arange(slices[n].start, slices[n].stop) for n in names])
