"""Yesterday's posterior as today's prior: a fitted q inside a new model."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply
from pytensor.graph.basic import Variable as Node
from pytensor.graph.op import Op, OutputStorageType
from pytensor.tensor import TensorVariable

from pymc_ext.density.coordinates import TransportMap
from pymc_ext.maths.types import Array
from pymc_ext.models.context import context
from pymc_ext.ops.callback import register_numba
from pymc_ext.pytensor_versions import _vectorize_node
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.saved.dims import Dim, add_dims
from pymc_ext.variational.core.saved.posterior import SavedPosterior
from pymc_ext.variational.core.saved.variables import (
    CARRIES,
    Carried,
    Variable,
    values_by_name,
    variables_by_name,
)
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.plugin.approximation import VectorisedApproximation

__all__ = ["carried_by", "is_linear", "prior_from"]

logger = logging.getLogger(__name__)


def prior_from(
    source: VectorisedApproximation | SavedPosterior,
    name: str,
    *,
    variables: Sequence[str] | None = None,
    constrained: bool = True,
) -> dict[str, TensorVariable]:
    r"""The law q of a fit as the joint prior of a new model's variables.

    Today's model has z ~ N(0, I), D independent normals named ``{name}_z``, and θ = T(z) with the
    map T of q, so that θ ~ q exactly, correlations and all; each variable of the fit is what its
    transform makes of its part of θ. A sampler moves in z, where a posterior that q knows well
    already is easy. On JAX's samplers, and in ``BernsteinVI(backend="jax")``, only Gaussians run:
    the other maps call back to Python, for all points at once where a method of this package asks,
    for one at a time where `pm.sample` does (some tenths of a millisecond; with a law by Laplace's
    method one or two).

    θ ~ q exactly, in its tails too, where no draw of the fit has been and nothing has judged q:
    beyond some three of its sds, the z of some three, q may be wrong by any factor. Where today's
    data lie there, today's fit is judged against that prior and may be trusted, and yet be off by
    an sd or two: look at the mean of ``{name}_z``, as :func:`pymc_ext.diagnose` does, and fit the
    data of both days where a coordinate is beyond 3.

    Parameters
    ----------
    source
        What ``pm.fit`` gave with a method of this package, or ``px.load`` of its file.
    name
        Of the prior in the new model; its variables are ``{name}_z`` (``{name}_z_`` where the fit
        has a ``z``) and the deterministics ``{name}_{variable}``.
    variables
        Names of those to be returned and recorded; all by default. Where the fit's own model had
        such a prior, the variables of the fit before it are among them by their own names (``mu``,
        not ``monday_mu``, unless two fits have one), and not its normals.
    constrained
        False: unconstrained values, as where a transform depends on the model it was in.

    Returns
    -------
    dict
        Tensors by the names that the variables had, each of its own shape and dims; the model
        gets the coords of dims that it does not have.

    Raises
    ------
    TypeError
        q has no map of D normals: a mixture, or a flow with a Student-t latent law; ``name`` is no
        text, or ``variables`` one. There is no ``with model:``.
    ValueError
        An unknown variable, a transform that no file keeps, a name that the model has already, or
        a dim with other labels there.

    Examples
    --------
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 10)
    ...     _ = pm.Normal("y", mu, 1, observed=[0.2, 1.4])
    ...     monday = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    >>> with pm.Model():
    ...     prior = px.prior_from(monday, "monday")
    ...     _ = pm.Normal("y", prior["mu"], 1, observed=[0.9])
    ...     both = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    >>> values = both.sample(4000, random_seed=1).posterior["monday_mu"]
    >>> float(values.mean().round(1))  # 2.5 / 3.01, with an sd of 0.58
    0.8
    """
    saved = source.as_law() if isinstance(source, VectorisedApproximation) else source
    if not isinstance(saved, SavedPosterior):
        raise TypeError(
            "source must be what pm.fit gave with a method of this package, or what px.load gave, "
            f"got {type(source).__name__}"
        )
    if not isinstance(name, str) or not name:
        raise TypeError(f"name must be a text that is not empty, got {name!r}")
    if isinstance(variables, str):
        raise TypeError(
            f"variables must be a list of names, got {variables!r}: write [{variables!r}]"
        )
    model = context(None, "a prior belongs to one")
    q = saved.q
    if not hasattr(q, "pullback") or q.latent_dimension != q.dimension:
        raise TypeError(
            f"a {type(q).__name__} has no map of {q.dimension} normals, which a prior needs: fit "
            "with HierarchicalVI, BatchMatchVI, or a flow whose latent law is normal; of several "
            "modes take draws"
        )
    if not saved.variables:
        raise ValueError("the q kept is of no model, so that it has no variables: use its names")
    known = variables_by_name(saved.variables)
    wanted = _wanted(known, variables)
    if saved.notes.get("usable") is False:
        logger.warning(
            "the fit is not usable, and the prior made of it is off by as much: %s",
            saved.notes["verdict"],
        )
    latent = f"{name}_z"
    while latent in {f"{name}_{own}" for own in wanted}:  # a variable of the fit is called z
        latent += "_"
    names = {model.name_for(x) for x in (latent, *(f"{name}_{own}" for own in wanted))}
    taken = sorted(names & set(model.named_vars))
    if taken:
        raise ValueError(f"the model has {taken} already: give the prior another name")
    dims = {own: _dims(known[own], constrained) for own in wanted}
    add_dims(model, dims)
    with model:
        z = pm.Normal(latent, 0.0, 1.0, shape=q.dimension)
        setattr(z.tag, CARRIES, Carried(model.name_for(name), q, saved.variables))
        values = values_by_name(saved.variables, _mapped(q, z), _mapped)
        return {
            own: pm.Deterministic(
                f"{name}_{own}",
                _of_its_shape(*values[own], constrained),
                dims=[dim.name for dim in dims[own]] or None,
            )
            for own in wanted
        }


def _wanted(known: Mapping[str, Variable], asked: Sequence[str] | None) -> list[str]:
    if asked is None:  # the normals of an earlier prior say nothing: what they stand for does
        return [own for own, variable in known.items() if variable.carries is None]
    unknown = [own for own in asked if own not in known]
    if unknown:
        raise ValueError(f"unknown variables {unknown}: the fit has {list(known)}")
    return list(asked)


def _dims(variable: Variable, constrained: bool) -> tuple[Dim, ...]:
    """Those of its values, of which a simplex has one less where they are unconstrained."""
    dims = variable.dims
    fit = constrained or variable.shape == tuple(dim.length for dim in dims)
    return dims if fit else ()


def _of_its_shape(variable: Variable, value: TensorVariable, constrained: bool) -> TensorVariable:
    value = value.reshape(variable.shape)
    return variable.constrained(value) if constrained else value


def is_linear(carried: Carried) -> bool:
    """Whether a prior is a graph of PyTensor's own Ops, as those of Gaussians are, with all that
    its normals stand for."""
    inner = (v.carries for v in carried.variables)
    linear = isinstance(carried.q, Gaussian | DiagonalGaussian)
    return linear and all(is_linear(fit) for fit in inner if fit is not None)


def carried_by(model: pm.Model) -> dict[str, Carried]:
    """The priors that :func:`prior_from` gave a model, by the name of their normals."""
    found = {rv.name: getattr(rv.tag, CARRIES, None) for rv in model.free_RVs}
    return {name: fit for name, fit in found.items() if fit is not None}


def _mapped(q: Posterior, z: TensorVariable) -> TensorVariable:
    """θ = T(z) as a graph; of its own Ops where q is linear."""
    if isinstance(q, Gaussian):
        return pt.as_tensor(q.mean) + pt.as_tensor(q.root) @ z
    if isinstance(q, DiagonalGaussian):
        return pt.as_tensor(q.mean) + pt.as_tensor(q.std) * z
    return cast(TensorVariable, TransportOp(cast(TransportMap, q))(z))


class OfPoints(Op):
    """Of points (..., D), all at once: those of a batch are no loop over points.

    Parameters
    ----------
    q
        The map.
    """

    def __init__(self, q: TransportMap) -> None:
        self.q = q

    def make_node(self, *inputs: Node) -> Apply:
        points = [pt.as_tensor_variable(x) for x in inputs]
        most = max(x.type.ndim for x in points)
        return Apply(self, points, [pt.tensor(dtype="float64", shape=(None,) * most)])

    def perform(
        self, node: Apply, inputs: Sequence[Array], output_storage: OutputStorageType
    ) -> None:
        points = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in inputs))
        flat = (x.reshape(-1, x.shape[-1]) for x in points)
        output_storage[0][0] = self.of_rows(*flat).reshape(points[0].shape)

    @abstractmethod
    def of_rows(self, *rows: Array) -> Array:
        """Of points (N, D)."""


class TransportOp(OfPoints):
    """θ = T(z), (..., D) -> (..., D)."""

    gufunc_signature = "(d)->(d)"

    def infer_shape(self, *args: Any) -> list[Any]:
        return list(args[-1])  # (fgraph, node, shapes) in PyTensor 2, (node, shapes) in 3

    def of_rows(self, *rows: Array) -> Array:
        return self.q.forward(*rows)[0]

    def pullback(
        self, inputs: Sequence[Node], outputs: Sequence[Node], cotangents: Sequence[Node]
    ) -> list[Node]:
        """Cotangent of z from that of θ."""
        (g,) = cotangents
        if isinstance(g.type, DisconnectedType):
            return [pt.zeros_like(inputs[0])]
        return [cast(Node, TransportPullbackOp(self.q)(inputs[0], g))]

    def L_op(
        self, inputs: Sequence[Node], outputs: Sequence[Node], output_grads: Sequence[Node]
    ) -> list[Node]:
        """PyTensor 2's name of the same."""
        return self.pullback(inputs, outputs, output_grads)


class TransportPullbackOp(OfPoints):
    """(∂T/∂z)ᵀ g: the pullback of a score g less that of none, which is ∂ log|det|."""

    gufunc_signature = "(d),(d)->(d)"

    def infer_shape(self, *args: Any) -> list[Any]:
        *_, (z, g) = args
        return [tuple(pt.broadcast_shape(z, g, arrays_are_shapes=True))]

    def of_rows(self, *rows: Array) -> Array:
        z, g = rows
        both = self.q.pullback(np.concatenate([z, z]), np.concatenate([g, np.zeros_like(g)]))
        return both[: len(z)] - both[len(z) :]


for op_type in (TransportOp, TransportPullbackOp):
    register_numba(op_type)
    _vectorize_node.register(op_type, lambda op, node, *points: op.make_node(*points))
