"""``pm.fit`` methods for logistic models that are affine in Gaussian-prior variables.

:class:`AffineInference` chooses the algorithm from the model: natural-gradient Newton where all
variables are linear, the same with decreasing steps for ``pm.Minibatch`` data, and L-BFGS over
fixed draws of the scales in a hierarchical model. A subclass says which bound is used.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.model import modelcontext
from pytensor.tensor import TensorVariable
from scipy.linalg import cholesky, solve_triangular

from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.core.inference import DeterministicInference
from pymc_ext.variational.core.monitor import STOPPED, Monitor
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.types import Start
from pymc_ext.variational.gaussian.base_draws import base_draws
from pymc_ext.variational.gaussian.fixed_draws import overfits
from pymc_ext.variational.gaussian.groups import DiagonalGroup, GaussianGroup
from pymc_ext.variational.gaussian.monte_carlo import check_covariance
from pymc_ext.variational.logistic.affine import logistic_terms, split_affine
from pymc_ext.variational.logistic.hierarchical import (
    HierarchicalObjective,
    Layout,
    layout_of,
    minimise,
)
from pymc_ext.variational.logistic.newton import (
    Fit,
    Gaussian,
    Softplus,
    exact_softplus,
    expand,
    maximise,
    step,
)
from pymc_ext.variational.logistic.numbers import (
    GaussianPrior,
    LogisticData,
    data_reader,
    prior_reader,
)

Array = NDArray[np.floating]
_Functions = tuple[Callable[[], GaussianPrior], Callable[[], LogisticData], Softplus]
STEP_POWER = 0.7  # step t of the stochastic natural gradient is (t + 2)^−0.7 (Robbins–Monro)


def first_gaussian(mean: Array, data: LogisticData, prior: GaussianPrior, full: bool) -> Gaussian:
    """N(mean, Λ⁻¹) with the largest curvature the likelihood can have, h = 1/4."""
    X = data.X * np.sqrt(0.25 * data.trials * data.weight)[:, None]
    precision = prior.precision + X.T @ X
    if full:
        return Gaussian(mean, cholesky(precision, lower=True))
    return Gaussian(mean, None, np.diag(precision) ** -0.5)


class AffineInference(DeterministicInference):
    """Shared engine of :class:`ViperVI` and :class:`JaakkolaVI`."""

    def __init__(
        self,
        covariance: str,
        *,
        tolerance: float,
        draws: int,
        model: pm.Model | None,
        start: Start | None,
        random_seed: int | None,
    ) -> None:
        check_covariance(covariance)
        if not tolerance > 0:
            raise ValueError(f"tolerance must be > 0 nats, got {tolerance}")
        if not isinstance(draws, int | np.integer) or draws < 2:
            raise ValueError(f"draws must be an integer >= 2, got {draws!r}")
        model = modelcontext(model)
        self.terms = logistic_terms(model)
        self.split = split_affine(model, self.terms)
        self.full = covariance == "full"
        self.covariance, self.tolerance, self.draws = covariance, tolerance, draws
        approx = VectorisedApproximation(
            GaussianGroup if self.full else DiagonalGroup,
            model=model,
            start=start,
            random_seed=random_seed,
        )
        if self.split.given and approx.has_minibatch:
            names = [rv.name for rv in self.split.given]
            raise ValueError(
                f"pm.Minibatch needs every variable in the linear part, but {names} are not: fix "
                "them, or use all data"
            )
        super().__init__(approx, random_seed=random_seed)
        self._functions: _Functions | None = None
        self._q: Gaussian | None = None
        self._x: Array | None = None

    def restart(self) -> None:
        super().restart()
        self._q = self._x = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in records, such as ``viper-full``."""
        return f"{self.label}-{self.covariance}"

    label = "affine"

    @abstractmethod
    def numeric(self) -> Softplus:
        """(ϑ, τ) -> value, slope in ϑ and curvature of the (bound on the) expected softplus."""

    @abstractmethod
    def symbolic(self, theta: TensorVariable, tau: TensorVariable) -> TensorVariable:
        """The same value as a graph."""

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        if self.split.given:
            return self._hierarchical(n, monitor)
        if self.approx.has_minibatch:
            return self._stochastic(n, monitor)
        return self._newton(n, monitor)

    def _set(self, q: Gaussian) -> None:
        group = self.approx.group
        if q.R is None:
            group.set_scale(q.mean, q.scale)
        else:
            eye = np.eye(len(q.mean))
            group.set_base(q.mean, solve_triangular(q.R, eye, lower=True).T, q.R.T)

    def _result(self, begin: float, compiled: float, **values: Any) -> FitResult:
        compile_seconds = self.approx.compile_seconds - compiled
        return FitResult(
            method=self.name,
            seconds=time.perf_counter() - begin - compile_seconds,
            compile_seconds=compile_seconds,
            random_seed=self.random_seed,
            **values,
        )

    # ---- all variables linear --------------------------------------------------------------

    def _newton(self, n: int, monitor: Monitor) -> FitResult:
        begin, compiled = time.perf_counter(), self.approx.compile_seconds
        read_prior, read, softplus = self._compiled()
        prior, data = read_prior(), read()
        q = self._q or first_gaussian(self.approx.group.start, data, prior, self.full)

        def report(q: Gaussian, elbo: float) -> None:
            self._set(q)
            monitor(-elbo)

        fit = maximise(
            data, prior, softplus, q, iterations=n, tolerance=self.tolerance, report=report
        )
        self._q = fit.q
        self._set(fit.q)
        return self._result(
            begin,
            compiled,
            converged=fit.converged,
            stop_reason=fit.reason,
            iterations=fit.iterations,
            gradient_evaluations=fit.evaluations,
            train_elbo=fit.elbo,
            exact_elbo=self._exact_elbo(fit, data, prior),
            notes=(self.elbo_note,),
        )

    elbo_note = "train_elbo is the ELBO"
    maximises_elbo = True  # otherwise a bound on it

    def _exact_elbo(self, fit: Fit, data: LogisticData, prior: GaussianPrior) -> float:
        return fit.elbo if self.maximises_elbo else expand(fit.q, data, prior, exact_softplus).elbo

    def _compiled(self) -> _Functions:
        """Compiled readers of prior and data, and the softplus; kept for ``refine``."""
        if self._functions is None:
            with self.approx.building():
                self._functions = (
                    prior_reader(self.approx),
                    data_reader(self.approx, self.terms, self.random_seed),
                    self.numeric(),
                )
        return self._functions

    # ---- minibatches -----------------------------------------------------------------------

    def _stochastic(self, n: int, monitor: Monitor) -> FitResult:
        begin, compiled = time.perf_counter(), self.approx.compile_seconds
        read_prior, read, softplus = self._compiled()
        prior = read_prior()
        first = len(self.hist)
        q = self._q or first_gaussian(self.approx.group.start, read(), prior, self.full)
        for i in range(n):
            at = expand(q, read(), prior, softplus)
            moved = step(q, at, (first + i + 2.0) ** -STEP_POWER)
            q = self._q = q if moved is None else moved
            self._set(q)
            try:
                monitor(-at.elbo)
            except StopIteration:
                break
        done = len(monitor.losses)
        return self._result(
            begin,
            compiled,
            converged=False,
            stop_reason=STOPPED if monitor.stopped else "all iterations done",
            iterations=done,
            gradient_evaluations=done,
            notes=("the losses are noisy: each is the −ELBO estimated on one minibatch",),
        )

    # ---- hierarchical ----------------------------------------------------------------------

    def _hierarchical(self, n: int, monitor: Monitor) -> FitResult:
        begin, compiled = time.perf_counter(), self.approx.compile_seconds
        layout = layout_of(self.approx, self.split, diagonal=not self.full)
        with self.approx.building():
            objective = HierarchicalObjective(self.approx, self.terms, layout, self.symbolic)
        observations = len(data_reader(self.approx, self.terms, self.random_seed)().y)
        rng = stream(self.random_seed, Purpose.TRAIN)
        eps = base_draws(self.draws, len(layout.given), "sobol", rng)

        def report(x: Array, loss: float) -> None:
            self._set_root(layout, x)
            monitor(loss)

        x = layout.start() if self._x is None else self._x
        out = minimise(lambda x: objective(x, eps, observations), x, n, report)
        self._x = out.x
        self._set_root(layout, out.x)
        fresh = self.fresh_draws()
        given = ", ".join(str(rv.name) for rv in self.split.given)
        notes = [f"averaged over draws of: {given}", self.elbo_note]
        if overfits(-float(out.fun), fresh):
            notes.append("train_elbo exceeds the fresh ELBO by more than chance: raise draws")
        return self._result(
            begin,
            compiled,
            converged=bool(out.success),
            stop_reason=str(out.message),
            iterations=int(out.nit),
            gradient_evaluations=objective.evaluations * self.draws,
            train_elbo=-float(out.fun),
            train_draws=self.draws,
            fresh=fresh,
            notes=tuple(notes),
        )

    def _set_root(self, layout: Layout, x: Array) -> None:
        mean, root = layout.unpack(x)
        if self.full:
            self.approx.group.set_base(mean, root, np.linalg.inv(root))
        else:
            scale = np.empty(len(mean))
            scale[layout.order] = np.diag(layout.root) * np.exp(x[len(mean) : 2 * len(mean)])
            self.approx.group.set_scale(mean, scale)
