"""PyMC's own NUTS on any density: for who has no nutpie, and some times as slow as that.

A model of one flat variable v has the density as its potential; `pm.NUTS` steps in it. A transition
begins with the gradient at a point whose gradient is known: that is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op, OutputStorageType

from pymc_ext.density import Density, DensityInCoordinates, TransportMap
from pymc_ext.maths.types import Array
from pymc_ext.ops.callback import register_numba
from pymc_ext.sampling.evaluated import Evaluated
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.protocol import Chain
from pymc_ext.sampling.transitions import Transitions

NAMES = {  # ours, ArviZ's, to PyMC's
    "acceptance_rate": "mean_tree_accept",
    "step_size": "step_size",
    "tree_depth": "depth",
    "n_steps": "tree_size",
    "diverging": "diverging",
    "energy": "energy",
}


@dataclass(frozen=True)
class PyMCNUTS:
    """`pm.NUTS`, whose warm-up adapts step size and a diagonal metric.

    Parameters
    ----------
    tune_in_map
        Warm-up of a chain in an approximation's coordinates, where there is little to adapt: the
        step size alone, as the first window of the metric is longer.
    tune
        Warm-up of a chain in θ; ``pm.sample``'s own default.
    """

    tune_in_map: int = 100
    tune: int = 1000
    name = "pymc"

    def chain(
        self,
        density: Density,
        start: Array,
        *,
        transport: TransportMap | None,
        scale: Array | None,
        seed: int,
        options: Sampling,
    ) -> PyMCChain:
        """See `pymc_ext.sampling.protocol.Sampler`; the metric begins as I, whatever ``scale``."""
        seen: Density = density if transport is None else DensityInCoordinates(density, transport)
        tune = self.tune if transport is None else self.tune_in_map
        return PyMCChain(seen, start, tune, seed, options)

    def share(self, chains: Sequence[Chain]) -> None:
        """Nothing: each chain has adapted long enough."""


class PyMCChain:
    """One chain; see `pymc_ext.sampling.protocol.Chain`."""

    def __init__(
        self, density: Density, start: Array, tune: int, seed: int, options: Sampling
    ) -> None:
        self._tune, self._stopped = tune, False
        self._log_density = LogDensityOp(density)
        self._point = {"v": np.array(start, dtype=float)}
        D, rng = len(start), np.random.default_rng(seed)
        with pm.Model(model=None) as model:  # no part of that of a `with model:`
            v = pm.Flat("v", shape=D)
            log_p, _ = self._log_density.make_node(v).outputs
            pm.Potential("log_p", log_p)
        self._step = pm.NUTS(
            [v], model=model, target_accept=options.target_accept, max_treedepth=options.max_depth,
            rng=rng, initial_point=self._point,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )  # fmt: skip

    @property
    def gradients(self) -> int:
        """Of log p̃ so far."""
        return self._log_density.evaluated.calls

    @property
    def infinite(self) -> int:
        """Points tried so far where log p̃ is +∞."""
        return self._log_density.evaluated.infinite

    def warm_up(self) -> Transitions:
        """PyMC's tuning."""
        made = self._transitions(self._tune)
        self._step.stop_tuning()
        return made

    def draw(self, iterations: int) -> Transitions:
        """The next states."""
        return self._transitions(iterations)

    def _transitions(self, count: int) -> Transitions:
        points, rows = list[Array](), list[dict[str, object]]()
        while len(points) < count and not self._stopped:
            self._log_density.keep_only(self._point["v"])
            with np.errstate(all="ignore"):  # energies may overflow, and are rejected
                self._point, (row, *_) = self._step.step(self._point)
            points.append(self._point["v"])
            rows.append(row)
        statistics: dict[str, NDArray] = {
            ours: np.array([row[own] for row in rows]) for ours, own in NAMES.items()
        }
        for name, kind in (("n_steps", int), ("tree_depth", int), ("diverging", bool)):
            statistics[name] = statistics[name].astype(kind)  # of no rows too
        return Transitions(np.array(points).reshape(-1, len(self._point["v"])), statistics)

    def stop(self) -> None:
        """Let :meth:`draw` end with what there is."""
        self._stopped = True

    def close(self) -> None:
        """Nothing is held."""


class LogDensityOp(Op):
    """log p̃ at one point and its score, (D,) -> (), (D,); where it is not finite, −∞ and zeros."""

    def __init__(self, density: Density) -> None:
        self.evaluated = Evaluated(density)
        self._known = dict[bytes, tuple[Array, Array]]()

    def make_node(self, *inputs: Variable) -> Apply:
        (v,) = (pt.as_tensor_variable(x) for x in inputs)
        return Apply(self, [v], [pt.dscalar(), v.type()])

    def perform(
        self, node: Apply, inputs: Sequence[Array], output_storage: OutputStorageType
    ) -> None:
        key = inputs[0].tobytes()
        if key not in self._known:
            self._known[key] = self._computed(np.asarray(inputs[0], dtype=float))
        for cell, out, value in zip(output_storage, node.outputs, self._known[key], strict=True):
            cell[0] = value.astype(out.type.dtype)  # a copy: the sampler may write into its arrays

    def _computed(self, v: Array) -> tuple[Array, Array]:
        lp, score = self.evaluated(v) or (-np.inf, np.zeros(len(v)))
        return np.array(lp), score

    def keep_only(self, v: Array) -> None:
        """Forget the other points of the last trajectory."""
        key = v.tobytes()
        self._known = {key: self._known[key]} if key in self._known else {}

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        """Of log p̃ alone, which is all that a sampler asks for."""
        return [pt.mul(cotangents[0], outputs[1])]

    def L_op(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        output_grads: Sequence[Variable],
    ) -> list[Variable]:
        """PyTensor 2's name of the same."""
        return self.pullback(inputs, outputs, output_grads)


register_numba(LogDensityOp)
