"""A model's free variables as a file keeps them: names, shapes, and the transforms by name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor import TensorVariable

__all__ = ["Variable", "variables_of"]

Spec = Mapping[str, Any]  # {"name": "interval", "lower": 0.0, "upper": None}
# Of `pm.LKJCholeskyCov`: PyMC's transform, and that of `pymc_ext.models.correlations`.
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
    """

    name: str
    value_name: str
    shape: tuple[int, ...]
    transform: Spec | None

    @property
    def size(self) -> int:
        """Scalars in θ."""
        return int(np.prod(self.shape))

    def as_json(self) -> dict[str, Any]:
        """For :meth:`of_json`."""
        return asdict(self)

    @classmethod
    def of_json(cls, entry: Mapping[str, Any]) -> Variable:
        """From what a file holds."""
        shape = tuple(int(n) for n in entry["shape"])
        return cls(str(entry["name"]), str(entry["value_name"]), shape, entry["transform"])

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


def variables_of(model: pm.Model, value_names: list[str]) -> tuple[Variable, ...]:
    """Those whose unconstrained values are named, in that order."""
    rvs = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    point = model.initial_point()
    return tuple(
        Variable(rvs[name].name, name, np.shape(point[name]), _spec(model, rvs[name]))
        for name in value_names
    )


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


def _free(bounds: Sequence[Any], model: pm.Model) -> bool:
    """Whether bounds depend on free variables."""
    from pytensor.graph.basic import Variable as Node
    from pytensor.graph.traversal import ancestors

    nodes = [bound for bound in bounds if isinstance(bound, Node)]
    return bool(set(ancestors(nodes)) & set(model.free_RVs))


def _constant(bound: Any) -> Any:
    """A bound, as JSON holds it."""
    value = bound.eval() if hasattr(bound, "eval") else bound
    return None if value is None else np.asarray(value, dtype=float).tolist()


def _transform(spec: Spec, shape: tuple[int, ...]) -> Any:
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
