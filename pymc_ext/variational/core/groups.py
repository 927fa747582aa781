"""PyMC's groups of variables: the shape in which a family of q enters ``pm.fit``.

Notation: ``theta`` (N, D) is the flat unconstrained parameter in PyMC's own order, ``z`` (N, K) the
latent normals. Graphs here hold no model. Serves PyMC 5 and 6.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.pytensorf import compile as compile_graph
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor import TensorVariable

import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before it compiles
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.ops.callback import register_numba
from pymc_ext.variational.core.posterior import Posterior, moment
from pymc_ext.variational.core.pymc_variational import Group, node_property

if TYPE_CHECKING:
    from pymc_ext.pytensor_versions import TensorSharedVariable

Array = NDArray[np.floating]
CHUNK = 1024  # draws evaluated together: bounds memory at CHUNK times one log density


def shared(value: Array, name: str) -> TensorSharedVariable:
    """A shared variable of PyTensor's float type, and of any shape of this number of axes."""
    value = pm.pytensorf.floatX(np.asarray(value, dtype=float))
    return cast("TensorSharedVariable", pytensor.shared(value, name))


class TransformGroup(Group):
    """A family q of laws of θ = T(z) with z ~ N(0, I_K).

    A subclass gives :meth:`create_shared_params` and :meth:`transform`, and where it can
    :meth:`log_density`, ``mean``, ``std`` and ``cov``.
    """

    has_logq = True

    def __init_group__(self, group: list[TensorVariable]) -> None:
        super().__init_group__(group)
        # PyMC 5 makes this before the dimension is known, PyMC 6 with K = D: ours serves both
        self.symbolic_initial = pt.matrix(f"{type(self).__name__}_z", shape=(None, self.latent_dim))
        self.start = self._start_point()
        self.shared_params = self.create_shared_params(self.start)
        self._finalize_init()

    @property
    def latent_dim(self) -> int:
        """K, the number of normals behind one draw."""
        return self.ddim

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

    def _new_initial_shape(self, size: Any, dim: Any, more_replacements: Any = None) -> Any:
        return pt.stack([size, pt.as_tensor(self.latent_dim)])

    @abstractmethod
    def create_shared_params(self, start: Array) -> dict[str, TensorSharedVariable]:
        """Shared variables of the family, initialised at ``start`` (D,)."""

    def hold(self, q: Posterior) -> None:
        """Take over a fitted q, in numbers."""
        raise TypeError(f"{type(self).__name__} cannot hold {type(q).__name__}")

    def forget(self) -> None:
        """Be as before the fit, in what is not a shared variable."""

    @abstractmethod
    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        """θ = T(z), (N, K) -> (N, D), and log|det ∂T/∂z|, (N,)."""

    @node_property
    def _draw(self) -> tuple[TensorVariable, TensorVariable]:
        return self.transform(self.symbolic_initial)

    @node_property
    def symbolic_random(self) -> TensorVariable:
        return self._draw[0]

    @node_property
    def symbolic_logq_not_scaled(self) -> TensorVariable:
        return standard_normal_logp(self.symbolic_initial) - self._draw[1]

    def posterior(self) -> Posterior:
        """q at the present parameters, in numbers; a family may have a way without compiling."""
        return CompiledPosterior(self)

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        """Normalised log q at any θ, (N, D) -> (N,); not every family has it."""
        raise TypeError(
            f"{type(self).__name__} has no log q at arbitrary points, only at its own draws: use "
            "draws_with_logs"
        )


class CompiledPosterior:
    """q of a group as it is, by compiled graphs of its draws and of log q."""

    def __init__(self, group: TransformGroup) -> None:
        self._group = group
        self.dimension, self.latent_dimension = int(group.ddim), int(group.latent_dim)

    @cached_property
    def _forward(self) -> Callable[[Array], list[Array]]:
        group = self._group
        return compile_graph(
            [group.symbolic_initial], [group.symbolic_random, group.symbolic_logq_not_scaled]
        )

    @cached_property
    def _log_density(self) -> Callable[[Array], list[Array]]:
        theta = pt.matrix("theta", shape=(None, self.dimension))
        return compile_graph([theta], [self._group.log_density(theta)])

    def forward(self, z: Array) -> tuple[Array, Array]:
        """θ and log q, (N, K) -> (N, D), (N,)."""
        theta, log_q = in_chunks(self._forward, z)
        return theta, log_q

    def log_density(self, theta: Array) -> Array:
        """Normalised log q, (N, D) -> (N,)."""
        return in_chunks(self._log_density, theta)[0]


