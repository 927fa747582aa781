"""PyMC's variational classes, extended: the only file that knows their internals.

A family is a :class:`TransformGroup` (θ = T(z), z ~ N(0, I)); :class:`VectorisedApproximation`
joins it to a model and evaluates everything over all draws at once; :class:`DeterministicInference`
and :class:`StochasticInference` are the two ways to fit it under ``pm.fit``. Serves PyMC 5 and 6.

Notation: ``theta`` (N, D) is the flat unconstrained parameter in PyMC's own order, ``z`` (N, K) the
latent normals, ``lp`` log p̃ with the log-Jacobian, ``lq`` the normalised log q.
"""

from __future__ import annotations

import contextlib
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.backends.base import MultiTrace
from pymc.backends.ndarray import NDArray as NDArrayTrace
from pymc.data import MinibatchOp
from pymc.model import modelcontext
from pymc.variational.inference import Inference
from pymc.variational.operators import KL
from pymc.variational.opvi import Approximation, Group, node_property
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.scan.op import Scan
from pytensor.tensor import TensorVariable

from pymc_ext.over_draws import checked, over_draws
from pymc_ext.periodic import refuse_periodic
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult, FreshDraws

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
Seed = int | None | np.random.Generator
LOG_2PI = float(np.log(2 * np.pi))
CHUNK = 1024  # draws evaluated together: bounds memory at CHUNK times one log density


TRAIN, FRESH, STARTS, INITIAL = range(4)  # purposes of random numbers, one stream each


def stream(random_seed: int | None, purpose: int) -> np.random.Generator:
    """Independent generator for one purpose of a fit."""
    return np.random.default_rng(None if random_seed is None else [purpose, random_seed])


def standard_normal_logp(z: TensorVariable) -> TensorVariable:
    """log N(z; 0, I) of each row, (N, K) -> (N,)."""
    return -0.5 * (z**2).sum(-1) - 0.5 * LOG_2PI * z.shape[-1]


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
    def create_shared_params(self, start: Array) -> dict[str, Any]:
        """Shared variables of the family, initialised at ``start`` (D,)."""

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

    def weighted_draws(self) -> tuple[TensorVariable, TensorVariable, TensorVariable]:
        """θ (M, D), log q (M,) and weights (M,) from ``symbolic_initial`` for objectives E_q[·]."""
        theta, log_q = self.symbolic_random, self.symbolic_logq
        return theta, log_q, pt.ones_like(log_q)

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        """Normalised log q at any θ, (N, D) -> (N,); not every family has it."""
        raise TypeError(
            f"{type(self).__name__} has no log q at arbitrary points, only at its own draws: use "
            "draws_with_logs"
        )


class PointGroup(Group):
    """Variables held at one value, which the fit may move (empirical Bayes)."""

    has_logq = True

    def __init_group__(self, group: list[TensorVariable]) -> None:
        super().__init_group__(group)
        start = self._prepare_start(self._kwargs.get("start"))
        if not np.all(np.isfinite(start)):
            raise ValueError(f"start of the hyperparameters must be finite, got {start}")
        self.shared_params = {"point": pytensor.shared(pm.pytensorf.floatX(start), "point")}
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


def require_double_precision(inference: Any) -> None:
    """ValueError under PyTensor's floatX='float32'."""
    if pytensor.config.floatX != "float64":
        raise ValueError(
            f"{type(inference).__name__} works in double precision: set PyTensor's floatX to "
            f"'float64', got {pytensor.config.floatX!r}"
        )


def check_start(model: pm.Model, start: Mapping[str, Any] | None) -> None:
    """Raise ValueError unless ``start`` names free variables and has their shapes."""
    free = {rv.name: rv.type.shape for rv in model.free_RVs}
    values = {model.rvs_to_values[rv].name for rv in model.free_RVs}
    for name, value in (start or {}).items():
        if name in free:
            shape, got = free[name], np.shape(value)
            if len(shape) != len(got) or any(
                n not in (None, m) for n, m in zip(shape, got, strict=True)
            ):
                raise ValueError(f"start of {name!r} must have shape {shape}, got {got}")
        elif name not in values:
            raise ValueError(
                f"start must name free variables of the model, got {name!r}; the model has "
                f"{list(free)}"
            )


