"""PyMC models in calibration: forward simulation, and observed values that are inputs."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from functools import cached_property
from typing import cast

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
from numpy.typing import NDArray
from pymc.distributions.transforms import Ordered
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from bridge.calibration.study import Prior, Simulated, Simulator, Values, required
from bridge.methods.problems import GivenProblem, ModelProblem
from pymc_ext.density.layout import pieces
from pymc_ext.density.model import PyMCDensity
from pymc_ext.maths.types import Array
from pymc_ext.models.improper import FLAT
from pymc_ext.models.observed_twice import mend_observed
from pymc_ext.typed_graphs import replaced

__all__ = ["PyMCStudy"]


class PyMCStudy:
    """A PyMC model whose observed variables take other values.

    Parameters
    ----------
    model
        The model; it is copied, as another process would get it.

    Raises
    ------
    ValueError
        Its data cannot be simulated, or a variable is discrete.
    """

    def __init__(self, model: pm.Model) -> None:
        mend_observed(model)
        _check_data(model)
        self.fingerprint = _fingerprint(model)
        self.name = model.name or "model"
        self._made_of = cloudpickle.dumps(model)
        self.model: pm.Model = pickle.loads(self._made_of)
        self._inputs = [_as_input(self.model, rv) for rv in self.model.observed_RVs]

    @cached_property
    def _problem(self) -> ModelProblem:
        return ModelProblem(self.model)

    @cached_property
    def _likelihood(self) -> _Likelihood:
        return _Likelihood(self.model)

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        for compiled in ("_problem", "_likelihood"):
            state.pop(compiled, None)  # compiled again on demand
        return state

    def simulate(
        self, count: int, prior: Prior | None, simulator: Simulator | None, seed: int
    ) -> list[Simulated]:
        names = [rv.name for rv in self.model.free_RVs]
        if prior is not None:
            rng = np.random.default_rng([seed, 0])
            drawn = [required(prior(rng), names, "prior") for _ in range(count)]
            return self.simulate_again(drawn, simulator, seed)
        _check_prior(self.model)
        observed = [] if simulator is not None else self.model.observed_RVs
        values = _drawn([*self.model.free_RVs, *observed], count, seed)
        rows = [dict(zip([*names, *(rv.name for rv in observed)], row, strict=True))
                for row in zip(*values, strict=True)]  # fmt: skip
        parameters = [{name: row[name] for name in names} for row in rows]
        if simulator is not None:
            return self.simulate_again(parameters, simulator, seed)
        return [
            Simulated(p, {rv.name: row[rv.name] for rv in observed})
            for p, row in zip(parameters, rows, strict=True)
        ]

    def simulate_again(
        self, parameters: Sequence[Values], simulator: Simulator | None, seed: int
    ) -> list[Simulated]:
        if simulator is not None:
            rng = np.random.default_rng([seed, 1])
            return [Simulated(p, self._data(simulator(p, rng), "simulator")) for p in parameters]
        free, observed = self.model.free_RVs, self.model.observed_RVs
        try:
            forward = pm.compile(free, observed, random_seed=seed, on_unused_input="ignore")
        except NotImplementedError:
            raise _cannot_draw(observed) from None
        made = []
        for p in parameters:
            values = forward(*(np.asarray(p[rv.name], dtype=rv.type.dtype) for rv in free))
            named = {rv.name: value for rv, value in zip(observed, values, strict=True)}
            made.append(Simulated(p, named))
        return made

    def conditioned(self, data: Values) -> PyMCStudy:
        """With log p(y|θ) of ``data`` as a potential beside that of the data it takes."""
        study = PyMCStudy.__new__(PyMCStudy)
        study.__init__(pickle.loads(self._made_of))  # type: ignore[misc]
        data = self._data(data, "data")
        with study.model:
            for rv in list(study.model.observed_RVs):
                value = np.asarray(data[rv.name], dtype=rv.type.dtype)
                pm.Potential(f"{rv.name}_given", pm.logp(rv, value).sum())
        numbers = b"".join(_bytes(data[name]) for name in sorted(data))
        study.fingerprint = hashlib.sha256(study.fingerprint.encode() + numbers).hexdigest()[:16]
        return study

    def problem(self, data: Values) -> ModelProblem:
        data = self._data(data, "data")
        for rv, shared in zip(self.model.observed_RVs, self._inputs, strict=True):
            shared.set_value(np.asarray(data[rv.name], dtype=shared.type.dtype))
        return self._problem

    def log_likelihood(self, problem: GivenProblem, theta: Array, seed: int) -> Array:
        return self._likelihood.values(theta)

    def _data(self, values: object, of: str) -> Values:
        """Values of all observed variables, of their shapes."""
        found = required(values, [rv.name for rv in self.model.observed_RVs], of)
        for rv, shared in zip(self.model.observed_RVs, self._inputs, strict=True):
            shape = shared.get_value(borrow=True).shape
            if found[rv.name].shape != shape:
                raise ValueError(
                    f"{of} must give {rv.name} the shape that it has in the model, {shape}, got "
                    f"{found[rv.name].shape}"
                )
        return found


class _Likelihood(PyMCDensity):
    """log p(y|θ), potentials included, in place of log p̃."""

    @cached_property
    def logp(self) -> TensorVariable:
        (graph,) = replaced([self.model.datalogp], pieces(self.model, self.layout, self.theta))
        return graph

    def values(self, theta: Array) -> Array:
        """Without a gradient, (N, D) -> (N,)."""
        return self._value(self._points(theta))[0]


def _as_input(model: pm.Model, rv: TensorVariable) -> SharedVariable:
    """Make the observed values of a variable one that can be set."""
    old = model.rvs_to_values[rv]
    new = pytensor.shared(old.eval(), name=f"{rv.name}_observed", shape=old.type.shape)
    del model.values_to_rvs[old]
    model.rvs_to_values[rv], model.values_to_rvs[new] = new, rv
    return new


def _check_data(model: pm.Model) -> None:
    """Raise ValueError where forward simulation does not give the data of a model."""
    if model.potentials:
        raise ValueError(
            f"data cannot be simulated from {_names(model.potentials)}, as a Potential is a log "
            "density without draws: write it as an observed variable (pm.CustomDist with random=)"
        )
    if not model.observed_RVs:
        raise ValueError(
            "the model observes nothing, so that there are no data to simulate: give its variables "
            "their observed= values"
        )
    discrete = [rv for rv in model.free_RVs if not rv.dtype.startswith("float")]
    if discrete:
        raise ValueError(
            f"parameters must be continuous to be ranked, got discrete {_names(discrete)}: "
            "marginalise them out (see pymc_extras.marginalize)"
        )
    ordered = [rv for rv in model.free_RVs if _orders(model.rvs_to_transforms[rv])]
    if ordered:
        raise ValueError(
            f"the order of {_names(ordered)} is its transform's, which PyMC's draws do not "
            "keep: write it as a first value and positive differences"
        )
    inside = set(ancestors([*model.free_RVs, *model.observed_RVs]))
    for rv in model.observed_RVs:
        shared = {v for v in ancestors([model.rvs_to_values[rv]]) if isinstance(v, SharedVariable)}
        if twice := [v for v in shared & inside if v.name]:
            raise ValueError(
                f"the data {_names(twice)} that {rv.name} observes also enter the model elsewhere, "
                "where they would not be simulated: give each place data of its own, or write the "
                "process of them (pm.AR, say)"
            )


def _orders(transform: object) -> bool:
    """Whether a transform, or a part of a chain of them, restricts a variable to an order."""
    parts = getattr(transform, "transform_list", [transform])
    return any(isinstance(part, Ordered) for part in parts)


def _check_prior(model: pm.Model) -> None:
    """Raise ValueError where a prior has no draws."""
    flat = [rv for rv in model.free_RVs if isinstance(rv.owner.op, FLAT)]
    if flat:
        raise ValueError(
            f"the prior of {_names(flat)} is improper, so that nothing can be drawn from it: give "
            "it a proper one, or prior= that draws all parameters"
        )


def _drawn(variables: Sequence[TensorVariable], count: int, seed: int) -> list[NDArray]:
    """Draws of the variables together, (count, *shape) each."""
    try:
        found = cast("list[NDArray]", pm.draw(list(variables), count, random_seed=seed))
    except NotImplementedError:
        raise _cannot_draw(variables) from None
    return [x[None] for x in found] if count == 1 else found  # PyMC leaves the axis of one draw out


def _cannot_draw(variables: Sequence[TensorVariable]) -> ValueError:
    """Which variable has no random draws; all of them where each has, alone."""
    bad = []
    for rv in variables:
        try:
            pm.draw(rv)
        except NotImplementedError:
            bad.append(rv)
    return ValueError(
        f"{_names(bad or variables)} cannot be simulated, as PyMC has no random draws of it: give "
        "pm.CustomDist its random=, or simulator= of data, and prior= of parameters"
    )


def _names(variables: Sequence[Variable]) -> str:
    return ", ".join(str(v.name) for v in variables)


def _fingerprint(model: pm.Model) -> str:
    """Names, shapes, operations and every number of a model but those that it observes."""
    variables = [*model.free_RVs, *model.observed_RVs]
    parts = [f"{v.name} {v.type}".encode() for v in variables]
    for v in ancestors(variables):
        if isinstance(v, Constant):
            parts.append(_bytes(v.data))
        elif isinstance(v, SharedVariable):
            value = v.get_value(borrow=True)
            parts.append(b"" if isinstance(value, np.random.Generator) else _bytes(value))
        elif v.owner is not None:
            parts.append(type(v.owner.op).__name__.encode())
    return hashlib.sha256(b"\0".join(sorted(parts))).hexdigest()[:16]


def _bytes(value: object) -> bytes:
    """Of a number or an array; of what else an operation is told, its text."""
    array = np.asarray(value)
    return repr(value).encode() if array.dtype == object else array.tobytes()