def in_chunks(function: Callable[[Array], list[Array]], rows: Array) -> list[Array]:
    """Outputs of ``function`` over all rows, CHUNK of them at a time."""
    parts = [function(rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK)]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


Map = TypeVar("Map", bound="HasForward")


class HasForward(Protocol):
    """What :class:`ForwardOp` calls back to: a q, or a map that is part of one."""

    def forward(self, z: Array) -> tuple[Array, Array]:
        """Rows and a number for each, (N, K) -> (N, D), (N,)."""


class Held(Generic[Map]):
    """What a group has at present that is no graph; graphs read it when they are run."""

    def __init__(self, q: Map) -> None:
        self.q = q


class ForwardOp(Op):
    """What the :meth:`forward` of that which ``held`` has returns, θ and log q of a q; two Ops are
    equal if they read the same one."""

    __props__ = ("held",)

    def __init__(self, held: Held[Any]) -> None:
        self.held = held

    def make_node(self, *inputs: Variable) -> Apply:
        return Apply(self, [pt.as_tensor_variable(inputs[0])], [pt.dmatrix(), pt.dvector()])

    def do_constant_folding(self, fgraph: object, node: Apply) -> bool:
        return False  # the q may be another by the time the graph is run

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        for storage, value in zip(output_storage, self.held.q.forward(inputs[0]), strict=True):
            storage[0] = np.asarray(value, dtype=float)


class MomentOp(Op):
    """The :func:`moment` named, of the q that ``held`` has when the graph is run.

    Its input, whatever it is, is not used: backends take no Op without one.
    """

    __props__ = ("held", "name")

    def __init__(self, held: Held[Posterior], name: str) -> None:
        self.held, self.name = held, name

    def make_node(self, *inputs: Variable) -> Apply:
        out = pt.dmatrix() if self.name == "cov" else pt.dvector()
        return Apply(self, [pt.as_tensor_variable(inputs[0])], [out])

    def do_constant_folding(self, fgraph: object, node: Apply) -> bool:
        return False  # as of ForwardOp

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        output_storage[0][0] = moment(self.held.q, self.name)


register_numba(ForwardOp)
register_numba(MomentOp)


class FittedGroup(TransformGroup):
    """A fitted q that has :meth:`forward`: what a family of your own needs under ``pm.fit``.

    Graphs of it call back to Python and carry no gradient; ``mean``, ``std`` and ``cov`` are q's
    own, where it has them, else those of `MOMENT_DRAWS` draws.
    """

    def create_shared_params(self, start: Array) -> dict[str, TensorSharedVariable]:
        self.held: Held[Posterior] = Held(_Unfitted(start))
        return {"start": shared(start, "start")}

    @property
    def latent_dim(self) -> int:
        """K, as q says."""
        held = getattr(self, "held", None)
        return self.ddim if held is None else int(held.q.latent_dimension)

    def hold(self, q: Posterior) -> None:
        """Take over a fitted q."""
        self.held.q = q

    def forget(self) -> None:
        self.held.q = _Unfitted(self.start)

    def posterior(self) -> Posterior:
        return self.held.q

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        theta, log_q = cast("list[TensorVariable]", ForwardOp(self.held)(z))
        return theta, standard_normal_logp(z) - log_q

    def _moment(self, name: str) -> TensorVariable:
        return cast("TensorVariable", MomentOp(self.held, name)(self.params_dict["start"]))

    @node_property
    def mean(self) -> TensorVariable:
        return self._moment("mean")

    @node_property
    def std(self) -> TensorVariable:
        return self._moment("std")

    @node_property
    def cov(self) -> TensorVariable:
        return self._moment("cov")


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
