"""q of one group joined to a model, in graphs: structure, log p̃ over draws, what PyMC calls."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pymc as pm
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.tensor import TensorVariable

from pymc_ext.density.counted import Clock
from pymc_ext.density.model import PyMCDensity
from pymc_ext.maths.types import Array
from pymc_ext.models.context import TO_THE_FAMILY, context
from pymc_ext.models.discrete import refuse_discrete, refuse_inexact_sums
from pymc_ext.models.improper import refuse_periodic, refuse_unobserved_flat
from pymc_ext.models.no_coordinates import refuse_simulators, refuse_wishart
from pymc_ext.models.observed_twice import mend_observed
from pymc_ext.over_draws import has_scan, over_draws, scan_draws
from pymc_ext.seeds import check_seed
from pymc_ext.typed_graphs import replaced
from pymc_ext.variational.plugin.checks import check_start, resolve_hyperparameters
from pymc_ext.variational.plugin.groups import FittedGroup, PointGroup
from pymc_ext.variational.plugin.pymc_variational import Approximation, Group
from pymc_ext.variational.plugin.types import CompileOptions, Hyperparameters, Start

if TYPE_CHECKING:
    from pytensor.compile import Function

logger = logging.getLogger(__name__)


class GraphApproximation(Approximation):
    """One :class:`FittedGroup`, and the hyperparameters held at a point, joined to a model.

    Arguments as :class:`pymc_ext.variational.plugin.approximation.VectorisedApproximation`.
    """

    def __init__(
        self,
        family: type[FittedGroup],
        *,
        model: pm.Model | None = None,
        hyperparameters: Hyperparameters = (),
        start: Start | None = None,
        random_seed: int | None = None,
        density: Callable[..., PyMCDensity] = PyMCDensity,
        **options: object,
    ) -> None:
        model = context(model, TO_THE_FAMILY)
        refuse_discrete(model)
        refuse_inexact_sums(model)
        refuse_simulators(model)
        refuse_wishart(model)
        refuse_periodic(model)
        mend_observed(model)
        check_start(model, start)
        check_seed(random_seed)
        point = resolve_hyperparameters(model, hyperparameters)
        rest = [rv for rv in model.free_RVs if rv not in point]
        if not rest:
            raise ValueError("the model has no free variables: there is nothing to approximate")
        refuse_unobserved_flat(model, rest)
        common = {"model": model, "random_seed": random_seed, "start": start}
        groups: list[Group] = [family(rest, **common, **options)]
        if point:
            groups.append(PointGroup(point, **common))
        super().__init__(groups, model=model)
        self.compile_kwargs: dict[str, object] = {}
        self.clock, self._random_seed, self._density = Clock(), random_seed, density

    # ---- structure -------------------------------------------------------------------------

    @property
    def group(self) -> FittedGroup:
        """The family's group."""
        return self.groups[0]

    @property
    def point_group(self) -> PointGroup | None:
        """The group of the hyperparameters, None if there are none."""
        return self.groups[1] if len(self.groups) > 1 else None

    def shared_variables(self) -> list[SharedVariable]:
        """Every shared variable of the groups, trainable or not."""
        held = [v for g in self.groups for v in vars(g).values() if isinstance(v, SharedVariable)]
        return [*self.params, *held]

    @property
    def rng(self) -> np.random.RandomState:
        """Generator of the group, which seeds PyMC's own loops."""
        return self.group.rng

    mean = property(lambda self: self.group.mean, doc="E θ, symbolic, shape (D,).")
    std = property(lambda self: self.group.std, doc="Standard deviations of θ, symbolic, (D,).")
    cov = property(lambda self: self.group.cov, doc="Cov θ, symbolic, shape (D, D).")
    mean_data = property(lambda self: self.group.mean_data, doc="E θ as an xarray Dataset.")
    std_data = property(lambda self: self.group.std_data, doc="sd of θ as an xarray Dataset.")
    state = property(lambda self: self.group.state, doc="PyMC 6: moments as xarray Datasets.")

    def parameter_names(self) -> list[str]:
        """Name of each entry of the flat θ: ``"mu"``, ``"theta[3]"``, ``"log_sd_log__"``; by the
        model's coords where it has them."""
        return self.density.unconstrained_names

    @property
    def hyperparameters(self) -> dict[str, Array]:
        """Values of the hyperparameters by name, each of its own shape, constrained."""
        if self.point_group is None:
            return {}
        rvs = self.point_group.group
        values = self.model.replace_rvs_by_values(rvs)
        nodes = self._at_point([self.to_flat_input(v) for v in values])
        return {rv.name: v for rv, v in zip(rvs, self.compile([], nodes)(), strict=True)}

    # ---- graphs over all draws -------------------------------------------------------------

    @property
    def compile_seconds(self) -> float:
        """Seconds spent so far on graphs and their compilation."""
        return self.clock.seconds

    def building(self) -> contextlib.AbstractContextManager[None]:
        """Time spent inside, on graphs and their compilation, is added to ``compile_seconds``."""
        return self.clock.compiling()

    def use_compile_kwargs(self, kwargs: CompileOptions) -> None:
        """Options of all later compilations; what was compiled with others is forgotten."""
        if dict(kwargs) != self.compile_kwargs:
            self.compile_kwargs = dict(kwargs)
            for compiled in ("_constrained", "density"):
                self.__dict__.pop(compiled, None)

    def use_density(self, density: Callable[..., PyMCDensity]) -> None:
        """Make :attr:`density` anew, by ``density``."""
        self._density = density
        self.__dict__.pop("density", None)

    @cached_property
    def density(self) -> PyMCDensity:
        """log p̃ with its score: the one thing that algorithms need of the model."""
        return self.make_density()

    def make_density(self, **options: Any) -> PyMCDensity:
        """As :attr:`density`, with other parameters trained or variables replaced."""
        point = None
        if self.point_group is not None:
            point = self.point_group.group, self.point_group.params_dict["point"]
        return self._density(
            self.model,
            list(self.group.group),
            point=point,
            compile_kwargs=self.compile_kwargs,
            clock=self.clock,
            random_seed=self._random_seed,
            **options,
        )

    def compile(
        self,
        inputs: Sequence[TensorVariable],
        outputs: TensorVariable | Sequence[TensorVariable],
        **kwargs: object,
    ) -> Function:
        """A compiled function of graphs of any shape."""
        with self.building():
            return pm.pytensorf.compile(list(inputs), outputs, **self.compile_kwargs, **kwargs)

    def _at_point(self, nodes: list[TensorVariable]) -> list[TensorVariable]:
        if self.point_group is None:
            return nodes
        values = {self.point_group.input: self.point_group.mean}
        return replaced(nodes, values)

    def over_draws(
        self, nodes: Sequence[TensorVariable], rows: TensorVariable
    ) -> list[TensorVariable]:
        """Graphs in ``group.input``, the flat θ (D,), at each row of ``rows`` (N, D)."""
        check = self.model.check_bounds
        if not has_scan(nodes):
            return over_draws(nodes, {self.group.input: rows}, rows.shape[0], check)
        logger.info("the model contains a scan: draws are evaluated one after another")
        return cast("list[TensorVariable]", scan_draws(nodes, self.group.input, rows, check))

    # ---- what PyMC's own machinery calls ---------------------------------------------------

    def symbolic_sample_over_posterior(
        self, node: TensorVariable | Sequence[TensorVariable], more_replacements: object = None
    ) -> TensorVariable | list[TensorVariable]:
        many = isinstance(node, list | tuple)
        nodes = self._at_point(self.to_flat_input(list(node) if many else [node]))
        out = self.over_draws(nodes, self.group.symbolic_random)
        return out if many else out[0]

    def get_optimization_replacements(self, s: object, d: object) -> dict[Variable, Variable]:
        return {}  # one draw needs no special case: there is no scan to avoid