def resolve_hyperparameters(model: pm.Model, hyperparameters: Sequence[Any]) -> list[Any]:
    """The model's free variables named in ``hyperparameters`` (variables or names), model order."""
    if isinstance(hyperparameters, str):
        hyperparameters = [hyperparameters]
    names = [h if isinstance(h, str) else getattr(h, "name", repr(h)) for h in hyperparameters]
    free = [rv.name for rv in model.free_RVs]
    unknown = [name for name in names if name not in free]
    if unknown:
        raise ValueError(
            f"hyperparameters must be free variables of the model, got {unknown}; the model has "
            f"{free}"
        )
    if names and set(names) == set(free):
        raise ValueError(
            f"every free variable {free} is listed as a hyperparameter: leave at least one to be "
            "approximated, or use pm.find_MAP"
        )
    return [rv for rv in model.free_RVs if rv.name in names]


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
        self.compile_seconds = 0.0
        self._building = False
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

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        """Time spent inside, on graphs and their compilation, is added to ``compile_seconds``."""
        if self._building:
            yield
            return
        self._building, begin = True, time.perf_counter()
        try:
            yield
        finally:
            self._building = False
            self.compile_seconds += time.perf_counter() - begin

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
        if not any(isinstance(v.owner.op, Scan) for v in ancestors(nodes) if v.owner is not None):
            return over_draws(nodes, {variable: rows}, rows.shape[0], check)
        logger.info("the model contains a scan: draws are evaluated one after another")
        nodes = checked(nodes, check)
        out = pytensor.scan(
            lambda row, *_: graph_replace(nodes, {variable: row}, strict=False),
            sequences=[rows],
            non_sequences=[v for v in ancestors(nodes) if _is_minibatch_index(v)],
            return_updates=False,
        )
        return list(out) if isinstance(out, list | tuple) else [out]

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

    def _chunked(self, function: Callable[..., Any], rows: Array) -> list[Array]:
        parts = [function(rows[i : i + CHUNK]) for i in range(0, len(rows), CHUNK)]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

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
        t = pt.matrix("theta", shape=(None, self.group.ddim))
        f = self._function("log_p", lambda: self.compile([t], [self.vectorised_logp(t)]))
        return self._chunked(f, self._theta_rows(theta))[0]

    def log_q(self, theta: Array) -> Array:
        """Normalised log q at any θ; (N, D) -> (N,). Raises TypeError if the family lacks it."""
        t = pt.matrix("theta", shape=(None, self.group.ddim))
        f = self._function("log_q", lambda: self.compile([t], [self.group.log_density(t)]))
        return self._chunked(f, self._theta_rows(theta))[0]

    def draws_with_logs(self, n: int, random_seed: Seed = None) -> tuple[Array, Array, Array]:
        """``n`` independent draws θ (n, D) with log p̃ (n,) and log q (n,)."""
        self.require_exact_logp()

        def build() -> Callable[..., Any]:
            theta = self.group.symbolic_random
            outputs = [theta, self.vectorised_logp(theta), self.group.symbolic_logq]
            return self.compile([self.group.symbolic_initial], outputs)

        f = self._function("draws_with_logs", build)
        theta, lp, lq = self._chunked(f, self.latent_draws(n, random_seed))
        return theta, lp, lq

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
            theta = self.group.symbolic_random
            nodes = self._at_point(self.to_flat_input(list(variables)))
            nodes += [self.flat_logp()] if exact else []
            outputs = [*self.over_draws(nodes, theta), self.group.symbolic_logq]
            return self.compile([self.group.symbolic_initial], outputs)

        f = self._function("sample", build)
        values = self._chunked(f, self.latent_draws(draws, random_seed))
        stats = {"lp": values[-2], "lq": values[-1]} if exact else {"lq": values[-1]}
        trace = _trace(self.model, variables, values[: len(variables)], stats)
        if not return_inferencedata:
            return trace
        return pm.to_inference_data(trace, model=self.model, **{"log_likelihood": False, **kwargs})


