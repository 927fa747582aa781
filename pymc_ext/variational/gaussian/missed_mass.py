r"""A search for mass that q misses: cheap paths from dispersed starts, before a fit is trusted.

k̂ of q's own draws cannot see a mode that q does not reach. Each path of :mod:`.path` ends in a
basin; where its best Gaussian r lies outside q, by draws of r and log q there, the ELBO of r is a
lower bound of the basin's log mass, so that

.. math:: E_r[\log\tilde p - \log r] - \log Z_q \le \log \frac{\text{mass of the basin}}{\text{mass
    that } q \text{ covers}}

up to Monte Carlo error, with log Z_q from q's importance weights. It sees no mode that no path
reaches: behind walls, or one of many narrow ones in high dimensions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.gaussian.numbers import cholesky
from pymc_ext.variational.gaussian.path import DISPERSION, PathSettings, follow_path

Array = NDArray[np.floating]
DISTANCES = (2.0, 4.0, 8.0, 16.0, 32.0)  # of starts, in q's root mean square distance √D
DIRECTIONS = 2  # random ones at each distance, and their mirror images: 20 starts
UNIFORM = 4  # starts near the origin, where priors are
SETTINGS = PathSettings(iterations=60, draws=20)
DRAWS = 100  # of a basin's Gaussian: they know its ELBO to a tenth of the log ratios' sd
# sds of log q below its mean, and nats more for small D, beyond which a point is outside q: those
# of a Gaussian's squared distance D + 5 √(2 D) + 9.
OUTSIDE_SDS, OUTSIDE_NATS = 5.0, 4.5
NEGLIGIBLE = 0.01  # share of q's mass below which a basin does not matter


@dataclass(frozen=True)
class MissedMass:
    """The heaviest basin outside q that the paths found.

    Parameters
    ----------
    log_ratio, error
        Lower bound of log(its mass / the mass that q covers) and its standard error; −∞ where no
        path left q.
    place
        The middle of the basin's Gaussian, unconstrained, (D,); None where there is none.
    basins
        Paths that ended outside q.
    gradients
        What the search cost.
    """

    log_ratio: float
    error: float
    place: Array | None
    basins: int
    gradients: int

    @property
    def matters(self) -> bool:
        """Whether it is beyond 1 % of q's mass."""
        return self.log_ratio > np.log(NEGLIGIBLE)

    def sentence(self, names: list[str], q_mean: Array, q_std: Array) -> str:
        """What a user is told."""
        if self.place is None or not self.matters:
            return f"no mass beyond 1 % found outside q ({self.gradients} gradients)"
        away = (self.place - q_mean) / q_std
        most = np.argsort(-np.abs(away))[:3]
        where = ", ".join(f"{names[i]} = {self.place[i]:.3g}" for i in most)
        share = np.exp(min(self.log_ratio, 700.0))
        return (
            f"mass is missed: a mode at {where} holds at least {share:.2g} times the mass that q "
            f"covers ({self.basins} paths of 24 ended outside q)"
        )


def missed_mass(
    density: CountedDensity,
    theta: Array,
    log_q: Array,
    log_density_of_q: Callable[[Array], Array],
    log_z: float,
    rng: np.random.Generator,
) -> MissedMass:
    """Search from 24 dispersed starts.

    Parameters
    ----------
    density
        log p̃, unconstrained.
    theta, log_q
        Draws of q (N, D) with their normalised log q (N,).
    log_density_of_q
        log q of any points, (M, D) -> (M,).
    log_z
        log of the mass that q covers: importance-sampled from q's draws.
    rng
        Of starts and draws.

    Examples
    --------
    >>> from pymc_ext.density import CallableDensity
    >>> from pymc_ext.variational.gaussian.posteriors import Gaussian
    >>> def half(t, middle):
    ...     return -0.5 * ((t - middle) ** 2).sum(1)
    >>> def score(t):
    ...     right = 1 / (1 + np.exp(half(t, -5) - half(t, 5)))
    ...     return -(t + 5) + 10 * right[:, None]
    >>> density = CallableDensity(
    ...     lambda t: np.logaddexp(half(t, -5), half(t, 5)), score, dimension=1
    ... )
    >>> q, rng = Gaussian(np.array([5.0]), np.eye(1)), np.random.default_rng(1)
    >>> theta, log_q = q.forward(rng.standard_normal((1000, 1)))
    >>> log_z = 0.5 * np.log(2 * np.pi)
    >>> found = missed_mass(CountedDensity(density), theta, log_q, q.log_density, log_z, rng)
    >>> bool(abs(found.log_ratio) < 0.1), found.place.round()  # as much again, at −5
    (True, array([-5.]))
    """
    before, edge = density.gradients, _edge(log_q)
    heaviest = MissedMass(-np.inf, 0.0, None, 0, 0)
    basins = 0
    for start in _starts(theta, rng):
        path = follow_path(density, start, rng, SETTINGS)
        if path is None:
            continue
        points, log_r = path.q.forward(rng.standard_normal((DRAWS, density.dimension)))
        with np.errstate(all="ignore"):
            outside = ~(log_density_of_q(points) >= edge)
        if outside.mean() <= 0.5:
            continue
        basins += 1
        with np.errstate(all="ignore"):
            log_ratios = density.log_density(points) - log_r
        bound = float(np.mean(log_ratios)) - log_z
        if np.isfinite(bound) and bound > heaviest.log_ratio:
            error = float(np.std(log_ratios) / np.sqrt(DRAWS))
            heaviest = MissedMass(bound, error, path.q.mean, 0, 0)
    return MissedMass(
        heaviest.log_ratio, heaviest.error, heaviest.place, basins, density.gradients - before
    )


def _edge(log_q: Array) -> float:
    """log q below which a point is outside q."""
    return float(np.mean(log_q) - OUTSIDE_SDS * np.std(log_q) - OUTSIDE_NATS)


def _starts(theta: Array, rng: np.random.Generator) -> list[Array]:
    """Around q at growing distances, in mirrored pairs; and near the origin."""
    N, D = theta.shape
    mean = theta.mean(axis=0)
    centred = (theta - mean) / np.sqrt(N - 1)
    # rows of a root of the draws' covariance; of many dimensions the draws themselves, O(N D)
    root = centred if D >= N else cholesky(np.atleast_2d(np.cov(theta.T))).T
    starts = []
    for distance in DISTANCES:
        u = rng.standard_normal((DIRECTIONS, len(root)))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        steps = distance * np.sqrt(len(root)) * u @ root
        starts += [*(mean + steps), *(mean - steps)]
    return [*starts, *rng.uniform(-DISPERSION, DISPERSION, (UNIFORM, D))]
