"""PyMC's groups of variables: the shape in which a family of q enters ``pm.fit``.

Graphs here hold no model. Serves PyMC 5 and 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op, OutputStorageType
from pytensor.tensor import TensorVariable

import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before it compiles
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.maths.types import Array
from pymc_ext.ops.callback import register_numba
from pymc_ext.variational.core.mixture import Component, PosteriorMixture
from pymc_ext.variational.core.posterior import Posterior, moment
from pymc_ext.variational.plugin.pymc_variational import Group, node_property

if TYPE_CHECKING:
    from pymc_ext.pytensor_versions import TensorSharedVariable


def shared(value: Array, name: str) -> TensorSharedVariable:
    """A shared variable of PyTensor's float type, and of any shape of this number of axes."""
    value = pm.pytensorf.floatX(np.asarray(value, dtype=float))
    return cast("TensorSharedVariable", pytensor.shared(value, name))


class Held:
    """The q that a group has at present; graphs read it when they are run."""

    def __init__(self, q: Posterior) -> None:
        self.q = q


class ForwardOp(Op):
    """θ and log q of the q that ``held`` has; two Ops are equal if they read the same one."""

    __props__ = ("held",)

    def __init__(self, held: Held) -> None:
        self.held = held

    def make_node(self, *inputs: Variable) -> Apply:
        return Apply(self, [pt.as_tensor_variable(inputs[0])], [pt.dmatrix(), pt.dvector()])

    def do_constant_folding(self, fgraph: object, node: Apply) -> bool:
        return False  # the q may be another by the time the graph is run

    def perform(
        self, node: Apply, inputs: Sequence[Array], output_storage: OutputStorageType
    ) -> None:
        for storage, value in zip(output_storage, self.held.q.forward(inputs[0]), strict=True):
            storage[0] = np.asarray(value, dtype=float)


class MomentOp(Op):
    """The :func:`moment` named, of the q that ``held`` has when the graph is run.

    Its input, whatever it is, is not used: backends take no Op without one.
    """

    __props__ = ("held", "name")

    def __init__(self, held: Held, name: str) -> None:
        self.held, self.name = held, name

    def make_node(self, *inputs: Variable) -> Apply:
        out = pt.dmatrix() if self.name == "cov" else pt.dvector()
        return Apply(self, [pt.as_tensor_variable(inputs[0])], [out])

    def do_constant_folding(self, fgraph: object, node: Apply) -> bool:
        return False  # as of ForwardOp

    def perform(
        self, node: Apply, inputs: Sequence[Array], output_storage: OutputStorageType
    ) -> None:
        output_storage[0][0] = moment(self.held.q, self.name)


register_numba(ForwardOp)
register_numba(MomentOp)


class FittedGroup(Group):
    """Whatever q a fit has found: the one view of a family under ``pm.fit``.

    Graphs of it call back to Python and carry no gradient; ``mean``, ``std`` and ``cov`` are q's
    own, where it has them, else those of `MOMENT_DRAWS` draws. PyMC's callbacks see as its
    parameters the ``numbers`` of a q that has them.
    """

    has_logq = True

    def __init_group__(self, group: list[TensorVariable]) -> None:
        super().__init_group__(group)
        self.start = self._start_point()
        self._first = self.unfitted()
        self.held: Held = Held(self._first)
        self.symbolic_initial = pt.matrix(f"{type(self).__name__}_z")  # PyMC 6 makes one with K = D
        self.shared_params = {"numbers": shared(_numbers(self.held.q, self.start), "numbers")}
        self._finalize_init()

    def _start_point(self) -> Array:
        """Flat unconstrained start, shape (D,): PyMC's initial point, or the user's ``start``."""
        start = np.asarray(self._prepare_start(self._kwargs.get("start")), dtype=float)
        if not np.all(np.isfinite(start)):
            bad = [
                name for name, s, *_ in self.ordering.values() if not np.isfinite(start[s]).all()
            ]
            raise ValueError(
                f"start must be finite on the unconstrained space, got {start} for {bad}; give "
                "values strictly inside each variable's support"
            )
        return start

    def _new_initial_shape(
        self, size: TensorVariable, dim: int, more_replacements: object = None
    ) -> TensorVariable:
        return pt.stack([size, pt.as_tensor(self.held.q.latent_dimension)])

    def unfitted(self) -> Posterior:
        """q before a fit, of as many normals as after it: N(start, I)."""
        return _Unfitted(self.start)

    def hold(self, q: Posterior) -> None:
        """Take over a fitted q."""
        self.held.q = q
        self.params_dict["numbers"].set_value(_numbers(q, self.start))

    def forget(self) -> None:
        """Be as before the fit."""
        self.hold(self._first)

    @node_property
    def _draw(self) -> list[TensorVariable]:
        return cast("list[TensorVariable]", ForwardOp(self.held)(self.symbolic_initial))

    @node_property
    def symbolic_random(self) -> TensorVariable:
        return self._draw[0]

    @node_property
    def symbolic_logq_not_scaled(self) -> TensorVariable:
        return self._draw[1]

    def _moment(self, name: str) -> TensorVariable:
        return cast("TensorVariable", MomentOp(self.held, name)(self.params_dict["numbers"]))

    @node_property
    def mean(self) -> TensorVariable:
        return self._moment("mean")

    @node_property
    def std(self) -> TensorVariable:
        return self._moment("std")

    @node_property
    def cov(self) -> TensorVariable:
        return self._moment("cov")


def _numbers(q: Posterior, otherwise: Array) -> Array:
    return pm.pytensorf.floatX(getattr(q, "numbers", otherwise))


class MixtureGroup(FittedGroup):
    """A weighted sum of q's, of one component before a fit, and while one is being fitted."""

    def unfitted(self) -> Posterior:
        return PosteriorMixture(np.zeros(1), (_Unfitted(self.start),))

    def hold(self, q: Posterior) -> None:
        if not isinstance(q, PosteriorMixture):
            q = PosteriorMixture(np.zeros(1), (cast("Component", q),))
        super().hold(q)


class _Unfitted:
    """Before a fit: N(start, I)."""

    def __init__(self, start: Array) -> None:
        self.mean, self.std, self.dimension = start, np.ones(len(start)), len(start)
        self.latent_dimension = self.dimension

    @property
    def cov(self) -> Array:
        return np.eye(self.dimension)

    def forward(self, z: Array) -> tuple[Array, Array]:
        return self.mean + z, standard_normal_logp(z)

    def log_density(self, theta: Array) -> Array:
        return standard_normal_logp(theta - self.mean)


class PointGroup(Group):
    """Variables held at one value, which the fit may move (empirical Bayes)."""

    has_logq = True

    def __init_group__(self, group: list[TensorVariable]) -> None:
        super().__init_group__(group)
        start = self._prepare_start(self._kwargs.get("start"))
        if not np.all(np.isfinite(start)):
            raise ValueError(f"start of the hyperparameters must be finite, got {start}")
        self.shared_params = {"point": shared(start, "point")}
        self._finalize_init()

    @node_property
    def symbolic_random(self) -> TensorVariable:
        return pt.zeros_like(self.symbolic_initial) + self.mean

    @node_property
    def symbolic_logq_not_scaled(self) -> TensorVariable:
        return pt.zeros_like(self.symbolic_initial[:, 0])

    @node_property
    def mean(self) -> TensorVariable:
        return self.params_dict["point"]

    @node_property
    def std(self) -> TensorVariable:
        return pt.zeros_like(self.mean)