def _is_minibatch_index(variable: Any) -> bool:
    return variable.owner is not None and isinstance(variable.owner.op, MinibatchOp)


def _no_recording(*_: Any) -> None:
    raise RuntimeError("draws are written as arrays, not recorded one by one")


def _trace(
    model: pm.Model,
    variables: Sequence[Any],
    values: Sequence[Array],
    stats: Mapping[str, Array],
) -> MultiTrace:
    """Arrays with a leading draw axis as PyMC's MultiTrace, one chain."""
    trace = NDArrayTrace(
        model=model,
        vars=list(variables),
        fn=_no_recording,
        var_shapes={v.name: x.shape[1:] for v, x in zip(variables, values, strict=True)},
        var_dtypes={v.name: x.dtype for v, x in zip(variables, values, strict=True)},
    )
    n = len(next(iter(stats.values())))
    trace.setup(draws=n, chain=0, sampler_vars=[{name: x.dtype for name, x in stats.items()}])
    for variable, value in zip(variables, values, strict=True):
        trace.samples[variable.name][...] = value
    for name, x in stats.items():
        trace._stats[0][name][...] = x
    trace.draw_idx = n
    trace.close()
    return MultiTrace([trace])


class DeterministicInference(Inference):
    """A fit whose ``fit`` maximises a deterministic objective instead of following noisy gradients.

    A subclass gives :meth:`optimise`. Works as ``pm.fit(n, method=instance)``; ``n`` bounds the
    iterations and 0 only initialises.
    """

    name = "deterministic"
    hist: Array

    def __init__(self, approx: VectorisedApproximation, *, random_seed: int | None = None) -> None:
        require_double_precision(self)
        super().__init__(KL, approx, None)
        self.random_seed = random_seed
        self._callbacks: Sequence[Callable[..., Any]] = ()
        self._unfitted = [(v, v.get_value()) for v in approx.shared_variables()]

    @abstractmethod
    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        """Move the parameters of ``self.approx`` to the optimum, in at most ``n`` iterations."""

    def fit(
        self,
        n: int = 10_000,
        score: bool | None = None,
        callbacks: Sequence[Callable[..., Any]] | None = None,
        progressbar: bool = True,
        progressbar_theme: Any = None,
        *,
        backend: str | None = None,
        include_transformed: bool = False,
        compile_kwargs: Mapping[str, Any] | None = None,
        **unsupported: Any,
    ) -> VectorisedApproximation:
        """Fit and return the approximation; arguments as :meth:`pymc.Inference.fit`.

        ``callbacks`` are called as ``callback(approx, losses, i)`` after each iteration and may
        raise StopIteration. ``score=False`` keeps no loss history.
        """
        if unsupported:
            raise TypeError(
                f"{type(self).__name__}.fit optimises deterministically and does not take "
                f"{sorted(unsupported)}: these belong to PyMC's stochastic loop"
            )
        if not isinstance(n, int | np.integer) or n < 0:
            raise ValueError(f"n must be an integer >= 0, got {n!r}")
        self.approx.compile_kwargs = resolve_compile_kwargs(backend, compile_kwargs)
        for group in self.approx.groups:
            group.include_transformed = include_transformed
        self._callbacks = tuple(callbacks or ())
        return self._run(n, score is None or score, progressbar)

    def _run(self, n: int, score: bool, progressbar: bool) -> VectorisedApproximation:
        with Monitor(self.approx, self._callbacks, len(self.hist), n, progressbar) as monitor:
            self.approx.result = self.optimise(n, monitor) if n else self._initial_result()
        if score:
            self.hist = np.concatenate([self.hist, monitor.history])
        self.approx.hist = self.hist
        return self.approx

    def restart(self) -> None:
        """Forget the fit but not the compiled functions.

        For the same model on other data (``pm.set_data``): the next ``fit`` starts afresh without
        compiling again.
        """
        for variable, value in self._unfitted:
            variable.set_value(value)
        self.hist = self.approx.hist = np.asarray(())
        self.approx.result = None

    def refine(self, n: int, progressbar: bool = True, progressbar_theme: Any = None) -> None:
        """Continue from the present parameters for at most ``n`` iterations."""
        if self.approx.result is None:
            raise TypeError("call fit before refine")
        self._run(n, True, progressbar)

    def fresh_draws(self) -> FreshDraws:
        """Estimates from draws of the fitted q on a random stream of their own."""
        return self.approx.evaluate(random_seed=stream(self.random_seed, FRESH))

    def _initial_result(self) -> FitResult:
        return FitResult(
            method=self.name,
            converged=False,
            stop_reason="n = 0: initialised only",
            iterations=0,
            seconds=0.0,
            compile_seconds=self.approx.compile_seconds,
            random_seed=self.random_seed,
        )


