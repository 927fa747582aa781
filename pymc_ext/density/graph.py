"""The log density of a PyMC model as a graph in one flat θ, and what the entries of θ are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, cast

import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before it compiles
from pymc_ext.density.counted import Clock
from pymc_ext.density.layout import labelled, layout_of, pieces
from pymc_ext.density.protocol import element_names
from pymc_ext.models.discrete import chains_of_known_length
from pymc_ext.models.minibatch import of_batches
from pymc_ext.models.observed_twice import mend_observed
from pymc_ext.over_draws import has_scan, over_draws, scan_draws
from pymc_ext.pymc_versions import MinibatchOp
from pymc_ext.pytensor_modes import mode_for
from pymc_ext.typed_graphs import replaced

if TYPE_CHECKING:
    from pytensor.compile import Function
    from pytensor.compile.mode import Mode

    from pymc_ext.pytensor_versions import TensorSharedVariable


# What PyTensor raises where a graph of one draw makes none of many.
NOT_BY_ROWS = (ValueError, IndexError, TypeError, NotImplementedError)


class NotByRowsError(ValueError):
    """A model of whose graph PyTensor makes none of many draws."""


class ModelGraph:
    """log p̃ of a model as a graph in θ (D,); parameters as those of `px.PyMCDensity`."""

    parents_first = True  # a variable is made of those that are there before it

    def __init__(
        self,
        model: pm.Model,
        variables: Sequence[TensorVariable] | None,
        point: tuple[Sequence[TensorVariable], TensorSharedVariable] | None,
        replacements: Mapping[TensorVariable, TensorVariable] | None,
        compile_kwargs: Mapping[str, object] | None,
        clock: Clock,
    ) -> None:
        self.model, self.clock = model, clock
        self._variables = list(model.free_RVs if variables is None else variables)
        self._point, self._replacements = point, dict(replacements or {})
        self._compile_kwargs = dict(compile_kwargs or {})
        self.layout = layout_of(model, self._variables)
        self.dimension = self.layout[-1][1].stop

    @cached_property
    def unconstrained_names(self) -> list[str]:
        """Name of each entry of θ: ``"mu"``, ``"theta[3]"``, ``"log_sd_log__"``; by the model's
        coords, as ``"theta[north]"``, where it has them."""
        return [label for entry in self.layout for label in self.labels(entry.name, entry.shape)]

    def labels(self, name: str, shape: tuple[int, ...]) -> list[str]:
        """Names of the elements of a variable of the model, of its value or a deterministic."""
        model = self.model
        rv = next((rv for rv, value in model.rvs_to_values.items() if value.name == name), None)
        own = getattr(model.rvs_to_transforms.get(rv), "labels", None)
        if own is not None:
            return element_names(name, [*map(range, shape[:-1]), own])
        dims = model.named_vars_to_dims.get(name if rv is None else rv.name, ())
        return labelled(model, name, shape, dims)

    @cached_property
    def noisy(self) -> bool:
        """Whether log p̃ is an estimate from ``pm.Minibatch`` data."""
        nodes = ancestors([self.logp])
        return any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in nodes)

    @cached_property
    def batches(self) -> list[str]:
        """Names of the observed variables and potentials that ``pm.Minibatch`` rows go into."""
        return of_batches(self.model)

    @cached_property
    def blocks(self) -> list[tuple[str, int, bool]]:
        """Name, number of entries, and whether a transform bounds it, of each free variable.

        A variable that holds several, as the flat vector of a Stan program does, says so in
        ``tag.blocks``: their names with their sizes.
        """
        blocks = []
        for rv, (_, where, _, _) in zip(self._variables, self.layout, strict=True):
            parts = getattr(rv.tag, "blocks", {rv.name: where.stop - where.start})
            bounded = self.model.rvs_to_transforms[rv] is not None
            blocks += [(name, size, bounded) for name, size in parts.items()]
        return blocks

    @cached_property
    def bounded_names(self) -> list[str]:
        """Entries of θ that a transform maps to a bounded variable."""
        model = self.model
        bounded = {
            model.rvs_to_values[rv].name
            for rv in self._variables
            if model.rvs_to_transforms[rv] is not None
        }
        return [name for name in self.unconstrained_names if name.split("[")[0] in bounded]

    @cached_property
    def theta(self) -> TensorVariable:
        """The flat θ (D,), symbolic."""
        return pt.vector("theta", shape=(self.dimension,), dtype="float64")

    @cached_property
    def logp(self) -> TensorVariable:
        """log p̃ as a scalar graph in :attr:`theta` (and in the extras)."""
        with self.clock.compiling(), chains_of_known_length():
            return self._logp()

    def _logp(self) -> TensorVariable:
        model = self.model
        mend_observed(model)
        if self._point is None:
            graph = model.logp()
        else:
            prior = model.logp(vars=self._variables)
            graph = prior + model.logp(vars=list(self._point[0]), jacobian=False) + model.datalogp
        return self.in_theta([graph])[0]

    def in_theta(self, graphs: Sequence[Variable]) -> list[TensorVariable]:
        """Graphs in the model's value variables as graphs in :attr:`theta` and the extras."""
        values = pieces(self.model, self.layout, self.theta)
        if self._point is not None:
            rvs, shared = self._point
            values |= pieces(self.model, layout_of(self.model, rvs), shared)
        found = replaced(cast("Sequence[TensorVariable]", graphs), values)
        return replaced(found, self._replacements) if self._replacements else found

    def logp_of_rows(self, theta: TensorVariable) -> TensorVariable:
        """log p̃ of every row of ``theta`` as a graph, (N, D) -> (N,).

        Raises NotByRowsError where PyTensor makes none, as of `pymc.CAR`, whose log p sums over an
        axis that its precision has not.
        """
        rows, check = theta.type(), self.model.check_bounds  # else shapes pass through all of theta
        if has_scan([self.logp]):
            (lp,) = cast("list[TensorVariable]", scan_draws([self.logp], self.theta, rows, check))
        else:
            try:
                (lp,) = over_draws([self.logp], {self.theta: rows}, rows.shape[0], check)
            except NOT_BY_ROWS as error:
                raise NotByRowsError(
                    f"PyTensor makes no graph of many draws of this model: {error}; leave out "
                    "backend='jax'"
                ) from error
        return replaced([lp], {rows: theta})[0]

    def compile(
        self,
        inputs: Sequence[TensorVariable],
        outputs: TensorVariable | Sequence[TensorVariable],
        **kwargs: object,
    ) -> Function:
        """A compiled function of graphs of any shape; its seconds go to the clock."""
        options = {**self._compile_kwargs, **kwargs}
        several = outputs if isinstance(outputs, Sequence) else [outputs]
        mode = mode_for(several, cast("str | Mode | None", options.pop("mode", None)))
        if mode is not None:
            options["mode"] = mode
        with self.clock.compiling():
            return pm.pytensorf.compile(list(inputs), outputs, on_unused_input="ignore", **options)
