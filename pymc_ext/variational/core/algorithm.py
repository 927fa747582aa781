"""An algorithm: from a density to a fitted q. The base class of every family's engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity, Density, require_usable
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.threads import threads_for

Array = NDArray[np.floating]
Q = TypeVar("Q", bound=Posterior, covariant=True)


@dataclass(frozen=True)
class Fitted(Generic[Q]):
    """A fitted q with its result."""

    q: Q
    result: FitResult = field(compare=False)
    state: object | None = None


class Algorithm(ABC, Generic[Q]):
    """Fits a q to any density by its values and scores; knows nothing of PyMC.

    A subclass gives ``name`` and :meth:`run`. Under ``pm.fit`` it is the engine of an inference
    (:class:`pymc_ext.variational.core.inference.AlgorithmVI`); :meth:`fit` runs it on a density of
    the user's own.
    """

    name = "algorithm"
    takes_noise = False  # whether it works on log densities from ``pm.Minibatch`` data
    random_seed: int | None = None

    @abstractmethod
    def run(self, density: CountedDensity, start: Array, n: int, monitor: Monitor) -> Fitted[Q]:
        """Fit in at most ``n`` iterations from ``start`` (D,); ``monitor(loss)`` after each."""

    def restart(self) -> None:  # nothing is kept unless a subclass says so
        """Forget the fit, so that the next run starts afresh."""

    def fit(self, density: Density, start: Array | None = None, n: int = 10_000) -> Fitted[Q]:
        """Fit to ``density`` from ``start`` (D,), the origin by default.

        Parameters
        ----------
        density
            An object with ``dimension``, ``log_density`` and ``log_density_gradient``.
        start
            Unconstrained point.
        n
            Largest number of iterations.

        Raises
        ------
        DensityError
            Shapes are wrong, or log p̃ or its gradient is not finite at ``start``.
        """
        start = np.zeros(density.dimension) if start is None else np.asarray(start, dtype=float)
        require_usable(density, start)
        with Monitor.silent() as monitor, threads_for(density.dimension):
            return self.run(CountedDensity(density), start, n, monitor)


def refuse_hyperparameters(density: CountedDensity, name: str) -> None:
    """ValueError where log p̃ has free parameters beside θ, which ``name`` cannot set."""
    if density.extra_size:
        raise ValueError(
            f"{name} follows the scores of θ alone and sets no hyperparameters: give them priors "
            "and fit them too, or use LaplaceVI or MixedVI(hyperparameters=...)"
        )