class StochasticInference(Inference):
    """A fit by PyMC's own stochastic loop, with a :class:`FitResult` at the end.

    All arguments of PyMC's ``Inference.fit`` apply (``obj_optimizer``, ``obj_n_mc``,
    ``callbacks``, ``total_grad_norm_constraint``, ...).
    """

    name = "stochastic"

    def __init__(self, approx: VectorisedApproximation, *, random_seed: int | None = None) -> None:
        super().__init__(KL, approx, None)
        self.random_seed = random_seed

    def fit(self, n: int = 10_000, *args: Any, obj_n_mc: int = 1, **kwargs: Any) -> Any:
        """As :meth:`pymc.Inference.fit`; ``obj_n_mc`` draws a step."""
        self._draws_per_step = obj_n_mc
        start = super().fit
        self._stepped(n, lambda: start(n, *args, obj_n_mc=obj_n_mc, **kwargs))
        return self.approx

    def refine(self, n: int, progressbar: bool = True, progressbar_theme: Any = None) -> None:
        """Continue from the present parameters for ``n`` steps."""
        theme = {} if progressbar_theme is None else {"progressbar_theme": progressbar_theme}
        resume = super().refine
        self._stepped(n, lambda: resume(n, progressbar, **theme))

    def _stepped(self, n: int, steps: Callable[[], Any]) -> None:
        """Run PyMC's loop and report it."""
        approx, before = self.approx, len(self.hist)
        begin, compiled = time.perf_counter(), approx.compile_seconds
        with _counting_compilation(self.objective, approx):
            steps()
        compile_seconds = approx.compile_seconds - compiled
        seconds = time.perf_counter() - begin - compile_seconds
        approx.hist = self.hist
        iterations = len(self.hist) - before or n  # without scores PyMC does not count
        exact = n > 0 and not approx.has_minibatch
        done = "all iterations done" if n else "n = 0: initialised only"
        approx.result = FitResult(
            method=self.name,
            converged=False,
            stop_reason=done if iterations == n else "stopped by a callback",
            iterations=iterations,
            seconds=seconds,
            compile_seconds=compile_seconds,
            density_evaluations=iterations * self._draws_per_step,
            gradient_evaluations=iterations * self._draws_per_step,
            random_seed=self.random_seed,
            fresh=approx.evaluate(random_seed=stream(self.random_seed, FRESH)) if exact else None,
        )


@contextlib.contextmanager
def _counting_compilation(objective: Any, approx: VectorisedApproximation) -> Iterator[None]:
    """PyMC compiles its step in the middle of ``fit``: count that as compilation."""
    build = objective.step_function

    def timed(*args: Any, **kwargs: Any) -> Any:
        with approx.building():
            return build(*args, **kwargs)

    objective.step_function = timed
    try:
        yield
    finally:
        del objective.step_function


def resolve_compile_kwargs(
    backend: str | None, compile_kwargs: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Keyword arguments of PyTensor's compilation; ``backend`` as in PyMC 6."""
    kwargs = dict(compile_kwargs or {})
    if backend is None:
        return kwargs
    with contextlib.suppress(ImportError):
        from pymc.pytensorf import resolve_backend_compile_kwargs

        return resolve_backend_compile_kwargs(backend, kwargs)
    raise TypeError(
        "backend= of pm.fit needs PyMC 6; on PyMC 5 pass compile_kwargs={'mode': ...} "
        "(BernsteinVI has a backend= of its own)"
    )
