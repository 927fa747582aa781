"""The triangular Bernstein flow as a PyMC variational group, in symbols.

Fits use the same flow in numbers (:mod:`.flow`), which a test holds against this one; graphs are
for PyMC's own machinery and for the loop that JAX compiles.

Notation of Dürr et al. (2024): latent v, x = αs(v) + β, u = σ(x), where s, the identity unless a
polish has stretched the tails of q, is not the paper's; component j of y is a Bernstein
polynomial of u_j whose coefficients a masked network makes from the components before j. With
linear tails, −s_L softplus(−x) + s_R softplus(x) is added; with quadratic ones, which make a normal
v's tails exponential, −q_L softplus(−x)²/2 + q_R softplus(x)²/2 as well. Conditioning on more than
u makes this t_j + e^{l_j}(ϑ_0 + ...) with t and l linear in what is seen, so that what the network
makes is relative to the scale: in a funnel's neck its errors shrink with it. θ = μ + L y.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
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

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.ops.bernstein import bernstein_map
from pymc_ext.variational.bernstein.flow import MOMENT_DRAWS, BernsteinFlow
from pymc_ext.variational.bernstein.input_maps import MAPS
from pymc_ext.variational.bernstein.shape import Block, FlowShape, variable_order
from pymc_ext.variational.core.groups import TransformGroup
from pymc_ext.variational.gaussian.groups import shared
from pymc_ext.variational.gaussian.posteriors import Gaussian

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]


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
    """q of θ = μ + L·flow(v); ``shape`` is its :class:`FlowShape`."""

    def __init_group__(self, group: list[TensorVariable]) -> None:
        self.shape: FlowShape = self._kwargs["shape"]
        self.whitened: bool = self._kwargs["whitened"]
        self.law, self.input_map = self.shape.law, MAPS[self.shape.input_map]
        super().__init_group__(group)

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        self.permutation, self.leading = variable_order(self._blocks(), self.shape.ordering)
        rng = np.random.default_rng(self.rng.randint(2**30))
        self.flow_numbers = BernsteinFlow(self.shape, self.permutation, self.leading, start, rng)
        self.layout = self.flow_numbers.layout
        self.stages = self.layout.stages
        if self.stages[-1].grouped:
            width = self.ddim - 1
            logger.info(
                f"hidden layers of {self.stages[-1].hidden} units are narrower than the {width} "
                "variables conditioned on, which are therefore seen in groups; pass "
                f"hidden=({width}, {width}) for full conditioning"
            )
        self.center = shared(start[self.permutation], "center")
        self.factor = shared(np.eye(self.ddim), "factor")
        self.stretch = shared(np.zeros((2, self.ddim)), "stretch")  # not trained: `stretching`
        return {name: _fixed_shape(v, name) for name, v in self.flow_numbers.values.items()}

    def _blocks(self) -> list[Block]:
        """The variables in the flat θ; see :attr:`PyMCDensity.blocks`."""
        blocks = []
        for rv in self.group:
            where = self.ordering[self.model.rvs_to_values[rv].name][1]
            parts = getattr(rv.tag, "blocks", {rv.name: where.stop - where.start})
            bounded = self.model.rvs_to_transforms[rv] is not None
            blocks += [Block(name, size, bounded) for name, size in parts.items()]
        return blocks

    @property
    def latent_dim(self) -> int:
        return self.ddim * self.law.normals

    # ---- numbers ---------------------------------------------------------------------------

    def posterior(self) -> BernsteinFlow:
        flow = self.flow_numbers
        values = (self.params_dict[name].get_value(borrow=True) for name in flow.values)
        flow.set(np.concatenate([np.ravel(value) for value in values]))
        flow.stretch[...] = self.stretch.get_value(borrow=True)
        flow.center = self.center.get_value()
        flow.factor = self.factor.get_value() if self.whitened else None
        return flow

    def hold(self, q: BernsteinFlow | Gaussian) -> None:
        """Take over a fitted flow; a Gaussian, which a search for a base passes through, is not."""
        if isinstance(q, Gaussian):
            return
        for name, param in self.params_dict.items():
            param.set_value(q.values[name].copy())
        self.stretch.set_value(q.stretch.copy())
        self.center.set_value(q.center)
        if q.factor is not None:
            self.factor.set_value(q.factor)

    def set_base(self, mean: Array, cov: Array) -> None:
        """Whiten with N(mean (D,), cov (D, D)), both in the model's order."""
        p = self.permutation
        self.center.set_value(np.asarray(mean, dtype=float)[p])
        self.factor.set_value(np.linalg.cholesky(np.asarray(cov, dtype=float)[np.ix_(p, p)]))

    # ---- base and coordinates --------------------------------------------------------------

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

    def log_det_base(self) -> TensorVariable:
        """log|det L|."""
        return pt.log(pt.diag(self.factor)).sum() if self.whitened else pt.constant(0.0)

    # ---- the flow --------------------------------------------------------------------------

    def logit_input(self, v: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """x = logit of the polynomial's argument and Σ log dx/dv; (N, D) -> (N, D), (N,)."""
        return self.input_map.forward(v, self.params_dict, self.stretch, pt)

    def flow(self, x: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """y (N, D) and Σ log dy/dx (N,)."""
        pieces = list(self._staged(x))
        y = pt.concatenate([y for _, y, _ in pieces], axis=1) if len(pieces) > 1 else pieces[0][1]
        return y, sum(log_slope for _, _, log_slope in pieces)

    def _staged(self, x: TensorVariable) -> Iterator[tuple[Conditionals, Any, Any]]:
        """Conditionals, y and Σ log dy/dx of each stage; a later one sees the values of earlier."""
        seen = pt.sigmoid(x) - 0.5 if self.shape.conditioning == "squashed" else x
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
        own = self.layout.own(k, self.params_dict)
        heads = network(own, seen, pt)
        width = network.heads["local"]
        columns: Any = pt.split(heads["local"], splits_size=[1] * width, n_splits=width, axis=2)
        columns = [pt.squeeze(c, axis=2) for c in (columns if width > 1 else [heads["local"]])]
        slopes = [pt.softplus(c) for c in columns[1 : 1 + self.shape.slopes]]
        shift = log_scale = pt.zeros_like(columns[0])
        if self.layout.scaled:
            mask = self.layout.skip_mask(network)
            shift = seen @ (own["skip"] * mask)
            log_scale = columns[-1] + seen @ (own["skip_scale"] * mask)
        return Conditionals(heads["raw"], columns[0], shift, log_scale, *slopes)

    def push(self, x: TensorVariable, given: Conditionals) -> tuple[Any, Any]:
        """y (N, d) and Σ log dy/dx (N,)."""
        value, log_slope = bernstein_map(x, given.raw)
        if self.shape.slopes:
            tail, derivative = self.tail(x, given)
            value, log_slope = value + tail, pt.logaddexp(log_slope, pt.log(derivative))
        y = given.shift + pt.exp(given.log_scale) * (given.offset + value)
        return y, (log_slope + given.log_scale).sum(-1)

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        v = self.law.draw(z, self.ddim, pt)
        x, log_dx = self.logit_input(v)
        y, log_dy = self.flow(x)
        log_q = self.law.log_density(v, pt).sum(-1) - log_dx - log_dy - self.log_det_base()
        # with one normal per latent variable this is log|det ∂θ/∂z|; with two (Student-t) only
        # log q has a meaning, and log q is what the base class makes of it
        return self.from_coordinates(y), standard_normal_logp(z) - log_q

    def tail(self, x: TensorVariable, given: Conditionals) -> tuple[Any, Any]:
        """The increasing function of x beside the polynomial, (N, d), and its derivative."""
        right, left = pt.softplus(x), pt.softplus(-x)
        d_right, d_left = pt.sigmoid(x), pt.sigmoid(-x)
        value = given.right * right - given.left * left
        derivative = given.right * d_right + given.left * d_left
        if self.shape.slopes == 4:
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
