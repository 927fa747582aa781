"""Point estimates of the hyperparameters: by the exact gradient, or by the paper's alternation."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm

from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.learners import Alternation, Batches, Climb, Learner
from pymc_ext.gp.model import Approximate
from pymc_ext.gp.points import Point, refuse_other_observations
from pymc_ext.gp.search_space import active_bounds, box_of, start_values
from pymc_ext.maths.types import Array
from pymc_ext.models.context import context
from pymc_ext.variational.core.monitor import Monitor

logger = logging.getLogger(__name__)

Bounds = Mapping[str, tuple[float | None, float | None]]


@dataclass(frozen=True)
class HyperparameterFit:
    """Where learning stopped, and why.

    Parameters
    ----------
    point
        Hyperparameters by name, each of its own shape, as `pm.find_MAP` returns them, to pass on as
        ``point=``.
    objective
        Evidence plus log prior there.
    evidence
        The evidence alone, all normalisers included.
    method, stop_reason, converged
        How it was found, why it stopped, whether that is a stationary point of the search, which
        may lie at its bounds.
    steps
        Gradient evaluations of the hyperparameters.
    trace
        Objective after every iteration, (iterations,).
    active_bounds
        Hyperparameters (unconstrained names) that rest at a bound of the search.
    seconds
        Wall time without graph compilation.
    """

    point: dict[str, Array]
    objective: float
    evidence: float
    method: str
    stop_reason: str
    converged: bool
    steps: int
    trace: tuple[float, ...]
    active_bounds: tuple[str, ...]
    seconds: float


def fit_hyperparameters(
    gp: Approximate,
    method: str = "l-bfgs",
    start: Point | None = None,
    bounds: Bounds | None = None,
    max_iterations: int = 500,
    e_steps: int = 20,
    m_steps: int = 20,
    learning_rate: float = 0.01,
    tolerance: float = 1e-4,
    batch_size: int = 1000,
    random_seed: int | None = None,
    progressbar: bool = True,
    model: pm.Model | None = None,
) -> HyperparameterFit:
    """Maximise evidence + log prior over the hyperparameters, potentials included.

    For one GP alone in its model: where other observed variables, as those of a second GP, depend
    on free variables, use `pm.find_MAP`.

    Parameters
    ----------
    gp
        `px.gp.Approximate` with data in ``model``.
    method
        ``"l-bfgs"``: the exact gradient of L(λ*(θ), θ) with the sites at their fixed point.
        ``"alternating"``: Li, John & Solin's E- and M-steps: ``e_steps`` damped updates of the
        sites, then ``m_steps`` of Adam on the evidence with the sites held; it stops when the
        objective falls after the first iteration, or the hyperparameters rest, and returns the
        best point, which may be the start.
        ``"minibatch"``: for sparse models of one latent (not `Categorical`) learned by the ELBO;
        ``max_iterations`` passes over the data in random batches, on each one natural-gradient step
        of size ``rule.rho`` and one step of Adam. The objective reported is the ELBO of all rows at
        the end.
    start
        Start values by name, also a ``point`` of another fit or of `pm.find_MAP`; the model's
        initial point where missing. It is moved to within the bounds.
    bounds
        (low, high) of constrained hyperparameters by name; where an end is missing, None or at the
        end of the support, it is ±12 on the unconstrained scale. Bounds that hold at the end are
        reported. Where a support depends on other hyperparameters, these are as at the start.
    max_iterations
        Of L-BFGS, or pairs of E- and M-steps. A choice: six fits of two hyperparameters took 18
        and 71 at most.
    e_steps, m_steps, learning_rate, tolerance
        Of the alternation, the first three as Li, John & Solin's; ``tolerance``: relative change of
        every unconstrained hyperparameter over one iteration at which it stops as converged (a
        choice: six fits end 2e-6 nats below the maximum, with ten times as much 2e-4).

    batch_size, random_seed
        Of ``"minibatch"``: rows of a batch (a choice, no measurement), seed of their order.
    progressbar
        Whether to show iterations and −objective.

    Returns
    -------
    HyperparameterFit

    Raises
    ------
    ValueError
        Unknown method or hyperparameter, or a rule without damped steps in the alternation; a
        model that is not the GP's, or observes more than the GP does; a start or bounds of wrong
        form or out of the support; discrete hyperparameters.
    ConvergenceError
        If the rule fails at the start, or minibatches leave the support of the prior.

    References
    ----------
    Li, John & Solin (2023), section 3 and figure 3, arXiv:2306.04201.
    """
    learners = (
        Climb(max_iterations),
        Alternation(max_iterations, e_steps, m_steps, tolerance, learning_rate),
        Batches(max_iterations, batch_size, learning_rate, random_seed),
    )
    learner = _named(method, learners)
    if not gp.inputs:
        raise ValueError("no data yet: call marginal_likelihood first")
    learner.require(gp)
    _check_sizes(
        max_iterations=max_iterations, e_steps=e_steps, m_steps=m_steps, batch_size=batch_size
    )
    _check_rates(learning_rate=learning_rate, tolerance=tolerance)
    model = context(model)
    _check_model(model)
    learner.require_model(gp, model)
    graph, theta, box = _first(gp, model, start or {}, bounds or {})
    begin = time.perf_counter()
    with Monitor(gp, (), 0, max_iterations, progressbar) as monitor:
        found = learner.learn(gp, graph, theta, box, monitor)
    active = tuple(active_bounds(graph, found.theta, box))
    if active:
        logger.warning("%s: at a bound of the search", ", ".join(active))
    return HyperparameterFit(
        point=graph.constrained(found.theta),
        objective=found.objective,
        evidence=found.evidence,
        method=method,
        stop_reason=found.stop_reason,
        converged=found.converged,
        steps=found.steps,
        trace=tuple((-monitor.losses).tolist()),
        active_bounds=active,
        seconds=time.perf_counter() - begin,
    )


def _first(
    gp: Approximate, model: pm.Model, start: Point, bounds: Bounds
) -> tuple[HyperparameterGraph, Array, Array]:
    """The graph, where the search in it starts, unconstrained (D,), and its bounds (2, D)."""
    graph = gp.graph(model)
    refuse_other_observations(gp.observed, model)
    values = start_values(graph, start)
    box = box_of(graph, bounds, values)
    theta = np.clip(graph.flatten(values), *box)
    log_prior = graph.forward(theta)[1]
    if not np.isfinite(log_prior):
        raise ValueError(f"the log prior is {log_prior} at the start: pass start= inside it")
    return graph, theta, box


def _named(method: str, learners: Sequence[Learner]) -> Learner:
    """The one of that name; ValueError where there is none."""
    for learner in learners:
        if learner.name == method:
            return learner
    names = ", ".join(learner.name for learner in learners)
    raise ValueError(f"method must be one of {names}, got {method!r}")


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be >= 1, got {size}")


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        if not rate > 0:
            raise ValueError(f"{name} must be > 0, got {rate}")


def _check_model(model: pm.Model) -> None:
    if not model.free_RVs:
        raise ValueError("the model has no free hyperparameter to learn")
    if model.discrete_value_vars:
        names = ", ".join(v.name for v in model.discrete_value_vars)
        raise ValueError(f"{names} is discrete, not a number to search: use pm.sample")
