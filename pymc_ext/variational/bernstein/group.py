"""The triangular Bernstein flow as a PyMC variational group.

Notation of Dürr et al. (2024): latent v, x = αs(v) + β, u = σ(x), where s, the identity unless a
polish has stretched the tails of q, is not the paper's; component j of y is a Bernstein
polynomial of u_j whose coefficients a masked network makes from the components before j. With
linear tails, −s_L softplus(−x) + s_R softplus(x) is added; with quadratic ones, which make a normal
v's tails exponential, −q_L softplus(−x)²/2 + q_R softplus(x)²/2 as well. Conditioning on more than
u makes this t_j + e^{l_j}(ϑ_0 + ...) with t and l linear in what is seen, so that what the network
makes is relative to the scale: in a funnel's neck its errors shrink with it. θ = μ + L y.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.variational.opvi import node_property
from pytensor.tensor import TensorVariable
from scipy.stats import norm as normal
from scipy.stats import qmc

from pymc_ext.maths.autoregressive import MaskedNetwork
from pymc_ext.maths.bernstein_basis import identity_coefficients, inverse_softplus
from pymc_ext.maths.stretched_tails import stretch, unstretch
from pymc_ext.ops.bernstein import bernstein_map
from pymc_ext.variational.bernstein.latents import Latent, TruncatedNormal
from pymc_ext.variational.core.base import TransformGroup, standard_normal_logp
from pymc_ext.variational.gaussian.groups import shared

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
INPUT_MAPS = ("f1", "f2", "f3")
TAILS = {"bounded": 0, "linear": 2, "quadratic": 4}  # slopes of each component
CONDITIONING = ("latent", "squashed", "hierarchical")
QUADRATIC_START = 0.02
TAIL_SHARE = 0.5  # share of the identity that the tails carry at the start
MOMENT_DRAWS = 1024  # Sobol points behind mean, std and cov


class Conditionals(NamedTuple):
    """What the components before j say of j: raw (N, d, M), all others (N, d)."""

    raw: Any
    offset: Any  # ϑ_0
    shift: Any  # t
    log_scale: Any  # l
    left: Any = None  # slopes s_L, s_R and curvatures q_L, q_R of the tails, where there are any
    right: Any = None
    left_bend: Any = None
    right_bend: Any = None

    def present(self) -> list[Any]:
        """The fields that this flow has, in order."""
        return [field for field in self if field is not None]


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
        split = self.conditioning == "hierarchical" and 0 < self.leading < D
        heads = {"raw": self.order, "local": 1 + TAILS[self.tails] + self._scaled}
        self.stages = [
            MaskedNetwork(stop, self._kwargs["hidden"], heads, first)
            for first, stop in ([(0, self.leading), (self.leading, D)] if split else [(0, D)])
        ]
        if self.stages[-1].grouped:
            logger.info(
                f"hidden layers of {self.stages[-1].hidden} units are narrower than the {D - 1} "
                "variables conditioned on, which are therefore seen in groups; pass "
                f"hidden=({D - 1}, {D - 1}) for full conditioning"
            )
        self.center = shared(start[self.permutation], "center")
        self.factor = shared(np.eye(D), "factor")
        self.stretch = shared(np.zeros((2, D)), "stretch")  # not trained: `flow_stretching`
        rng = np.random.default_rng(self.rng.randint(2**30))
        return {name: _fixed_shape(v, name) for name, v in self._initial_values(rng).items()}

    @property
    def latent_dim(self) -> int:
        return self.ddim * self.law.normals

    @property
    def _scaled(self) -> bool:
        """Whether components before j enter linearly: a Gaussian's, or a funnel's, dependence."""
        return self.conditioning != "squashed" and self.ddim > 1

    def _initial_values(self, rng: np.random.Generator) -> dict[str, Array]:
        offset, increments = self._identity()
        slopes = [TAIL_SHARE, TAIL_SHARE, QUADRATIC_START, QUADRATIC_START][: TAILS[self.tails]]
        tails = [float(inverse_softplus(np.array(slope))) for slope in slopes]
        local = np.array([offset, *tails] + [0.0] * self._scaled)
        values: dict[str, Array] = {}
        for k, network in enumerate(self.stages):
            shape = (network.outputs, 1)
            biases = {
                "raw": np.tile(inverse_softplus(increments), shape),
                "local": np.tile(local, shape),
            }
            own = network.initial(rng, biases)
            if self._scaled:
                square = np.zeros((network.inputs, network.outputs))
                own |= {"skip": square, "skip_scale": square.copy()}
            values |= {f"{name}_{k}": value for name, value in own.items()}
        if self.input_map == "f1":
            values["alpha"] = np.full(self.ddim, inverse_softplus(np.array(1.0)))
            values["beta"] = np.zeros(self.ddim)
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
        # whole variables change places: pieces joined anew are several times faster than an index
        breaks = np.flatnonzero(np.diff(self.permutation) != 1) + 1
        runs = np.split(self.permutation, breaks)
        if len(runs) == 1:
            return theta
        pieces: Any = pt.split(
            theta, splits_size=[len(r) for r in runs], n_splits=len(runs), axis=1
        )
        return pt.concatenate([pieces[i] for i in np.argsort([run[0] for run in runs])], axis=1)

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
        s, log_ds = stretch(v, self.stretch)
        return alpha * s + self.params_dict["beta"], pt.log(alpha).sum() + log_ds.sum(-1)

    def latent_input(self, x: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """v and Σ log dx/dv from x: the inverse of :meth:`logit_input`."""
        if self.input_map == "f2":
            v = x
        elif self.input_map == "f3":
            v = pt.sigmoid(x)
        else:
            s = (x - self.params_dict["beta"]) / pt.softplus(self.params_dict["alpha"])
            v = unstretch(s, self.stretch)
        return v, self.logit_input(v)[1]

    def on_support(self, x: Array) -> NDArray[np.bool_]:
        """Whether x (N, D) can be drawn: f3's input ends at 1e-4 and 1 - 1e-4."""
        if not isinstance(self.law, TruncatedNormal):
            return np.ones(len(x), dtype=bool)
        limit = np.log1p(-self.law.margin) - np.log(self.law.margin)
        return np.all(np.abs(x) <= limit, axis=1)

    def flow(self, x: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """y (N, D) and Σ log dy/dx (N,)."""
        pieces = list(self._staged(x))
        y = pt.concatenate([y for _, y, _ in pieces], axis=1) if len(pieces) > 1 else pieces[0][1]
        return y, sum(log_slope for _, _, log_slope in pieces)

    def conditionals(self, x: TensorVariable) -> Conditionals:
        """What those before j say of j, for all j."""
        given = [part for part, _, _ in self._staged(x)]
        if len(given) == 1:
            return given[0]
        return Conditionals(
            *(
                pt.concatenate(field, axis=1)
                for field in zip(*(g.present() for g in given), strict=True)
            )
        )

    def _staged(self, x: TensorVariable) -> Iterator[tuple[Conditionals, Any, Any]]:
        """Conditionals, y and Σ log dy/dx of each stage; a later one sees the values of earlier."""
        seen = pt.sigmoid(x) - 0.5 if self.conditioning == "squashed" else x
        values: list[Any] = []  # a scale is a simple function of a hyperparameter's value, not of x
        for k, network in enumerate(self.stages):
            rest = seen[:, network.first : network.inputs]
            inputs = pt.concatenate([*values, rest], axis=1) if values else rest
            given = self._conditionals(k, inputs)
            y, log_slope = self.push(x[:, network.first : network.inputs], given)
            values.append(y)
            yield given, y, log_slope

    def _conditionals(self, k: int, seen: TensorVariable) -> Conditionals:
        network = self.stages[k]
        suffix = f"_{k}"
        own = {n.removesuffix(suffix): p for n, p in self.params_dict.items() if n.endswith(suffix)}
        heads = network(own, seen)
        width = network.heads["local"]
        columns: Any = pt.split(heads["local"], splits_size=[1] * width, n_splits=width, axis=2)
        columns = [pt.squeeze(c, axis=2) for c in (columns if width > 1 else [heads["local"]])]
        slopes = [pt.softplus(c) for c in columns[1 : 1 + TAILS[self.tails]]]
        shift = log_scale = pt.zeros_like(columns[0])
        if self._scaled:
            mask = np.triu(np.ones((network.inputs, network.inputs)), 1)[:, network.first :]
            shift = seen @ (own["skip"] * mask)
            log_scale = columns[-1] + seen @ (own["skip_scale"] * mask)
        return Conditionals(heads["raw"], columns[0], shift, log_scale, *slopes)

    def push(self, x: TensorVariable, given: Conditionals) -> tuple[Any, Any]:
        """y (N, d) and Σ log dy/dx (N,)."""
        value, log_slope = bernstein_map(x, given.raw)
        if TAILS[self.tails]:
            tail, derivative = self.tail(x, given)
            value, log_slope = value + tail, pt.logaddexp(log_slope, pt.log(derivative))
        y = given.shift + pt.exp(given.log_scale) * (given.offset + value)
        return y, (log_slope + given.log_scale).sum(-1)

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        v = self.law.draw(z, self.ddim)
        x, log_dx = self.logit_input(v)
        y, log_dy = self.flow(x)
        log_q = self.law.log_density(v).sum(-1) - log_dx - log_dy - self.log_det_base()
        # with one normal per latent variable this is log|det ∂θ/∂z|; with two (Student-t) only
        # log q has a meaning, and log q is what the base class makes of it
        return self.from_coordinates(y), standard_normal_logp(z) - log_q

    def tail(self, x: TensorVariable, given: Conditionals) -> tuple[Any, Any]:
        """The increasing function of x beside the polynomial, (N, d), and its derivative."""
        right, left = pt.softplus(x), pt.softplus(-x)
        d_right, d_left = pt.sigmoid(x), pt.sigmoid(-x)
        value = given.right * right - given.left * left
        derivative = given.right * d_right + given.left * d_left
        if self.tails == "quadratic":
            value += 0.5 * (given.right_bend * right**2 - given.left_bend * left**2)
            derivative += given.right_bend * right * d_right + given.left_bend * left * d_left
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


def _fixed_shape(value: Array, name: str) -> Any:
    value = pm.pytensorf.floatX(value)  # a static shape spares every step its run-time checks
    return pytensor.shared(value, name, shape=value.shape)


def variable_order(
    group: TransformGroup, ordering: Sequence[str] | None
) -> tuple[NDArray[np.intp], int]:
    """Permutation of the flat θ, and how many of its first entries are scalar variables.

    Entry k is conditioned on the entries before it. None puts the variables with few elements
    first (a model's hyperparameters), among equals those with a transform (scales: given them, what
    they scale is often Gaussian), then the model's order. A sequence of names gives the order. A
    variable that holds several, as the flat vector of a Stan program does, says so in
    ``tag.blocks``: their names with their sizes.
    """
    slices, transformed = _blocks(group)
    sizes = {name: s.stop - s.start for name, s in slices.items()}
    if ordering is None:
        names = sorted(slices, key=lambda name: (sizes[name], not transformed[name]))
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


def _blocks(group: TransformGroup) -> tuple[dict[str, slice], dict[str, bool]]:
    """Where each variable is in the flat θ, and whether it has a transform."""
    slices, transformed = {}, {}
    for rv in group.group:
        whole = group.ordering[group.model.rvs_to_values[rv].name][1]
        start = whole.start
        for name, size in getattr(rv.tag, "blocks", {rv.name: whole.stop - start}).items():
            slices[name] = slice(start, start + size)
            transformed[name] = group.model.rvs_to_transforms[rv] is not None
            start += size
    return slices, transformed
