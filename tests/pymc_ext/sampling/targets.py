"""Targets with known moments, maps of them, and a sampler whose chains do as they are told."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import arviz as az
import numpy as np

from pymc_ext.density import CallableDensity
from pymc_ext.maths.normal import standard_normal_logp
from tests.tolerances import monte_carlo


def gaussian(mean, cov):
    """An unnormalised Gaussian."""
    P = np.linalg.inv(cov)
    return CallableDensity(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x - mean, P, x - mean),
        lambda x: -(x - mean) @ P,
        dimension=len(mean),
    )


def failing(after, error):
    """N(0, I₂), whose score raises ``error`` at the call after so many."""
    calls = 0

    def score(x):
        nonlocal calls
        calls += 1
        if calls > after:
            raise error
        return -x

    return CallableDensity(lambda x: -0.5 * (x**2).sum(1), score, dimension=2)


def two_modes(apart=12.0):
    """½ N(0, I₂) + ½ N((apart, 0), I₂)."""
    other = np.array([apart, 0.0])

    def parts(x):
        return np.stack([-0.5 * (x**2).sum(1), -0.5 * ((x - other) ** 2).sum(1)])

    def gradient(x):
        logs = parts(x)
        share = np.exp(logs - np.logaddexp(*logs))
        return -share[0][:, None] * x - share[1][:, None] * (x - other)

    return CallableDensity(lambda x: np.logaddexp(*parts(x)), gradient, dimension=2)


def funnel():
    """s ~ N(0, 1.5²), x_i | s ~ N(0, e^{2s}), i = 1..4; θ = (s, x)."""

    def value(t):
        s, x = t[:, 0], t[:, 1:]
        return -0.5 * (s / 1.5) ** 2 - 4 * s - 0.5 * (x**2).sum(1) * np.exp(-2 * s)

    def gradient(t):
        s, x = t[:, 0], t[:, 1:]
        by_s = -s / 1.5**2 - 4 + (x**2).sum(1) * np.exp(-2 * s)
        return np.column_stack([by_s, -x * np.exp(-2 * s)[:, None]])

    return CallableDensity(value, gradient, dimension=5)


class FunnelMap:
    """The law of :func:`funnel` as a map: s = 1.5 v₀, x = e^s v."""

    dimension = latent_dimension = 5

    def forward(self, z):
        s = 1.5 * z[:, :1]
        log_det = np.log(1.5) + 4 * s[:, 0]
        return np.hstack([s, np.exp(s) * z[:, 1:]]), standard_normal_logp(z) - log_det

    def pullback(self, z, score):
        scale = np.exp(1.5 * z[:, :1])
        by_x = scale * score[:, 1:]
        by_s = 1.5 * (score[:, :1] + (by_x * z[:, 1:]).sum(1, keepdims=True) + 4)
        return np.hstack([by_s, by_x])


def require_moments(x, mean, sd):
    """Mean and sd of draws (chains, draws, D), within four standard errors."""
    for i in range(x.shape[-1]):
        own = x[..., i]
        for values, truth in ((own, mean[i]), ((own - mean[i]) ** 2, sd[i] ** 2)):
            ess = az.ess(values, method="mean")
            assert ess > 150
            assert abs(values.mean() - truth) < monte_carlo(values.std() / np.sqrt(ess)), i


@dataclass
class Made:
    """Transitions of a chain that was told what to do."""

    points: np.ndarray
    statistics: dict


@dataclass
class Told:
    """A chain of independent N(offset, I) points, ``steps`` gradients each."""

    dimension: int
    offset: float
    steps: int
    depth: int
    rng: np.random.Generator
    wait: bool
    diverges: bool
    gradients: int = 0
    closed: bool = False
    stopped: threading.Event = field(default_factory=threading.Event)

    infinite = 0

    def warm_up(self):
        return self.draw(10)

    def draw(self, iterations):
        if self.wait and self.gradients:  # past its warm-up: until it is stopped
            self.stopped.wait()
            iterations = 7
        self.gradients += self.steps * iterations
        energy = self.rng.normal(size=iterations)
        one, fiftieth = np.ones(iterations), np.arange(iterations) % 50 == 0
        statistics = {
            "acceptance_rate": one, "step_size": one, "tree_depth": self.depth * one.astype(int),
            "n_steps": self.steps * one.astype(int), "diverging": self.diverges & fiftieth,
            "energy": energy,
        }  # fmt: skip
        return Made(self.rng.normal(self.offset, 1, (iterations, self.dimension)), statistics)

    def stop(self):
        self.stopped.set()

    def close(self):
        self.closed = True


@dataclass
class Puppeteer:
    """A sampler of :class:`Told` chains; ``apart`` is what the chains in a map differ by."""

    apart: float = 0.0
    steps: int = 10
    depth: int = 3
    wait: bool = False
    diverges_below: float = 0.0  # this acceptance rate
    name = "told"
    made: list = field(default_factory=list)
    starts: list = field(default_factory=list)
    scales: list = field(default_factory=list)

    def chain(self, density, start, *, transport, scale, seed, options):
        offset = 0.0 if transport is None else self.apart * len(self.made)
        depth = self.depth if transport is not None else 3
        self.starts.append(start)
        self.scales.append(scale)
        diverges = options.target_accept < self.diverges_below
        self.made.append(Told(density.dimension, offset, self.steps, depth,
                              np.random.default_rng(seed), self.wait, diverges))  # fmt: skip
        return self.made[-1]

    def share(self, chains):
        self.shared = len(chains)
