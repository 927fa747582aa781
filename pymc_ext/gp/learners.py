"""Ways of learning hyperparameters: what each needs of a GP, and its run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm

from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.lbfgs import climb
from pymc_ext.gp.loops import Adam, Found, Watch, alternate, minibatch
from pymc_ext.gp.model import Approximate
from pymc_ext.gp.points import sources
from pymc_ext.maths.types import Array
from pymc_ext.seeds import check_seed

__all__ = ["Alternation", "Batches", "Climb", "Learner"]


@dataclass(frozen=True)
class Learner(ABC):
    """A search for the highest evidence + log prior, in at most ``max_iterations``."""

    name: ClassVar[str]  # as `fit_hyperparameters` takes it
    max_iterations: int

    def require(self, gp: Approximate) -> None:  # noqa: B027  # one takes any
        """ValueError where it is not for this GP."""

    def require_model(self, gp: Approximate, model: pm.Model) -> None:  # noqa: B027
        """ValueError where it is not for this GP in this model."""

    @abstractmethod
    def learn(
        self, gp: Approximate, graph: HyperparameterGraph, theta: Array, box: Array, monitor: Watch
    ) -> Found:
        """From θ (D,), unconstrained, within ``box`` (2, D)."""


class Climb(Learner):
    """The exact gradient, by L-BFGS."""

    name = "l-bfgs"

    def learn(
        self, gp: Approximate, graph: HyperparameterGraph, theta: Array, box: Array, monitor: Watch
    ) -> Found:
        return climb(gp.solver, graph, theta, box, self.max_iterations, monitor)


@dataclass(frozen=True)
class Alternation(Learner):
    """E-steps of the sites and M-steps by Adam."""

    name = "alternating"
    e_steps: int
    m_steps: int
    tolerance: float
    learning_rate: float

    def require(self, gp: Approximate) -> None:
        _require_damped_steps(self, gp)

    def learn(
        self, gp: Approximate, graph: HyperparameterGraph, theta: Array, box: Array, monitor: Watch
    ) -> Found:
        limits = self.e_steps, self.m_steps, self.max_iterations, self.tolerance
        return alternate(gp.solver, graph, theta, Adam(self.learning_rate, box), *limits, monitor)


@dataclass(frozen=True)
class Batches(Learner):
    """A natural-gradient step and one of Adam on every random batch."""

    name = "minibatch"
    batch_size: int
    learning_rate: float
    random_seed: int | None

    def require(self, gp: Approximate) -> None:
        _require_damped_steps(self, gp)
        if gp.Xu is None or gp.solver.learning != "elbo":
            raise ValueError("method='minibatch' needs inducing inputs Xu and learning='elbo'")
        if gp.likelihood.n_latent > 1:
            raise ValueError(
                "method='minibatch' needs a likelihood of one latent, got "
                f"{gp.likelihood} of {gp.likelihood.n_latent}: use 'l-bfgs' or 'alternating'"
            )

    def require_model(self, gp: Approximate, model: pm.Model) -> None:
        random = [] if isinstance(gp.X, np.ndarray) else sources([gp.X], model)
        if random:
            names = ", ".join(rv.name for rv in random)
            raise ValueError(f"method='minibatch' takes rows of X, which here depends on {names}")

    def learn(
        self, gp: Approximate, graph: HyperparameterGraph, theta: Array, box: Array, monitor: Watch
    ) -> Found:
        batches = HyperparameterGraph(gp, graph.model, batch=True)
        check_seed(self.random_seed)
        rng = np.random.default_rng(self.random_seed)
        passes = self.batch_size, self.max_iterations, rng
        adam = Adam(self.learning_rate, box)
        return minibatch(gp, graph, batches, theta, adam, *passes, monitor)


def _require_damped_steps(learner: Learner, gp: Approximate) -> None:
    if gp.solver.rule.rho is None:
        raise ValueError(f"method={learner.name!r} needs rule=CVI(), got {gp.solver.rule}")
