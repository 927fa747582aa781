"""Gaussians for logistic models by a closed form of the expected softplus, or a bound on it.

:class:`ClosedForm` chooses by the density: natural-gradient Newton where all variables
are linear, the same with decreasing steps for ``pm.Minibatch`` data, and L-BFGS over fixed draws of
the scales in a hierarchical model. A subclass says which bound is used.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm
from pytensor.tensor import TensorVariable

from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count, require_number
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.monitor import STOPPED, Monitor
from pymc_ext.variational.core.notes import notes_on
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.elbo.fixed_draws import overfits
from pymc_ext.variational.elbo.normals import fixed_normals
from pymc_ext.variational.gaussian.monte_carlo import check_covariance
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from pymc_ext.variational.logistic.affine import (
    AffineSplit,
    AffinityError,
    logistic_terms,
    split_affine,
)
from pymc_ext.variational.logistic.density import LogisticAlgorithm, LogisticDensity
from pymc_ext.variational.logistic.hierarchical import (
    AveragedElbo,
    conditional,
    first_family,
    minimise,
)
from pymc_ext.variational.logistic.judged import IN_A_FILE, TOO_MANY_ROWS, judged
from pymc_ext.variational.logistic.newton import (
    Normal,
    Softplus,
    exact_softplus,
    expand,
    first_gaussian,
    maximise,
    step,
)
from pymc_ext.variational.logistic.numbers import GaussianPrior, LogisticData
from pymc_ext.variational.logistic.streamed import RowsOfFile

ROUGH = 1e-3  # nats of all rows, to which a sample's Gaussian is found: a start of the passes
ADVICE = "the posterior is not Gaussian enough; fit px.HierarchicalVI"
STEP_POWER = 0.7  # step t of the stochastic natural gradient is (t + 2)^−0.7 (Robbins–Monro)


@dataclass(frozen=True)
class ClosedForm(LogisticAlgorithm[Normal]):
    """Shared algorithm of :class:`~.viper.Viper` and :class:`~.jaakkola.Jaakkola`.

    On a :class:`LogisticDensity`, or the density of a PyMC model that it can be read from.

    Parameters
    ----------
    covariance
        ``"full"`` or ``"diagonal"``.
    tolerance
        Newton stops when the natural gradient promises less than this, in nats.
    draws
        Sobol draws of the variables that are not linear.
    """

    takes_noise: ClassVar[bool] = True
    label: ClassVar[str]
    covariance: str = "full"
    tolerance: float = 1e-10
    draws: int = 128

    def __post_init__(self) -> None:
        check_covariance(self.covariance)
        require_number("tolerance", self.tolerance)
        if not self.tolerance > 0:
            raise ValueError(f"tolerance must be > 0 nats, got {self.tolerance}")
        require_count("draws", self.draws, least=2)

    @property
    def name(self) -> str:
        """Name in records, such as ``viper-full``."""
        return f"{self.label}-{self.covariance}"

    @property
    @abstractmethod
    def bound(self) -> str:
        """What the objective is a bound by, in words; empty where it is the ELBO itself."""

    @abstractmethod
    def softplus(self, density: LogisticDensity) -> Softplus:
        """The (bound on the) expected softplus in numbers; ``density`` compiles."""

    @abstractmethod
    def graph(self, theta: TensorVariable, tau: TensorVariable) -> TensorVariable:
        """The same value as a graph, which is differentiated in a hierarchical model."""

    @staticmethod
    def read(model: pm.Model) -> AffineSplit:
        """What the graph of ``model`` says. Raises AffinityError where it is not covered."""
        return split_affine(model, logistic_terms(model))

    @property
    def note(self) -> str:
        """What the training ELBO is."""
        if self.bound:
            return f"train_elbo is a lower bound on the ELBO ({self.bound})"
        return "train_elbo is the ELBO"

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Normal]:
        logistic = self.logistic(density)
        if any(term.rows > 1 for term in logistic.split.terms):
            raise AffinityError("the likelihood is a softmax: expected logits, use Matching")
        run = _Run(self, logistic, density, start, seed, budget, monitor, state)
        if logistic.split.given:
            return run.hierarchical()
        return run.stochastic() if logistic.noisy else run.newton()


@dataclass(frozen=True)
class _Run:
    """One run: of a Gaussian and the steps taken, or of the numbers of a family, as its state."""

    algorithm: ClosedForm
    density: LogisticDensity
    counted: CountedDensity
    start: Array
    seed: int | None
    budget: int
    monitor: Monitor
    state: object

    def newton(self) -> Fitted[Normal]:
        prior, data, softplus = self.density.prior(), self.density.data(), self._softplus()
        fit = maximise(
            data, prior, softplus, self._first_of(data, prior, softplus),
            iterations=self.budget, tolerance=self.algorithm.tolerance,
            report=lambda q, elbo: self.monitor(-elbo, lambda: q),
        )  # fmt: skip
        self.counted.count(fit.evaluations)
        exact = fit.elbo
        if self.algorithm.bound:
            exact = expand(fit.q, data, prior, exact_softplus).elbo
        fresh = None
        if isinstance(data, LogisticData):
            fresh = judged(fit.q, prior, data, self.counted, stream(self.seed, Purpose.FRESH))
        result = FitResult(
            method=self.algorithm.name,
            converged=fit.converged,
            stop_reason=fit.reason,
            iterations=fit.iterations,
            train_elbo=fit.elbo,
            fresh=fresh,
            exact_elbo=exact,
            notes=(self.algorithm.note, *(() if fresh is None else notes_on(fresh, ADVICE))),
            unjudged=TOO_MANY_ROWS if isinstance(data, LogisticData) else IN_A_FILE,
        )
        return Fitted(fit.q, result, (fit.q, 0))

    def stochastic(self) -> Fitted[Normal]:
        prior, softplus = self.density.prior(), self._softplus()
        q, first = self._first(self.density.data, prior)
        for i in range(self.budget):
            at = expand(q, self.density.data(), prior, softplus)
            q = step(q, at, (first + i + 2.0) ** -STEP_POWER) or q
            try:
                self.monitor(-at.elbo, lambda: q)  # noqa: B023  # called at once
            except StopIteration:
                break
        done, stopped = len(self.monitor.losses), self.monitor.stopped
        self.counted.count(done)
        result = FitResult(
            method=self.algorithm.name,
            converged=False,
            stop_reason=STOPPED if stopped else "all iterations done",
            iterations=done,
            notes=("the losses are noisy: each is the −ELBO estimated on one minibatch",),
        )
        return Fitted(q, result, (q, first + done))

    def hierarchical(self) -> Fitted[Normal]:
        algorithm, density = self.algorithm, self.density
        expected = density.once(
            (algorithm, "conditional"), lambda: conditional(density, algorithm.graph)
        )
        family = first_family(density, self.start, self.full)
        if isinstance(self.state, np.ndarray):
            family.x = self.state
        rng = stream(self.seed, Purpose.TRAIN)
        eps = fixed_normals(algorithm.draws, len(density.given), "sobol", rng)
        loss = AveragedElbo(density, expected, family, eps)

        def at(x: Array) -> Normal:
            family.x = x
            q = family.posterior()
            return q if self.full else DiagonalGaussian(q.mean, q.std)

        out = minimise(
            loss, family.x, self.budget, lambda x, value: self.monitor(value, lambda: at(x))
        )
        self.counted.count(loss.evaluations * algorithm.draws)
        q = at(out.x)
        fresh = fresh_draws(q, self.counted, stream(self.seed, Purpose.FRESH))
        given = ", ".join(str(rv.name) for rv in density.split.given)
        notes = [f"averaged over draws of: {given}", algorithm.note]
        if overfits(-float(out.fun), fresh):
            notes.append("train_elbo exceeds the fresh ELBO by more than chance: raise draws")
        result = FitResult(
            method=algorithm.name,
            converged=bool(out.success),
            stop_reason=str(out.message),
            iterations=int(out.nit),
            train_elbo=-float(out.fun),
            train_draws=algorithm.draws,
            fresh=fresh,
            notes=tuple(notes),
        )
        return Fitted(q, result, out.x)

    @property
    def full(self) -> bool:
        """Whether Σ is."""
        return self.algorithm.covariance == "full"

    def _softplus(self) -> Softplus:
        return self.density.once(self.algorithm, lambda: self.algorithm.softplus(self.density))

    def _first_of(
        self, data: LogisticData | RowsOfFile, prior: GaussianPrior, softplus: Softplus
    ) -> Normal:
        """Where the last run ended; else of rows of a file, what some of them say of all."""
        if isinstance(data, LogisticData):
            return self._first(lambda: data, prior)[0]
        if isinstance(self.state, tuple):
            return self.state[0]
        if data.begun is not None:
            return data.begun
        some = data.sample()
        q = first_gaussian(self.start, some, prior, self.full)
        return maximise(
            some, prior, softplus, q,
            iterations=self.budget, tolerance=ROUGH, report=lambda q, elbo: None,
        ).q  # fmt: skip

    def _first(self, data: Callable[[], LogisticData], prior: GaussianPrior) -> tuple[Normal, int]:
        """Where the last run ended and the steps until there, or a first Gaussian."""
        if isinstance(self.state, tuple):
            return self.state
        return first_gaussian(self.start, data(), prior, self.full), 0
