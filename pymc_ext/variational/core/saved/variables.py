"""A model's free variables as a file keeps them: names, shapes, dims, the transforms by name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.saved.codec import Arrays, decode, encode
from pymc_ext.variational.core.saved.dims import Dim, dims_of

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor import TensorVariable

    from pymc_ext.pymc_versions import Transform

__all__ = [
    "CARRIES",
    "Carried",
    "Variable",
    "places",
    "values_by_name",
    "variables_by_name",
    "variables_of",
]

Values = TypeVar("Values", "Array", "TensorVariable")
Spec = Mapping[str, Any]  # {"name": "interval", "lower": 0.0, "upper": None}
# Of `pm.LKJCholeskyCov`: PyMC's transform, and that of `pymc_ext.models.correlations`.
CARRIES = "trusted_posteriors_carries"  # of a model's normals: the tag that holds a `Carried`
PACKED = ("cholesky-cov-packed", "sds-and-correlations")


@dataclass(frozen=True)
class Variable:
    """One free variable, and where it is in θ by its turn.

    Parameters
    ----------
    name, value_name
        Of the variable, and of its unconstrained values in the model.
    shape
        Of these values.
    transform
        From them to the variable; None is the identity.
    dims
        Of the variable; empty where it has none.
    carries
        What it stands for, where it is the normals of an earlier fit's prior.
    """

    name: str
    value_name: str
    shape: tuple[int, ...]
    transform: Spec | None
    dims: tuple[Dim, ...] = ()
    carries: Carried | None = None

    @property
    def size(self) -> int:
        """Scalars in θ."""
        return int(np.prod(self.shape))

    def to_parts(self, arrays: Arrays) -> dict[str, object]:
        """As JSON holds it, for :meth:`of_parts`; arrays of what it carries go into ``arrays``."""
        return {
            "name": self.name,
            "value_name": self.value_name,
            "shape": self.shape,
            "transform": self.transform,
            "dims": [dim.as_json() for dim in self.dims],
            "carries": None if self.carries is None else self.carries.to_parts(arrays),
        }

    @classmethod
    def of_parts(cls, entry: Mapping[str, Any], arrays: Arrays) -> Variable:
        """From what a file holds."""
        shape = tuple(int(n) for n in entry["shape"])
        dims, carries = entry.get("dims", ()), entry.get("carries")  # older files have none
        return cls(
            str(entry["name"]),
            str(entry["value_name"]),
            shape,
            entry["transform"],
            tuple(Dim.of_json(dim) for dim in dims),
            None if carries is None else Carried.of_parts(carries, arrays),
        )

    def constrained(self, value: TensorVariable) -> TensorVariable:
        """The variable of unconstrained values, as graphs.

        Raises
        ------
        ValueError
            Its transform is none that a file keeps.
        """
        if self.transform is None:
            return value
        try:
            transform = _transform(self.transform, self.shape)
        except KeyError:
            raise ValueError(
                f"the transform {self.transform['name']!r} of {self.name} depends on the model it "
                "was in, which no file keeps: take unconstrained values, constrained=False"
            ) from None
        return transform.backward(value)


@dataclass(frozen=True)
class Carried:
    """The fit that normals of a model stand for: `pymc_ext.prior_from` made its law their image.

    Parameters
    ----------
    name
        Of that prior.
    q
        Its map.
    variables
        Of the fit.
    """

    name: str
    q: Posterior
    variables: tuple[Variable, ...]

    def to_parts(self, arrays: Arrays) -> dict[str, object]:
        """As JSON holds it, for :meth:`of_parts`."""
        variables = [variable.to_parts(arrays) for variable in self.variables]
        return {"name": self.name, "q": encode(self.q, arrays), "variables": variables}

    @classmethod
    def of_parts(cls, entry: Mapping[str, Any], arrays: Arrays) -> Carried:
        """From what a file holds."""
        variables = tuple(Variable.of_parts(own, arrays) for own in entry["variables"])
        return cls(str(entry["name"]), decode(entry["q"], arrays), variables)


def variables_of(model: pm.Model, value_names: list[str]) -> tuple[Variable, ...]:
    """Those whose unconstrained values are named, in that order."""
    rvs = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    point = model.initial_point()
    return tuple(
        Variable(
            rvs[name].name,
            name,
            np.shape(point[name]),
            _spec(model, rvs[name]),
            dims_of(model, rvs[name]),
            getattr(rvs[name].tag, CARRIES, None),
        )
        for name in value_names
    )


def places(variables: Sequence[Variable]) -> Iterator[tuple[Variable, slice]]:
    """Each variable with its part of θ."""
    begin = 0
    for variable in variables:
        yield variable, slice(begin, begin := begin + variable.size)


def variables_by_name(variables: Sequence[Variable]) -> dict[str, Variable]:
    """All that :func:`values_by_name` names."""
    no_values = np.zeros(sum(variable.size for variable in variables))
    named = values_by_name(variables, no_values, lambda q, z: z)  # θ has the shape of z
    return {name: variable for name, (variable, _) in named.items()}


def values_by_name(
    variables: Sequence[Variable], theta: Values, mapped: Callable[[Posterior, Values], Values]
) -> dict[str, tuple[Variable, Values]]:
    """Each variable with its part of θ (..., D), unconstrained, (..., size), and those of earlier
    fits that normals stand for, however many days ago.

    These have the names they had in their own fit; where that is ambiguous, that of the prior
    before it, as in the model.

    Parameters
    ----------
    variables
        Of θ.
    theta
        An array or a graph.
    mapped
        T(z) of a law's normals.
    """
    found: dict[str, tuple[Variable, Values]] = {
        variable.name: (variable, theta[..., where]) for variable, where in places(variables)
    }
    carried: list[tuple[str, str, tuple[Variable, Values]]] = []
    for variable, z in list(found.values()):
        if (fit := variable.carries) is not None:
            inner = values_by_name(fit.variables, mapped(fit.q, z), mapped)
            carried += [(fit.name, own, value) for own, value in inner.items()]
    times = Counter([*found, *(own for _, own, _ in carried)])
    for name, own, value in carried:
        label = own if times[own] == 1 else f"{name}_{own}"
        while label in found:  # the same name of a prior on two days
            label = f"{name}_{label}"
        found[label] = value
    return found


def _spec(model: pm.Model, rv: TensorVariable) -> Spec | None:
    transform = model.rvs_to_transforms[rv]
    return None if transform is None else _spec_of(transform, model, rv)


def _spec_of(transform: Any, model: pm.Model, rv: TensorVariable) -> Spec:
    from pymc.distributions import transforms

    name = str(transform.name)
    if isinstance(transform, transforms.Chain):
        return {"name": "chain", "of": [_spec_of(t, model, rv) for t in transform.transform_list]}
    if name == "interval":
        bounds = transform.args_fn(*rv.owner.inputs)
        if _free(bounds, model):
            return {"name": "interval of other variables"}
        bounds = [_constant(bound) for bound in bounds]
        return {"name": name, "lower": bounds[0], "upper": bounds[1]}
    if name == "ordered":
        kept = {key: bool(getattr(transform, key)) for key in ("positive", "ascending")}
        return {"name": name, **kept}
    if name == "zerosum":
        return {"name": name, "axes": [int(axis) for axis in transform.zerosum_axes]}
    return {"name": name}


def _free(bounds: Sequence[object], model: pm.Model) -> bool:
    """Whether bounds depend on free variables."""
    from pytensor.graph.basic import Variable as Node
    from pytensor.graph.traversal import ancestors

    nodes = [bound for bound in bounds if isinstance(bound, Node)]
    return bool(set(ancestors(nodes)) & set(model.free_RVs))


def _constant(bound: object) -> float | list[float] | None:
    """A bound, as JSON holds it."""
    value = bound.eval() if hasattr(bound, "eval") else bound
    return None if value is None else np.asarray(value, dtype=float).tolist()


def _transform(spec: Spec, shape: tuple[int, ...]) -> Transform:
    """PyMC's own, or ours, of values of that shape; KeyError where there is none of that name."""
    import pytensor.tensor as pt
    from pymc.distributions import transforms

    name = spec["name"]
    if name == "chain":
        return transforms.Chain([_transform(own, shape) for own in spec["of"]])
    if name == "interval":
        bounds = [None if spec[k] is None else pt.constant(spec[k]) for k in ("lower", "upper")]
        return transforms.Interval(bounds_fn=lambda *inputs: tuple(bounds))
    if name == "ordered":
        return transforms.Ordered(positive=spec["positive"], ascending=spec["ascending"])
    if name == "zerosum":
        return transforms.ZeroSumTransform(spec["axes"])
    if name in PACKED:
        from pymc_ext.models.correlations import ScalesAndCorrelations

        n = math.isqrt(2 * shape[-1])  # of n (n + 1) / 2 entries
        is_ours = name == ScalesAndCorrelations.name
        return ScalesAndCorrelations(n) if is_ours else transforms.CholeskyCovPacked(n)
    plain = {t.name: t for t in (transforms.log, transforms.log_exp_m1, transforms.logodds,
                                 transforms.simplex, transforms.circular)}  # fmt: skip
    return plain[name]
