"""The triangular Bernstein flow as a PyMC variational group.

Notation of Dürr et al. (2024): latent v, x = αv + β, u = σ(x); component j of y is a Bernstein
polynomial of u_j whose coefficients a masked network makes from the components before j. With
linear tails, −s_L softplus(−x) + s_R softplus(x) is added; with quadratic ones, which make a normal
v's tails exponential, −q_L softplus(−x)²/2 + q_R softplus(x)²/2 as well. Conditioning on more than
u adds terms linear in what is seen to ϑ_0 and to the log of an overall scale. θ = μ + L y.
"""

from __future__ import annotations

import itertools
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
TAILS = {"bounded": 0, "linear": 2, "quadratic": 4}  # slopes of each component
CONDITIONING = ("latent", "squashed", "hierarchical")
QUADRATIC_START = 0.02
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
        self.permutation, self.leading = variable_order(self, self._kwargs["ordering"])
        heads = {"raw": self.order, "local": 1 + TAILS[self.tails] + self._scaled}
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
    def _scaled(self) -> bool:
        """Whether components before j enter linearly: a Gaussian's, or a funnel's, dependence."""
        return self.conditioning != "squashed" and self.ddim > 1

    def _initial_values(self, rng: np.random.Generator) -> dict[str, Array]:
        D = self.ddim
        offset, increments = self._identity()
        slopes = [TAIL_SHARE, TAIL_SHARE, QUADRATIC_START, QUADRATIC_START][: TAILS[self.tails]]
        tails = [float(inverse_softplus(np.array(slope))) for slope in slopes]
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
        slope = 1 - TAIL_SHARE if TAILS[self.tails] else 1.0
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
        """What those before j say of j: raw (N, D, M), slopes, offset, log_scale (N, D)."""
        if self.conditioning == "squashed":
            return self._conditionals(pt.sigmoid(x) - 0.5, 0, self.ddim)
        leading = self.leading if self.conditioning == "hierarchical" else 0
        if not 0 < leading < self.ddim:
            return self._conditionals(x, 0, self.ddim)
        first = self._conditionals(x, 0, leading)
        # a scale that follows a hyperparameter is a simple function of its value, not of its x
        values, _ = self.push(x[:, :leading], first)
        rest = self._conditionals(
            pt.concatenate([values, x[:, leading:]], axis=1), leading, self.ddim
        )
        return {name: pt.concatenate([first[name], rest[name]], axis=1) for name in first}

    def _conditionals(
        self, seen: TensorVariable, first: int, stop: int
    ) -> dict[str, TensorVariable]:
        heads = self.network(self.params_dict, seen, first, stop)
        local, out = heads["local"], {"raw": heads["raw"]}
        out["slopes"] = pt.softplus(local[..., 1 : 1 + TAILS[self.tails]])
        out["offset"], out["log_scale"] = local[..., 0], pt.zeros_like(local[..., 0])
        if self._scaled:
            skip, skip_scale = (
                pt.triu(self.params_dict[name], 1)[:, first:stop] for name in ("skip", "skip_scale")
            )
            out["offset"] += seen @ skip
            out["log_scale"] = local[..., -1] + seen @ skip_scale
        return out

    def push(self, x: TensorVariable, given: dict[str, TensorVariable]) -> tuple[Any, Any]:
        """y (N, D) and Σ log dy/dx (N,)."""
        value, log_slope = bernstein_map(x, given["raw"])
        if TAILS[self.tails]:
            tail, derivative = self.tail(x, given["slopes"])
            value, log_slope = value + tail, pt.logaddexp(log_slope, pt.log(derivative))
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

    def tail(self, x: TensorVariable, slopes: TensorVariable) -> tuple[Any, Any]:
        """The increasing function of x beside the polynomial, (N, D), and its derivative."""
        right, left = pt.softplus(x), pt.softplus(-x)
        d_right, d_left = pt.sigmoid(x), pt.sigmoid(-x)
        value = slopes[..., 1] * right - slopes[..., 0] * left
        derivative = slopes[..., 1] * d_right + slopes[..., 0] * d_left
        if self.tails == "quadratic":
            value += 0.5 * (slopes[..., 3] * right**2 - slopes[..., 2] * left**2)
            derivative += slopes[..., 3] * right * d_right + slopes[..., 2] * left * d_left
        return value, derivative

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


def variable_order(
    group: TransformGroup, ordering: Sequence[str] | None
) -> tuple[NDArray[np.intp], int]:
    """Permutation of the flat θ, and how many of its first entries are scalar variables.

    Entry k is conditioned on the entries before it. None puts the variables with few elements
    first (a model's hyperparameters), ties in the model's order; a sequence of names gives the
    order of the variables.
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
    scalars = list(itertools.takewhile(lambda name: sizes[name] == 1, names))
    entries = [np.arange(slices[name].start, slices[name].stop) for name in names]
    return np.concatenate(entries), len(scalars)
