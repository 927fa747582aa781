"""The triangular Bernstein flow as a PyMC variational group, in symbols.

Fits use the same flow in numbers (:mod:`.flow`), which a test holds against this one; graphs are
for PyMC's own machinery and for the loop that JAX compiles.

Notation of Dürr et al. (2024): latent v, x = αs(v) + β, u = σ(x), where s, the identity unless a
polish has stretched the tails of q, is not the paper's; component j of y is a Bernstein
polynomial of u_j whose coefficients a masked network makes from the components before j. With
linear tails, −s_L softplus(−x) + s_R softplus(x) is added; with quadratic ones, which make a normal
v's tails exponential, −q_L softplus(−x)²/2 + q_R softplus(x)²/2 as well. Conditioning on more than
u makes this t_j + e^{l_j}(ϑ_0 + ...) with t and l linear in what is seen, so that what the network
makes is relative to the scale: in a funnel's neck its errors shrink with it. θ = μ + L y, or any
other fitted base of y, which a graph calls back to and which has no gradient there.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable
from scipy.stats import norm as normal
from scipy.stats import qmc

from pymc_ext.maths.namespace import Namespace
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.ops.bernstein import bernstein_map
from pymc_ext.variational.bernstein.base import Affine, FlowBase
from pymc_ext.variational.bernstein.flow import MOMENT_DRAWS, BernsteinFlow
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.core.groups import ForwardOp, Held, TransformGroup, shared
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.pymc_variational import node_property
from pymc_ext.variational.core.variable_order import Block, variable_order

if TYPE_CHECKING:
    from pymc_ext.pytensor_versions import TensorSharedVariable

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
GRAPHS = cast("Namespace", pt)  # the functions of graphs


Mapped = tuple[TensorVariable, TensorVariable]  # values, and (logs of) derivatives


class Conditionals(NamedTuple):
    """What the components before j say of j: raw (N, d, M), all others (N, d)."""

    raw: TensorVariable
    offset: TensorVariable  # ϑ_0
    shift: TensorVariable  # t
    log_scale: TensorVariable  # l
    left: TensorVariable | None = (
        None  # slopes s_L, s_R and curvatures q_L, q_R of the tails, where there are any
    )
    right: TensorVariable | None = None
    left_bend: TensorVariable | None = None
    right_bend: TensorVariable | None = None

    def present(self) -> list[TensorVariable]:
        """The fields that this flow has, in order."""
        return [field for field in self if field is not None]


class BernsteinGroup(TransformGroup):
    """q of θ = B(flow(v)); ``shape`` is its :class:`FlowShape`, ``coordinates`` what B may be.

    ``"start"``: a shift by the start; ``"affine"``: θ = μ + L y; ``"fitted"``: whatever the fit
    finds.
    """

    def __init_group__(self, group: list[TensorVariable]) -> None:
        self.shape: FlowShape = self._kwargs["shape"]
        self.coordinates: str = self._kwargs["coordinates"]
        self.law, self.input_map = self.shape.law, self.shape.map
        super().__init_group__(group)

    def create_shared_params(self, start: Array) -> dict[str, TensorSharedVariable]:
        self.permutation, self.leading = variable_order(self._blocks(), self.shape.ordering)
        rng = np.random.default_rng(self.rng.randint(2**30))
        base = Affine(self.permutation, start[self.permutation])
        self.held: Held[FlowBase] = Held(base)
        self.flow_numbers = BernsteinFlow(self.shape, base, self.leading, rng)
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
        flow.base = self._base()
        return flow

    def _base(self) -> FlowBase:
        if self.coordinates == "fitted":
            return self.held.q
        factor = self.factor.get_value() if self.coordinates == "affine" else None
        return Affine(self.permutation, self.center.get_value(), factor)

    def hold(self, q: Posterior) -> None:
        """Take over a fitted flow; what a search for a base passes through is none."""
        if not isinstance(q, BernsteinFlow):
            return
        for name, param in self.params_dict.items():
            param.set_value(q.values[name].copy())
        self.stretch.set_value(q.stretch.copy())
        self.held.q = q.base
        if isinstance(q.base, Affine):
            self._place(q.base)

    def _place(self, base: Affine) -> None:
        self.center.set_value(base.center)
        if base.factor is not None:
            self.factor.set_value(base.factor)

    def forget(self) -> None:
        self.held.q = Affine(self.permutation, self.start[self.permutation])

    def set_base(self, mean: Array, cov: Array) -> None:
        """Whiten with N(mean (D,), cov (D, D)), both in the model's order."""
        self._place(Affine.of(self.permutation, mean, cov))

    # ---- base and coordinates --------------------------------------------------------------

    def based(self, y: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """θ in the model's order from y in the conditioning order, and log|det ∂θ/∂y| (N,)."""
        if self.coordinates == "fitted":
            theta, log_det = cast("list[TensorVariable]", ForwardOp(self.held)(y))
            return theta, log_det
        if self.coordinates == "start":
            return self._in_model_order(self.center + y), pt.zeros_like(y[:, 0])
        log_det = pt.log(pt.diag(self.factor)).sum()
        return self._in_model_order(self.center + y @ self.factor.T), log_det

    def _in_model_order(self, theta: TensorVariable) -> TensorVariable:
        # whole variables change places: pieces joined anew are several times faster than an index
        breaks = np.flatnonzero(np.diff(self.permutation) != 1) + 1
        runs = np.split(self.permutation, breaks)
        if len(runs) == 1:
            return theta
        pieces = _split(theta, [len(run) for run in runs], axis=1)
        return pt.concatenate([pieces[i] for i in np.argsort([run[0] for run in runs])], axis=1)

    # ---- the flow --------------------------------------------------------------------------

    def logit_input(self, v: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """x = logit of the polynomial's argument and Σ log dx/dv; (N, D) -> (N, D), (N,)."""
        return self.input_map.forward(v, self.params_dict, self.stretch, GRAPHS)

    def flow(self, x: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """y (N, D) and Σ log dy/dx (N,)."""
        pieces = list(self._staged(x))
        y = pt.concatenate([y for _, y, _ in pieces], axis=1) if len(pieces) > 1 else pieces[0][1]
        return y, cast("TensorVariable", sum(log_slope for _, _, log_slope in pieces))

    def _staged(self, x: TensorVariable) -> Iterator[tuple[Conditionals, *Mapped]]:
        """Conditionals, y and Σ log dy/dx of each stage; a later one sees the values of earlier."""
        seen = pt.sigmoid(x) - 0.5 if self.shape.squashed else x
        values: list[
            TensorVariable
        ] = []  # a scale is a simple function of a hyperparameter's value, not of x
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
        heads = network(own, seen, GRAPHS)
        width = network.heads["local"]
        columns = [pt.squeeze(c, axis=2) for c in _split(heads["local"], [1] * width, axis=2)]
        slopes = [pt.softplus(c) for c in columns[1 : 1 + self.shape.slopes]]
        shift = log_scale = pt.zeros_like(columns[0])
        if self.layout.scaled:
            mask = self.layout.skip_mask(network)
            shift = seen @ (own["skip"] * mask)
            log_scale = columns[-1] + seen @ (own["skip_scale"] * mask)
        return Conditionals(heads["raw"], columns[0], shift, log_scale, *slopes)

    def push(self, x: TensorVariable, given: Conditionals) -> Mapped:
        """y (N, d) and Σ log dy/dx (N,)."""
        value, log_slope = bernstein_map(x, given.raw)
        if self.shape.slopes:
            tail, derivative = self.tail(x, given)
            value, log_slope = value + tail, pt.logaddexp(log_slope, pt.log(derivative))
        y = given.shift + pt.exp(given.log_scale) * (given.offset + value)
        return y, (log_slope + given.log_scale).sum(-1)

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        v = self.law.draw(z, self.ddim, GRAPHS)
        x, log_dx = self.logit_input(v)
        y, log_dy = self.flow(x)
        theta, log_det = self.based(y)
        log_q = self.law.log_density(v, GRAPHS).sum(-1) - log_dx - log_dy - log_det
        # with one normal per latent variable this is log|det ∂θ/∂z|; with two (Student-t) only
        # log q has a meaning, and log q is what the base class makes of it
        return theta, standard_normal_logp(z) - log_q

    def tail(self, x: TensorVariable, given: Conditionals) -> Mapped:
        """The increasing function of x beside the polynomial, (N, d), and its derivative."""
        assert given.left is not None and given.right is not None
        right, left = pt.softplus(x), pt.softplus(-x)
        d_right, d_left = pt.sigmoid(x), pt.sigmoid(-x)
        value = given.right * right - given.left * left
        derivative = given.right * d_right + given.left * d_left
        if given.left_bend is not None and given.right_bend is not None:
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


def _fixed_shape(value: Array, name: str) -> TensorSharedVariable:
    value = pm.pytensorf.floatX(value)  # a static shape spares every step its run-time checks
    return cast("TensorSharedVariable", pytensor.shared(value, name, shape=value.shape))


def _split(x: TensorVariable, sizes: list[int], axis: int) -> list[TensorVariable]:
    """Pieces of the given sizes along an axis."""
    if len(sizes) == 1:
        return [x]
    return list(cast("list[TensorVariable]", pt.split(x, sizes, n_splits=len(sizes), axis=axis)))
