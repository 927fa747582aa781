"""The target of a PyMC model: compiled once, vectorised over draws."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable

from bridge.targets.target import Draws, as_points, select
from pymc_ext.density.model import PyMCDensity
from pymc_ext.density.rows import rows_per_call
from pymc_ext.density.undefined import refuse_missing_data
from pymc_ext.maths.types import Array
from pymc_ext.models.context import context
from pymc_ext.models.discrete import (
    chains_of_known_length,
    refuse_discrete,
    refuse_inexact_sums,
)
from pymc_ext.models.improper import refuse_periodic, refuse_unobserved_flat
from pymc_ext.models.minibatch import refuse_batches
from pymc_ext.models.no_coordinates import refuse_simulators, refuse_wishart
from pymc_ext.models.observed_twice import mend_observed
from pymc_ext.models.unconstrain import flat_unconstrained, unconstrain_function
from pymc_ext.over_draws import over_draws
from pymc_ext.pytensor_modes import run_or_compile

if TYPE_CHECKING:
    from pytensor.compile import Function
    from pytensor.graph.basic import Variable
    from pytensor.graph.op import Op
    from pytensor.tensor import TensorVariable

__all__ = ["PyMCTarget", "model_start", "pymc_target", "require_samplable"]


def pymc_target(
    model: pm.Model | None, name: str | None = None, leave_out: Collection[str] = ()
) -> PyMCTarget:
    """Compile a PyMC model into a target that is vectorised over draws.

    The coordinates of ``theta`` are the raveled entries of ``model.value_vars``, in that order.
    That is the order of ``DictToArrayBijection`` applied to ``model.initial_point()`` and of the
    flat vector of ``pm.fit``'s mean-field and full-rank approximations: ``approx.mean.eval()`` and
    ``approx.cov.eval()`` need no permutation. Constants are PyMC's own: its normal densities err by
    1.9e-9 each, the same at every point.

    Parameters
    ----------
    model : pymc.Model
        Any model whose free variables are continuous; None for that of the ``with`` context. Data
        containers (``pm.Data``) stay live: ``pm.set_data`` changes the target.
    name : str, optional
        Name for tables; the model's own name, or ``"pymc"``, by default.
    leave_out : collection of str, optional
        Deterministics that ``constrain`` does not compute, such as one value a row of data.

    Raises
    ------
    ValueError
        If a free variable is discrete or on a circle (``pm.VonMises``), if there is none, or if
        the log density is itself random (``pm.Minibatch``).
    TypeError
        There is no model, or it is something else.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     tau = pm.HalfNormal("tau")
    >>> target = pymc_target(model)
    >>> target.log_density(np.zeros((1, 1)))  # tau = 1: log(2 phi(1)) + log|d tau / d theta|
    array([-0.72579135])
    """
    model = context(model)
    return PyMCTarget(model, name or model.name or "pymc", leave_out)


def model_start(model: pm.Model) -> Array:
    """The model's initial point as a flat unconstrained vector, (D,)."""
    point = model.initial_point()
    return np.concatenate([np.ravel(point[v.name]) for v in model.value_vars]).astype(float)


