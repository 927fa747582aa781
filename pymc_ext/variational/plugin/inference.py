"""The thin plug-in that makes any algorithm a method of ``pm.fit``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import ClassVar

import numpy as np
import pymc as pm

from pymc_ext.density import CountedDensity
from pymc_ext.density.undefined import refuse_missing_data, require_defined
from pymc_ext.maths.types import Array
from pymc_ext.options import RefusesKeywords, require_count
from pymc_ext.pymc_versions import resolve_backend_compile_kwargs
from pymc_ext.variational.core.algorithm import Algorithm, Fitted, run_algorithm
from pymc_ext.variational.core.effort import Effort
from pymc_ext.variational.core.monitor import Callback, FitStopped, Monitor, kept_nothing
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.checks import INSTEAD, require_double_precision
from pymc_ext.variational.plugin.groups import FittedGroup
from pymc_ext.variational.plugin.pymc_variational import KL, Inference
from pymc_ext.variational.plugin.types import CompileOptions, Hyperparameters, Start

logger = logging.getLogger(__name__)
RICH = (
    "hierarchical",
    "basins",
    "bernstein",
    "bernstein-hierarchical",
)  # who tried these is not told of a map


class AlgorithmVI(RefusesKeywords, Inference):
    """An :class:`Algorithm` as a method of ``pm.fit``: makes the density, runs it, keeps q.

    None of PyMC's own loop is in it: ``n`` bounds the algorithm's iterations, and 0 only
    initialises. ``fit`` and ``refine`` go on from where the last one ended, until :meth:`restart`;
    ``hist`` (T,) has the losses of all of them.

    Parameters
    ----------
    algorithm
        What fits q to the model's density.
    family
        PyMC's view of q: a group that can hold what the algorithm returns. The default takes any q.
    model, start, hyperparameters, random_seed
        As :class:`pymc_ext.LaplaceVI`.
    approximation, options
        Class of what ``pm.fit`` returns, and what the group is to be told.

    Examples
    --------
    >>> from pymc_ext.variational.gaussian.laplace import Laplace
    >>> with model:
    ...     approx = pm.fit(method=AlgorithmVI(Laplace(), random_seed=1))
    """

    instead = INSTEAD
    hist: Array
    # of fits where log p̃ may be finite nowhere, which is then looked at
    failures: ClassVar[tuple[type[Exception], ...]] = (
        ValueError,
        ArithmeticError,
        RuntimeError,
        FitStopped,
    )

    def __init__(
        self,
        algorithm: Algorithm[Posterior],
        family: type[FittedGroup] = FittedGroup,
        *,
        model: pm.Model | None = None,
        start: Start | None = None,
        hyperparameters: Hyperparameters = (),
        random_seed: int | None = None,
        approximation: type[VectorisedApproximation] = VectorisedApproximation,
        **options: object,
    ) -> None:
        approx = approximation(
            family,
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
            **options,
        )
        require_double_precision(self)
        super().__init__(KL, approx, None)
        self.random_seed = random_seed
        self._callbacks: Sequence[Callback] = ()
        self._unfitted = [(v, v.get_value()) for v in approx.shared_variables()]
        self.algorithm = algorithm
        self.name = algorithm.name
        self.state: object | None = None  # of the last run, from which the next goes on
        self._counted: CountedDensity | None = None  # one, so that `refine` is counted too

    @property
    def default_budget(self) -> int:
        """Iterations of a fit that is told none."""
        return self.algorithm.default_budget

    def fit(
        self,
        n: int | None = None,
        score: bool | None = None,
        callbacks: Sequence[Callback] | None = None,
        progressbar: bool = True,
        progressbar_theme: object = None,
        *,
        backend: str | None = None,
        include_transformed: bool = False,
        compile_kwargs: CompileOptions | None = None,
        **unsupported: object,
    ) -> VectorisedApproximation:
        """Fit and return the approximation; arguments as :meth:`pymc.Inference.fit`.

        ``n`` of None is :attr:`default_budget`. ``callbacks`` are called as
        ``callback(approx, losses, i)`` after each iteration and may raise StopIteration.
        ``score=False`` keeps no loss history. TypeError where ``callbacks`` are none. ValueError
        where the model of the context is not that of the family; ``model=`` of :func:`pymc.fit`
        does not reach an instance.
        """
        if unsupported:
            from pymc_ext.variational.plugin.fit_keywords import refuse_fit_keywords

            refuse_fit_keywords(self, unsupported)
        if pm.Model.get_context(error_if_none=False) not in (None, self.approx.model):
            raise ValueError(
                f"{type(self).__name__} was made for another model than the one of this "
                "`with model:`: make one for each model"
            )
        n = self.default_budget if n is None else n
        require_count("n", n, least=0)
        self.approx.use_compile_kwargs(_resolved(backend, compile_kwargs))
        for group in self.approx.groups:
            group.include_transformed = include_transformed
        self._callbacks = checked_callbacks(callbacks)
        return self._run(n, score is None or score, progressbar)

    def _run(self, n: int, score: bool, progressbar: bool) -> VectorisedApproximation:
        first, show = len(self.hist), self.approx.group.hold
        with Monitor(self.approx, self._callbacks, first, n, progressbar, show) as monitor:
            self.approx.result = self.optimise(n, monitor) if n else self._initial_result()
        result = self.approx.result
        if result.weighted is not None and not result.usable:
            instead = "" if result.method in RICH else "try px.HierarchicalVI(), or "
            instead = f"; {instead}make exact draws by px.sample(approx)"
            whose = ", of its proposal" if result.of_proposal else ""
            logger.warning("%s is not to be trusted: %s%s%s", result.method, result.verdict, whose,
                           "" if result.weighted.infinite else instead)  # fmt: skip
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
        self.approx.group.forget()
        self.hist = self.approx.hist = np.asarray(())
        self.approx.result = self.approx.proposal = self.state = None

    def refine(self, n: int, progressbar: bool = True, progressbar_theme: object = None) -> None:
        """Continue from the present parameters for at most ``n`` iterations.

        Raises
        ------
        TypeError
            There has been no fit.
        """
        if self.approx.result is None:
            raise TypeError("call fit before refine")
        self._run(n, True, progressbar)

    def fresh_draws(self) -> FreshDraws:
        """Estimates from draws of the fitted q on a random stream of their own."""
        return self.approx.evaluate(random_seed=stream(self.random_seed, Purpose.FRESH))

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

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        """Run the algorithm for at most ``n`` iterations, each shown to ``monitor``; keep its q.

        Raises
        ------
        DensityError
            log p̃ is not finite where the fit starts, or nowhere near it.
        """
        refuse_missing_data(self.approx.model)
        density = self.counted_density()
        effort = Effort(density)
        start = self.approx.group.start
        try:
            with kept_nothing():
                self.check_start(density)
            fitted = run_algorithm(
                self.algorithm, density, start, n,
                random_seed=self.random_seed, monitor=monitor, state=self.state, effort=effort,
            )  # fmt: skip
        except self.failures:
            require_defined(self.approx.density, start)  # it says more than any algorithm can
            raise
        self.state = fitted.state
        self.approx.group.hold(fitted.q)
        self.approx.proposal = fitted.proposal
        self.approx.options = repr(self.algorithm)
        self.keep(fitted)
        return fitted.result

    def check_start(self, density: CountedDensity) -> None:
        """Raise ValueError where a fit cannot start; an algorithm may have its own way out."""

    def counted_density(self) -> CountedDensity:
        """The model's density with its one count."""
        if self._counted is None or self._counted.density is not self.approx.density:
            self._counted = CountedDensity(self.approx.density)
        return self._counted

    def keep(self, fitted: Fitted[Posterior]) -> None:
        """What else of the fit the approximation remembers."""


def checked_callbacks(callbacks: Sequence[Callback] | None) -> tuple[Callback, ...]:
    """All of them; TypeError unless they are functions in a list."""
    given = tuple(callbacks or ()) if isinstance(callbacks, Iterable | None) else None
    if given is None or not all(map(callable, given)):
        raise TypeError(
            "callbacks must be a list of functions, each called as callback(approx, losses, i), "
            f"got {callbacks!r}"
        )
    return given


def _resolved(backend: str | None, compile_kwargs: CompileOptions | None) -> dict[str, object]:
    """Keyword arguments of PyTensor's compilation, as PyMC 5 and 6 take them."""
    kwargs = dict(compile_kwargs or {})
    if backend is None:
        return kwargs
    if resolve_backend_compile_kwargs is None:
        raise TypeError(
            "backend= of pm.fit needs PyMC 6; on PyMC 5 pass compile_kwargs={'mode': ...} "
            "(BernsteinVI has a backend= of its own)"
        )
    return resolve_backend_compile_kwargs(backend, kwargs)
