r"""Laplace approximation on the unconstrained space: N(θ*, (−∇² log p̃(θ*))⁻¹)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import pymc as pm

from pymc_ext.variational.core.base import DeterministicInference, VectorisedApproximation
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult, FreshDraws
from pymc_ext.variational.gaussian.empirical import LaplaceEvidence, maximise_evidence
from pymc_ext.variational.gaussian.groups import GaussianGroup
from pymc_ext.variational.gaussian.modes import LaplaceFit, LaplaceSearch, check_search_options

UNREPRESENTATIVE = 0.01  # effective share of the fresh draws below which the result warns


def representation_notes(fresh: FreshDraws) -> tuple[str, ...]:
    """Says so where the mode is not where the posterior's mass is."""
    if fresh.ess >= UNREPRESENTATIVE * fresh.draws:
        return ()
    return (
        f"{fresh.draws} draws of q are worth {fresh.ess:.0f} of the posterior: the mode is not "
        "where the mass is (often near the boundary of a scale parameter); use MixedVI, DiagonalVI "
        "or a flow",
    )


class LaplaceFinder:
    """The Laplace fit at the best mode, hyperparameters first set by maximal Laplace evidence.

    Compiles on first use and keeps what it compiled.
    """

    def __init__(self, approx: VectorisedApproximation, **options: Any) -> None:
        self.approx, self.options = approx, options
        self.search: LaplaceSearch | None = None
        self.evidence: LaplaceEvidence | None = None

    @property
    def evaluations(self) -> tuple[int, int]:
        """Evaluations of log p̃ and of its gradient in the last run, see `FlatDensity.counts`."""
        return (0, 0) if self.search is None else self.search.density.counts

    def run(self, n: int, monitor: Monitor) -> LaplaceFit:
        """Search with at most n iterations a start."""
        if self.search is None:
            self.search = LaplaceSearch(self.approx, **self.options)
        if self.approx.point_group is None:
            fit = self.search.run(n, monitor)
            monitor.keep(fit.losses)
            return fit
        if self.evidence is None:
            self.evidence = LaplaceEvidence(self.search)
        return maximise_evidence(self.evidence, n, monitor)


class LaplaceVI(DeterministicInference):
    r"""Laplace approximation as a PyMC inference: ``pm.fit(method=LaplaceVI())``.

    .. math:: q = N(\theta^*, (-\nabla^2 \log\tilde p(\theta^*))^{-1})

    where log p̃ is the model's log density on the **unconstrained** space with the log-Jacobian of
    the transforms, and θ* its highest mode among those reached by trust-region Newton.

    Parameters
    ----------
    starts
        Number of starting points: the initial point, then jittered copies of it. None means
        200/D, at least 1 and at most 12.
    indefinite
        What to do where the Hessian at the stationary point is not negative definite:
        ``"refuse"`` raises, ``"modify"`` replaces its eigenvalues and says so in ``result.notes``.
    hyperparameters
        Free variables (or names) set to the point values that maximise the Laplace estimate of the
        evidence (empirical Bayes); their prior counts on the constrained scale, without Jacobian.
    model
        None takes the model of the ``with`` context.
    start
        Initial values by variable name on the constrained scale.
    random_seed
        Seeds the jitter, the fresh draws and draws without a seed (``pm.fit`` ignores its own).

    Raises
    ------
    NoModeError
        From ``fit``, if the density has no mode that can be reached; a ValueError.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.LaplaceVI(random_seed=1))
    >>> approx.result.log_marginal_laplace, approx.result.log_marginal_is

    References
    ----------
    Tierney & Kadane (1986), doi:10.1080/01621459.1986.10478240; Gianniotis, eq. 2.
    """

    name = "laplace"

    def __init__(
        self,
        *,
        starts: int | None = None,
        indefinite: str = "refuse",
        hyperparameters: Sequence[Any] = (),
        model: pm.Model | None = None,
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        check_search_options(starts, indefinite)
        approx = VectorisedApproximation(
            GaussianGroup,
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
        )
        super().__init__(approx, random_seed=random_seed)
        self.finder = LaplaceFinder(
            approx, starts=starts, indefinite=indefinite, random_seed=random_seed
        )

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        compiled, begin = self.approx.compile_seconds, time.perf_counter()
        fit = self.approx.laplace = self.finder.run(n, monitor)
        self.approx.group.set_base(fit.theta, fit.factor, fit.factor_inverse)
        fresh = self.fresh_draws()
        values, gradients = self.finder.evaluations
        compile_seconds = self.approx.compile_seconds - compiled
        return FitResult(
            method=self.name,
            converged=True,
            stop_reason=f"Newton decrement {fit.mode.decrement:.1e}",
            iterations=len(monitor.losses),
            seconds=time.perf_counter() - begin - compile_seconds,
            compile_seconds=compile_seconds,
            density_evaluations=values,
            gradient_evaluations=gradients,
            random_seed=self.random_seed,
            fresh=fresh,
            log_marginal_laplace=fit.log_marginal,
            notes=fit.notes + representation_notes(fresh),
        )
