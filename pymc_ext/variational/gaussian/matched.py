r"""Gaussians from scores alone as bases of other fits, where there is no mode or none is wanted.

Two of them are of one basin where they overlap by more than 1/e, by Bhattacharyya's coefficient

.. math:: \rho = \int \sqrt{q_1 q_2}, \quad -\log\rho = \tfrac18 d^\top \bar\Sigma^{-1} d
    + \tfrac12 \log\frac{|\bar\Sigma|}{\sqrt{|\Sigma_1| |\Sigma_2|}},

d the difference of their means and Σ̄ the mean of their covariances. What a fit finds twice differs
by hundredths of a nat; basins with a wall between them by several.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from pymc_ext.density import CountedDensity
from pymc_ext.density.check import UndefinedStartError, require_usable
from pymc_ext.interrupts import Interrupts
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.algorithm import run_algorithm
from pymc_ext.variational.core.monitor import Monitor, ended_by_interrupt, nothing_yet
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.ill_posed.runaway import RunawayError

SAME = 1.0  # −log ρ up to which two Gaussians are of one basin
MISSES = 4  # fits in a row that end in basins known before, after which other starts are left


@dataclass(frozen=True)
class Matched:
    """The Gaussian from scores alone as a base: θ = μ + C z, as a :class:`LaplaceFit` has it.

    ``log_marginal`` is its ELBO, a lower bound of log Z; ``interrupted`` where Ctrl-C ended its
    fit, and it is the best found by then.
    """

    theta: Array
    factor: Array
    factor_inverse: Array
    log_marginal: float
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @classmethod
    def to(
        cls,
        density: CountedDensity,
        start: Array,
        seed: int | None,
        algorithm: BatchMatch | None = None,
    ) -> Matched:
        """Fitted to ``density``; its effort is counted there.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C before there was any.
        RunawayError
            If the posterior is improper.
        """
        algorithm = BatchMatch() if algorithm is None else algorithm
        with Monitor.silent() as monitor, Interrupts() as interrupts:
            fit = run_algorithm(algorithm, density, start, random_seed=seed, monitor=monitor)
        interrupted = interrupts.seen or ended_by_interrupt(fit.result.stop_reason)
        q = fit.q
        root = q.root if isinstance(q, Gaussian) else cholesky(q.cov)
        fresh = fit.result.fresh
        assert fresh is not None  # a Gaussian's draws are free
        return cls(q.mean, root, np.linalg.inv(root), fresh.elbo, interrupted=interrupted)

    def distance(self, other: Matched) -> float:
        """−log ρ of the two, nats."""
        cov = (self.factor @ self.factor.T + other.factor @ other.factor.T) / 2
        root = cholesky(cov)
        apart = np.linalg.solve(root, self.theta - other.theta)
        log_dets = (np.linalg.slogdet(f)[1] for f in (root, self.factor, other.factor))
        of_both, *own = log_dets
        return float(apart @ apart / 8 + of_both - sum(own) / 2)


def matched_basins(
    density: CountedDensity, starts: Iterable[Array], seed: int | None
) -> Iterator[Matched]:
    """One Gaussian for every basin that fits from ``starts`` (D,) end in, as they are found.

    The first of them has paths from dispersed points of its own, the others one path each.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; the one that was being fitted is no basin yet.
    RunawayError
        If the first fit finds the posterior to be improper.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> def log_density(t):
    ...     return np.logaddexp(-0.5 * (t[:, 0] + 9) ** 2, -0.5 * (t[:, 0] - 9) ** 2)
    >>> density = CountedDensity(
    ...     CallableDensity(log_density, lambda t: 9 * np.tanh(9 * t) - t, dimension=1)
    ... )
    >>> found = matched_basins(density, [np.ones(1), -np.ones(1)], seed=1)
    >>> [float(basin.theta[0].round(2)) for basin in found]
    [9.0, -9.0]
    """
    basins: list[Matched] = []
    misses = 0
    for start in starts:
        try:
            require_usable(density, start)
            fit = Matched.to(density, start, seed, BatchMatch(paths=1) if basins else None)
        except (UndefinedStartError, RunawayError):
            if not basins:
                raise
            continue
        if fit.interrupted:
            raise nothing_yet(KeyboardInterrupt())
        if any(fit.distance(known) < SAME for known in basins):
            misses += 1
            if misses == MISSES:
                break
        elif np.isfinite(fit.log_marginal) or not basins:
            basins.append(fit)
            misses = 0
            yield fit