class PyMCTarget:
    """`Target` of a PyMC model; made by `pymc_target`."""

    def __init__(self, model: pm.Model, name: str, leave_out: Collection[str] = ()):
        _check_continuous(model)
        refuse_periodic(model)
        refuse_simulators(model)
        refuse_wishart(model)
        refuse_batches(model)
        self.name = name
        self.model = model
        self.leave_out = frozenset(leave_out)
        self.parameter_names = tuple(rv.name for rv in model.free_RVs)
        self.density = PyMCDensity(model)
        self.dimension = self.density.dimension
        _check_deterministic(self.density.logp)
        self._theta = pt.matrix("theta", shape=(None, self.dimension), dtype="float64")
        self._compiled: dict[str, Function] = {}

    def log_density(self, theta: Array) -> Array:
        """Log p̃ at unconstrained points, (N, D) -> (N,); -inf and NaN are returned as they are."""
        return self.density.log_density(as_points(theta, self.dimension))

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """Log p̃ and its gradient at unconstrained points, (N, D) -> (N,), (N, D)."""
        return self.density.log_density_gradient(as_points(theta, self.dimension))

    def constrain(self, theta: Array) -> dict[str, NDArray]:
        """Free variables and deterministics by name, (N, D) -> (N, *shape) each."""
        names = [v.name for v in self._outputs()]
        values = self._call(self._function("constrain", self._make_constrain), theta)
        return dict(zip(names, values, strict=True))

    def unconstrain(self, draws: Draws) -> Array:
        """Unconstrained points of named draws of the free variables, (N, *shape) each -> (N, D).

        Raises
        ------
        ValueError
            If a free variable is missing, has another shape, or lies outside its support.
        """
        given = select(draws, self.parameter_names)
        shapes = {rv.name: s for rv, s in zip(self.model.free_RVs, self._rv_shapes(), strict=True)}
        _check_shapes(given, shapes)
        parts = self._function("unconstrain", partial(unconstrain_function, self.model))(
            *given.values()
        )
        return flat_unconstrained(self.parameter_names, parts)

    def _function(self, key: str, make: Callable[[], Function]) -> Function:
        if key not in self._compiled:
            self._compiled[key] = make()
        return self._compiled[key]

    def _make_constrain(self) -> Function:
        outputs = self.model.replace_rvs_by_values(self._outputs())
        by_name = {v.name: v for v in self.model.value_vars}
        values = {
            by_name[name]: _block(self._theta, where, shape, by_name[name])
            for name, where, shape, _ in self.density.layout
        }
        batched = over_draws(outputs, values, self._theta.shape[0])
        compiled = partial(pytensor.function, [self._theta], batched, on_unused_input="ignore")
        return run_or_compile(compiled)

    def _outputs(self) -> list:
        derived = [v for v in self.model.deterministics if v.name not in self.leave_out]
        return [*self.model.free_RVs, *derived]

    def _rv_shapes(self) -> list[tuple[int, ...]]:
        point = self.constrain(np.zeros((1, self.dimension)))
        return [point[name].shape[1:] for name in self.parameter_names]

    def _call(self, function: Function, theta: Array) -> list[Array]:
        theta, size = as_points(theta, self.dimension), rows_per_call(function)
        starts = range(0, max(len(theta), 1), size)
        blocks = [function(theta[i : i + size]) for i in starts]
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _check_continuous(model: pm.Model) -> None:
    if not model.free_RVs:
        raise ValueError("the model has no free variable: expected at least one parameter")
    refuse_discrete(model)


def require_samplable(model: pm.Model) -> None:
    """Raise ValueError for a model that not even its own sampler serves.

    It has no free variable, or a flat one that no data inform, its data hold NaN or are compared
    with a simulator's, its log density is random (``pm.Minibatch``), a Markov chain was summed out
    whose length is symbolic, or a variable was summed out wrongly within another.
    """
    if not model.free_RVs:
        raise ValueError("the model has no free variable, so that there is nothing to fit")
    refuse_inexact_sums(model)
    refuse_simulators(model)
    mend_observed(model)
    refuse_unobserved_flat(model)
    refuse_missing_data(model)
    refuse_batches(model)
    with chains_of_known_length():
        _check_deterministic(model.logp())


def _check_deterministic(logp: Variable) -> None:
    random = sorted({str(op) for op in _ops(logp) if isinstance(op, RandomVariable)})
    if random:
        raise ValueError(
            f"the model's log density is random, as it contains {random}: write it without random "
            "draws, for nothing can be judged by it"
        )


def _ops(*outputs: Variable) -> set[Op]:
    """Every op of a graph, those inside its sub-graphs included."""
    ops = {v.owner.op for v in ancestors(outputs) if v.owner}
    inner = [op.inner_outputs for op in ops if hasattr(op, "inner_outputs")]
    return ops.union(*(_ops(*outputs) for outputs in inner))


def _block(
    theta: TensorVariable, columns: slice, shape: tuple[int, ...], value: TensorVariable
) -> TensorVariable:
    """The value variable's entries of every draw, shape (N, *shape)."""
    block = theta[:, columns].reshape((theta.shape[0], *shape)).astype(value.dtype)
    return pt.specify_shape(block, (None, *shape))


def _check_shapes(draws: Draws, shapes: Mapping[str, tuple[int, ...]]) -> None:
    rows = {value.shape[:1] for value in draws.values()}
    if len(rows) > 1 or () in rows:
        raise ValueError(f"draws must share one first axis, got lengths {sorted(rows)}")
    for name, shape in shapes.items():
        if draws[name].shape[1:] != shape:
            expected = ("N", *shape)
            raise ValueError(f"draws of {name} must have shape {expected}, got {draws[name].shape}")
