"""An algorithm: from a density to a fitted q. The base class behind every family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np

from pymc_ext.density import CountedDensity, Density, require_usable
from pymc_ext.density.check import require_density
from pymc_ext.maths.types import Array
from pymc_ext.seeds import check_seed
from pymc_ext.variational.core.effort import Effort
from pymc_ext.variational.core.memory import memory_for
from pymc_ext.variational.core.monitor import Monitor, kept_nothing
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import OF_BATCHES, FitResult
from pymc_ext.variational.core.threads import threads_for

Q = TypeVar("Q", bound=Posterior, covariant=True)


@dataclass(frozen=True)
class Fitted(Generic[Q]):
    """A fitted q with its result.

    Parameters
    ----------
    q
        The approximation.
    result
        How the fit went.
    state
        Whatever the algorithm needs to go on from here; given back to it as ``state``, and not
        changed by the run that goes on. None where it has nothing to go on from.
    proposal
        Beside q, what importance weights are to be taken of where q's own tails are too light for
        them: it has its own log density and serves nothing else. None where q itself will do.
    """

    q: Q
    result: FitResult
    state: object | None = field(default=None, repr=False, compare=False)
    proposal: Posterior | None = None


class Algorithm(ABC, Generic[Q]):
    """Fits a q to any density by its values and scores; knows nothing of PyMC.

    An object holds options and nothing else: no fit remembers another. A subclass, best a frozen
    dataclass, gives ``name`` and :meth:`run`. Under ``pm.fit`` it is what runs behind an inference
    (:class:`pymc_ext.variational.plugin.inference.AlgorithmVI`); :meth:`fit` runs it on a density
    of the user's own.
    """

    takes_noise: ClassVar[bool] = False  # whether it works on log densities from ``pm.Minibatch``
    default_budget: ClassVar[int] = 10_000  # iterations of a fit that is told none

    @property
    @abstractmethod
    def name(self) -> str:
        """What records call it; a class attribute will do."""

    @abstractmethod
    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Q]:
        """Fit once; :func:`run_algorithm` writes seed and effort into the result.

        Parameters
        ----------
        density
            What is approximated.
        start
            Unconstrained point, (D,).
        seed
            Of all random numbers of this run.
        budget
            Largest number of iterations.
        monitor
            To be called as ``monitor(loss)`` after each iteration.
        state
            Of an earlier :class:`Fitted`, from which to go on in place of ``start``.
        """

    def fit(
        self,
        density: Density,
        start: Array | None = None,
        n: int | None = None,
        *,
        random_seed: int | None = None,
        state: object | None = None,
    ) -> Fitted[Q]:
        """Fit to ``density`` from ``start`` (D,), the origin by default.

        Parameters
        ----------
        density
            An object with ``dimension``, ``log_density`` and ``log_density_gradient``.
        start
            Unconstrained point, (D,).
        n
            Largest number of iterations; None: :attr:`default_budget`.
        random_seed
            Of all random numbers of the fit: None or an integer from 0 to 2³² − 1.
        state
            That of an earlier fit to this density, which then goes on from there.

        Raises
        ------
        DensityError
            Shapes are wrong, or log p̃ or its gradient is not finite at ``start``.
        ValueError
            ``n`` is not an integer of at least 1.
        """
        check_seed(random_seed)
        require_density(density)
        start = np.zeros(density.dimension) if start is None else np.asarray(start, dtype=float)
        counted = CountedDensity(density)
        effort = Effort(counted)
        budget = self.checked_budget(n)
        with kept_nothing():
            require_usable(counted, start)
        with Monitor.silent() as monitor:
            return run_algorithm(
                self, counted, start, budget,
                random_seed=random_seed, monitor=monitor, state=state, effort=effort,
            )  # fmt: skip

    def checked_budget(self, n: int | None) -> int:
        """Iterations of a fit that is told ``n``; ValueError unless it is an integer >= 1."""
        if n is None:
            return self.default_budget
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise ValueError(
                f"n must be an integer >= 1, got {n!r}; None takes {self.default_budget}"
            )
        return int(n)


def run_algorithm(
    algorithm: Algorithm[Q],
    density: CountedDensity,
    start: Array,
    n: int | None = None,
    *,
    random_seed: int | None,
    monitor: Monitor,
    state: object | None = None,
    effort: Effort | None = None,
) -> Fitted[Q]:
    """Run ``algorithm`` once: every fit, of a density, under ``pm.fit`` or compared, is this one.

    Parameters
    ----------
    algorithm, density, start, n, random_seed, state
        As :meth:`Algorithm.fit`.
    monitor
        Sees every iteration.
    effort
        Begun before, where more than the run belongs to the fit.
    """
    budget = algorithm.checked_budget(n)
    if not algorithm.takes_noise:
        density.require_exact()
    effort = effort or Effort(density)
    with threads_for(density.dimension), memory_for(density.dimension):
        fitted = algorithm.run(
            density, start, seed=random_seed, budget=budget, monitor=monitor, state=state
        )
    result = replace(fitted.result, random_seed=random_seed, **effort.spent())
    if result.elbo == -np.inf:  # some draws of q are outside the support, so that it is no optimum
        result = replace(result, converged=False)
    if density.noisy:
        result = replace(result, unjudged=OF_BATCHES)
    proposal = fitted.proposal
    if proposal is not None:
        from pymc_ext.variational.core.defensive import for_all_mass, has_longer_tails_alone

        if result.missed is not None:
            proposal = for_all_mass(proposal)
        tails_alone = has_longer_tails_alone(proposal, fitted.q)
        result = replace(result, tails_alone=tails_alone)
    return replace(fitted, result=result, proposal=proposal)


def refuse_hyperparameters(density: CountedDensity, name: str) -> None:
    """ValueError where log p̃ has free parameters beside θ, which ``name`` cannot set."""
    if density.extra_size:
        raise ValueError(
            f"{name} follows the scores of θ alone and sets no hyperparameters: give them priors "
            "and fit them too, or use LaplaceVI or MixedVI(hyperparameters=...)"
        )
