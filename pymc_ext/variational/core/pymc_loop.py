"""A fit by PyMC's own stochastic loop."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from pymc.variational.inference import Inference
from pymc.variational.operators import KL

from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream


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
        rng = stream(self.random_seed, Purpose.FRESH)
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
            fresh=approx.evaluate(random_seed=rng) if exact else None,
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
