"""q of one group, joined to a model: draws, logs, InferenceData; what ``pm.fit`` returns."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.data import MinibatchOp
from pymc.model import modelcontext
from pymc.variational.opvi import Approximation, Group, node_property
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.density.counted import Clock
from pymc_ext.density.model import PyMCDensity
from pymc_ext.over_draws import has_scan, over_draws, scan_draws
from pymc_ext.periodic import refuse_periodic
from pymc_ext.variational.core.checks import check_start, resolve_hyperparameters
from pymc_ext.variational.core.groups import PointGroup, TransformGroup, in_chunks
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Seed
from pymc_ext.variational.core.traces import make_trace

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]


class VectorisedApproximation(Approximation):
    """q of one :class:`TransformGroup`, evaluated over all draws at once.

    Parameters
    ----------
    family
        The group class; ``options`` go to it.
    model
        The model; None takes the one of the ``with`` context.
    hyperparameters
        Free variables (or names) held at a point value that the fit optimises. Their prior counts
        on the constrained scale, without Jacobian, as in ``pm.find_MAP``.
    start
        Initial values by variable name, as ``pm.sample(initvals=)``.
    random_seed
        Seeds the group's generator, from which draws without a seed of their own are seeded.
    """

    result: FitResult | None = None
    laplace: Any = None  # the LaplaceFit of a fit by LaplaceVI
    hist: Array

    def __init__(
        self,
        family: type[TransformGroup],
        *,
        model: pm.Model | None = None,
        hyperparameters: Sequence[Any] = (),
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
        **options: Any,
    ) -> None:
        model = modelcontext(model)
        refuse_periodic(model)
        check_start(model, start)
        point = resolve_hyperparameters(model, hyperparameters)
        rest = [rv for rv in model.free_RVs if rv not in point]
        if not rest:
            raise ValueError("the model has no free variables: there is nothing to approximate")
        common = {"model": model, "random_seed": random_seed, "start": start}
        groups: list[Group] = [family(rest, **common, **options)]
        if point:
            groups.append(PointGroup(point, **common))
        super().__init__(groups, model=model)
        self.compile_kwargs: dict[str, Any] = {}
        self.clock, self._random_seed = Clock(), random_seed
        self.hist = np.asarray(())

    # ---- structure -------------------------------------------------------------------------

    @property
    def group(self) -> TransformGroup:
        """The family's group."""
        return self.groups[0]

    @property
    def point_group(self) -> PointGroup | None:
        """The group of the hyperparameters, None if there are none."""
        return self.groups[1] if len(self.groups) > 1 else None

    def shared_variables(self) -> list[Any]:
        """Every shared variable of the groups, trainable or not."""
        held = [v for g in self.groups for v in vars(g).values() if isinstance(v, SharedVariable)]
        return [*self.params, *held]

    @property
    def rng(self) -> np.random.RandomState:
        """Generator of the group, which seeds PyMC's own loops."""
        return self.group.rng

    @cached_property
    def has_minibatch(self) -> bool:
        """Whether log p̃ is a noisy estimate from ``pm.Minibatch`` data."""
        nodes = ancestors([self.model.logp()])
        return any(v.owner is not None and isinstance(v.owner.op, MinibatchOp) for v in nodes)

    mean = property(lambda self: self.group.mean, doc="E θ, symbolic, shape (D,).")
    std = property(lambda self: self.group.std, doc="Standard deviations of θ, symbolic, (D,).")
    cov = property(lambda self: self.group.cov, doc="Cov θ, symbolic, shape (D, D).")
    mean_data = property(lambda self: self.group.mean_data, doc="E θ as an xarray Dataset.")
    std_data = property(lambda self: self.group.std_data, doc="sd of θ as an xarray Dataset.")
    state = property(lambda self: self.group.state, doc="PyMC 6: moments as xarray Datasets.")

    def parameter_names(self) -> list[str]:
        """Name of each entry of the flat θ: ``"mu"``, ``"theta[3]"``, ``"log_sd_log__"``."""
        names = []
        for name, _, shape, _ in self.group.ordering.values():
            names += [
                name + ("[" + ",".join(map(str, i)) + "]" if i else "") for i in np.ndindex(*shape)
            ]
        return names

    @property
    def hyperparameters(self) -> dict[str, Array]:
        """Values of the hyperparameters on the constrained scale."""
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

    def use_compile_kwargs(self, kwargs: Mapping[str, Any]) -> None:
        """Options of all later compilations; what was compiled with others is forgotten."""
        if dict(kwargs) != self.compile_kwargs:
            self.compile_kwargs = dict(kwargs)
            for compiled in ("_functions", "density"):
                self.__dict__.pop(compiled, None)

    @cached_property
    def density(self) -> PyMCDensity:
        """log p̃ with its score: the one thing that algorithms need of the model."""
        return self.make_density()

    def make_density(self, **options: Any) -> PyMCDensity:
        """As :attr:`density`, with other parameters trained or variables replaced."""
        point = None
        if self.point_group is not None:
            point = self.point_group.group, self.point_group.params_dict["point"]
        return PyMCDensity(
            self.model,
            list(self.group.group),
            point=point,
            compile_kwargs=self.compile_kwargs,
            clock=self.clock,
            random_seed=self._random_seed,
            **options,
        )

    @property
    def q(self) -> Posterior:
        """q at the present parameters, in numbers."""
        return self.group.posterior()

    def compile(self, inputs: list[Any], outputs: Any, **kwargs: Any) -> Callable[..., Any]:
        """A compiled function."""
        with self.building():
            return pm.pytensorf.compile(inputs, outputs, **self.compile_kwargs, **kwargs)

    def _at_point(self, nodes: list[Any]) -> list[Any]:
        if self.point_group is None:
            return nodes
        return graph_replace(nodes, {self.point_group.input: self.point_group.mean}, strict=False)

    def _log_density_terms(self) -> list[TensorVariable]:
        """log prior and log likelihood graphs, scalars in the model's value variables."""
        model, point = self.model, self.point_group
        if point is None:
            return [model.varlogp, model.datalogp]
        prior = model.logp(vars=list(self.group.group))
        return [prior + model.logp(vars=list(point.group), jacobian=False), model.datalogp]

    def flat_logp(self) -> TensorVariable:
        """log p̃ as a scalar graph in ``group.input``, the flat θ of shape (D,)."""
        terms = [self.to_flat_input(term) for term in self._log_density_terms()]
        return self._at_point([terms[0] + terms[1]])[0]

    def over_draws(self, nodes: list[Any], rows: TensorVariable, variable: Any = None) -> list[Any]:
        """Graphs in ``variable`` (default ``group.input``) at each row of ``rows``."""
        variable = self.group.input if variable is None else variable
        check = self.model.check_bounds
        if not has_scan(nodes):
            return over_draws(nodes, {variable: rows}, rows.shape[0], check)
        logger.info("the model contains a scan: draws are evaluated one after another")
        return scan_draws(nodes, variable, rows, check)

    def vectorised_logp(self, theta: TensorVariable) -> TensorVariable:
        """log p̃ at every row of ``theta``, (N, D) -> (N,)."""
        rows = theta.type()  # shapes would else be inferred through all that θ is made of
        log_p: Any = self.over_draws([self.flat_logp()], rows)
        return graph_replace(log_p, {rows: theta}, strict=False)[0]

    # ---- what PyMC's own machinery calls ---------------------------------------------------

    def symbolic_sample_over_posterior(self, node: Any, more_replacements: Any = None) -> Any:
        many = isinstance(node, list | tuple)
        nodes = self._at_point(self.to_flat_input(list(node) if many else [node]))
        out = self.over_draws(nodes, self.group.symbolic_random)
        return out if many else out[0]

    def get_optimization_replacements(self, s: Any, d: Any) -> dict[Any, Any]:
        return {}  # one draw needs no special case: there is no scan to avoid

    @node_property
    def _sized_symbolic_varlogp_and_datalogp(self) -> Any:
        return self.symbolic_sample_over_posterior(self._log_density_terms())

    @node_property
    def _single_symbolic_varlogp_and_datalogp(self) -> Any:
        return self.symbolic_single_sample(self._log_density_terms())

    # ---- numbers ---------------------------------------------------------------------------

    def _function(self, name: str, build: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
        cache = self.__dict__.setdefault("_functions", {})
        if name not in cache:
            with self.building():
                cache[name] = build()
        return cache[name]

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_functions", None)  # compiled again on demand
        return state

    def latent_draws(self, n: int, random_seed: Seed = None) -> Array:
        """z ~ N(0, I), shape (n, K); without a seed the next from the approximation's generator."""
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(f"draws must be an integer >= 1, got {n!r}")
        if random_seed is None:
            random_seed = int(self.rng.randint(2**30))
        z = np.random.default_rng(random_seed).standard_normal((n, self.group.latent_dim))
        return z.astype(pytensor.config.floatX)

    def require_exact_logp(self) -> None:
        """Raise ValueError where the model's data are ``pm.Minibatch``."""
        if self.has_minibatch:
            raise ValueError(
                "log p̃ is only a noisy estimate with pm.Minibatch data: build the model on all "
                "data to evaluate it"
            )

    def _theta_rows(self, theta: Array) -> Array:
        rows = np.asarray(theta, dtype=pytensor.config.floatX)
        if rows.ndim != 2 or rows.shape[1] != self.group.ddim:
            raise ValueError(f"theta must have shape (N, {self.group.ddim}), got {rows.shape}")
        return rows

    def log_p(self, theta: Array) -> Array:
        """log p̃ on the unconstrained space, Jacobian included; (N, D) -> (N,)."""
        self.require_exact_logp()
        return self.density.log_density(self._theta_rows(theta))

    def log_q(self, theta: Array) -> Array:
        """Normalised log q at any θ; (N, D) -> (N,). Raises TypeError if the family lacks it."""
        return self._posterior.log_density(self._theta_rows(theta))

    @property
    def _posterior(self) -> Any:
        """q; what a family had to compile for it is kept, as graphs read the present parameters."""
        if type(self.group).posterior is not TransformGroup.posterior:
            return self.q
        return self._function("posterior", lambda: self.q)

    def draws_with_logs(self, n: int, random_seed: Seed = None) -> tuple[Array, Array, Array]:
        """``n`` independent draws θ (n, D) with log p̃ (n,) and log q (n,)."""
        self.require_exact_logp()
        theta, log_q = self._posterior.forward(self.latent_draws(n, random_seed))
        return theta, self.density.log_density(theta), log_q

    def evaluate(self, draws: int = 4096, random_seed: Seed = None) -> FreshDraws:
        """ELBO and importance-sampling evidence from fresh draws of q."""
        _, lp, lq = self.draws_with_logs(draws, random_seed)
        return FreshDraws.from_log_ratios(lp - lq)

    def sample(
        self,
        draws: int = 500,
        *,
        random_seed: Seed = None,
        return_inferencedata: bool = True,
        **kwargs: Any,
    ) -> Any:
        """Draws of q as InferenceData (PyMC 6: DataTree), ``sample_stats`` with ``lp`` and ``lq``.

        Parameters
        ----------
        draws
            Number of independent draws.
        random_seed
            Seed or generator of these draws.
        return_inferencedata
            False returns PyMC's MultiTrace.
        kwargs
            Go to ``pm.to_inference_data`` (``include_transformed=True``, ``coords``, ...).

        ``lp`` is left out when the model uses ``pm.Minibatch``: it would be a noisy estimate.
        """
        variables = self.model.unobserved_value_vars
        exact = not self.has_minibatch

        def build() -> Callable[..., Any]:
            rows = pt.matrix("rows", shape=(None, self.group.ddim))
            nodes = self._at_point(self.to_flat_input(list(variables)))
            return self.compile([rows], self.over_draws(nodes, rows), on_unused_input="ignore")

        theta, log_q = self._posterior.forward(self.latent_draws(draws, random_seed))
        stats = {"lp": self.density.log_density(theta), "lq": log_q} if exact else {"lq": log_q}
        values = in_chunks(self._function("constrain", build), theta)
        trace = make_trace(self.model, variables, values, stats)
        if not return_inferencedata:
            return trace
        return pm.to_inference_data(trace, model=self.model, **{"log_likelihood": False, **kwargs})
