"""The triangular Bernstein flow as a graph, for what needs a gradient through q: the loop of JAX.

All else uses the flow in numbers (:mod:`.flow`), which a test holds against this one.

Notation of Dürr et al. (2024): latent v, x = αs(v) + β, u = σ(x), where s, the identity unless a
polish has stretched the tails of q, is not the paper's; component j of y is a Bernstein
polynomial of u_j whose coefficients a masked network makes from the components before j. With
linear tails, −s_L softplus(−x) + s_R softplus(x) is added; with quadratic ones, which make a normal
v's tails exponential, −q_L softplus(−x)²/2 + q_R softplus(x)²/2 as well. Conditioning on more than
u makes this t_j + e^{l_j}(ϑ_0 + ...) with t and l linear in what is seen, so that what the network
makes is relative to the scale: in a funnel's neck its errors shrink with it. θ = μ + L y.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from pytensor.tensor import TensorVariable

from pymc_ext.maths.namespace import Namespace
from pymc_ext.maths.types import Array
from pymc_ext.ops.bernstein import bernstein_map
from pymc_ext.typed_graphs import gradients
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow

if TYPE_CHECKING:
    from pymc_ext.pytensor_versions import TensorSharedVariable

GRAPHS = cast("Namespace", pt)  # the functions of graphs
Mapped = tuple[TensorVariable, TensorVariable]  # values, and (logs of) derivatives


class Conditionals(NamedTuple):
    """What the components before j say of j: raw (N, d, M), all others (N, d)."""

    raw: TensorVariable
    local: TensorVariable  # of which offset, slopes, and a part of log_scale are made (N, d, w)
    offset: TensorVariable  # ϑ_0
    shift: TensorVariable  # t
    log_scale: TensorVariable  # l
    slopes: tuple[TensorVariable, ...]  # parameters of the tails


class Piece(NamedTuple):
    """What one network makes, d of the components."""

    inputs: TensorVariable  # that it sees, the values of components of earlier ones first (N, I)
    x: TensorVariable  # (N, d)
    given: Conditionals
    y: TensorVariable  # (N, d)
    log_slope: TensorVariable  # Σ log dy/dx (N,)


class Draws(NamedTuple):
    """Draws of q as graphs."""

    v: TensorVariable  # latent (N, D)
    y: TensorVariable  # in the base's coordinates (N, D)
    theta: TensorVariable  # in the model's order (N, D)
    log_q: TensorVariable  # (N,)


class FlowGraph:
    """A flow on an affine base in shared variables, ``params`` by name, which begin at its numbers.

    Its base and its stretched tails are no parameters.
    """

    def __init__(self, flow: BernsteinFlow) -> None:
        assert isinstance(flow.base, Affine), "there is no graph of a fitted map"
        self.dimension, self.shape, self.layout = flow.dimension, flow.shape, flow.layout
        self.law, self.input_map, self.order = flow.law, flow.input_map, flow.base.order
        self.params = {name: _shared(value, name) for name, value in flow.values.items()}
        self.stretch = _shared(flow.stretch, "stretch")
        factor = flow.base.factor
        self.center = _shared(flow.base.center, "center")
        self.factor = None if factor is None else _shared(factor, "factor")

    def forward(self, z: TensorVariable) -> Draws:
        """Draws of q from standard normals (N, K)."""
        v = self.law.draw(z, self.dimension, GRAPHS)
        x, log_dx = self.logit_input(v)
        y, log_dy = self.flow(x)
        theta, log_det = self.based(y)
        log_q = self.law.log_density(v, GRAPHS).sum(-1) - log_dx - log_dy - log_det
        return Draws(v, y, theta, log_q)

    def score(self, draws: Draws) -> TensorVariable:
        """Score in y of log q(y) at ``draws``, (N, D), through which no gradient goes.

        It solves (∂y/∂x)ᵀ h = ∂ log q/∂x, as :meth:`.triangular.Triangular.score` does: of a
        network the block of that triangular matrix, and what later ones take from its values.
        """
        x, _ = self.logit_input(draws.v)
        (by_v,) = gradients(draws.log_q.sum(), [draws.v])
        r = by_v / gradients(x.sum(), [draws.v])[0]
        (by_sight,) = gradients(self.shape.sight.seen(x, GRAPHS).sum(), [x])
        parts = list[TensorVariable]()
        of_values = pt.zeros_like(x)  # what later networks' h say of the values of earlier ones
        for k, piece in reversed(list(enumerate(self._by_network(x)))):
            network = self.layout.networks[k]
            first, own = network.first, slice(network.first, network.inputs)
            by_x, by_inputs = self._of_each(k, piece)
            block = by_inputs[:, :, first:] * by_sight[:, None, own]
            block = block + pt.eye(network.outputs) * by_x[:, None, :]
            solved = pt.linalg.solve_triangular(block.swapaxes(1, 2), r[:, own, None], lower=False)[
                ..., 0
            ]
            parts.insert(0, solved - of_values[:, own])
            if first:
                told = (solved[:, :, None] * by_inputs[:, :, :first]).sum(axis=1)
                of_values = pt.inc_subtensor(of_values[:, :first], told)
        return disconnected_grad(pt.concatenate(parts, axis=1) if len(parts) > 1 else parts[0])

    def _of_each(self, k: int, piece: Piece) -> tuple[TensorVariable, TensorVariable]:
        """Derivatives of each component in its own x, and in all that its network sees, (N, d),
        (N, d, I)."""
        network, given = self.layout.networks[k], piece.given
        own = self.layout.own(k, self.params)
        wrt = [piece.x, given.raw, given.local, given.shift, given.log_scale]
        by_x, raw, local, shift, log_scale = gradients(piece.y.sum(), wrt)
        told = {"raw": raw, "local": local}
        by_inputs = network.pullback_of_each(own, piece.inputs, told, GRAPHS)
        if self.layout.scaled:
            mask = self.layout.skip_mask(network)
            by_inputs = by_inputs + shift[:, :, None] * (own["skip"] * mask).T
            by_inputs = by_inputs + log_scale[:, :, None] * (own["skip_scale"] * mask).T
        return by_x, by_inputs

    def based(self, y: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """θ in the model's order from y in the conditioning order, and log|det ∂θ/∂y| (N,)."""
        if self.factor is None:
            return self._in_model_order(self.center + y), pt.zeros_like(y[:, 0])
        log_det = pt.log(pt.diag(self.factor)).sum()
        return self._in_model_order(self.center + y @ self.factor.T), log_det

    def _in_model_order(self, theta: TensorVariable) -> TensorVariable:
        # whole variables change places: pieces joined anew are several times faster than an index
        breaks = np.flatnonzero(np.diff(self.order) != 1) + 1
        runs = np.split(self.order, breaks)
        if len(runs) == 1:
            return theta
        pieces = _split(theta, [len(run) for run in runs], axis=1)
        return pt.concatenate([pieces[i] for i in np.argsort([run[0] for run in runs])], axis=1)

    def logit_input(self, v: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """x = logit of the polynomial's argument and Σ log dx/dv; (N, D) -> (N, D), (N,)."""
        return self.input_map.forward(v, self.params, self.stretch, GRAPHS)

    def flow(self, x: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """y (N, D) and Σ log dy/dx (N,)."""
        pieces = list(self._by_network(x))
        y = pt.concatenate([p.y for p in pieces], axis=1) if len(pieces) > 1 else pieces[0].y
        return y, cast("TensorVariable", sum(piece.log_slope for piece in pieces))

    def _by_network(self, x: TensorVariable) -> Iterator[Piece]:
        """What each network makes; later ones see the values of earlier."""
        seen = self.shape.sight.seen(x, GRAPHS)
        values: list[
            TensorVariable
        ] = []  # a scale is a simple function of a hyperparameter's value, not of x
        for k, network in enumerate(self.layout.networks):
            rest = seen[:, network.first : network.inputs]
            inputs = pt.concatenate([*values, rest], axis=1) if values else rest
            given, own = self._conditionals(k, inputs), x[:, network.first : network.inputs]
            y, log_slope = self.push(own, given)
            values.append(y)
            yield Piece(inputs, own, given, y, log_slope)

    def _conditionals(self, k: int, seen: TensorVariable) -> Conditionals:
        network = self.layout.networks[k]
        own = self.layout.own(k, self.params)
        heads = network(own, seen, GRAPHS)
        width = network.heads["local"]
        columns = [pt.squeeze(c, axis=2) for c in _split(heads["local"], [1] * width, axis=2)]
        slopes = tuple(pt.softplus(c) for c in columns[1 : 1 + self.shape.slopes])
        shift = log_scale = pt.zeros_like(columns[0])
        if self.layout.scaled:
            mask = self.layout.skip_mask(network)
            shift = seen @ (own["skip"] * mask)
            log_scale = columns[-1] + seen @ (own["skip_scale"] * mask)
        return Conditionals(heads["raw"], heads["local"], columns[0], shift, log_scale, slopes)

    def push(self, x: TensorVariable, given: Conditionals) -> Mapped:
        """y (N, d) and Σ log dy/dx (N,)."""
        value, log_slope = bernstein_map(x, given.raw)
        if given.slopes:
            tail, derivative = self.shape.tail.value(x, given.slopes, GRAPHS)
            value, log_slope = value + tail, pt.logaddexp(log_slope, pt.log(derivative))
        y = given.shift + pt.exp(given.log_scale) * (given.offset + value)
        return y, (log_slope + given.log_scale).sum(-1)


def _shared(value: Array, name: str) -> TensorSharedVariable:
    value = pm.pytensorf.floatX(value)  # a static shape spares every step its run-time checks
    return cast("TensorSharedVariable", pytensor.shared(value, name, shape=value.shape))


def _split(x: TensorVariable, sizes: list[int], axis: int) -> list[TensorVariable]:
    """Pieces of the given sizes along an axis."""
    if len(sizes) == 1:
        return [x]
    return list(cast("list[TensorVariable]", pt.split(x, sizes, n_splits=len(sizes), axis=axis)))
