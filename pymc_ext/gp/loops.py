"""Learning by Adam on the hyperparameters with the approximation held: the paper's, and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pymc_ext.gp.errors import ConvergenceError, ImproperPosteriorError
from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.likelihoods.likelihood import Parameters
from pymc_ext.gp.minibatch import BatchTerms, InducingGaussian, batch_terms
from pymc_ext.gp.model import Approximate
from pymc_ext.gp.posterior import Arrays, Prior
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.gp.solver import Solver, make_prior
from pymc_ext.gp.sparse import SparsePrior
from pymc_ext.maths.adam import ADAM, adam_step, corrected
from pymc_ext.maths.types import Array

Watch = Callable[[float], object]  # called with −objective after every iteration
# Of the objective, relative: more than rounding leaves of a sum over a million rows, at most 1e6
# roundings of a double. Ten times either way ends six fits at the same step
FELL = 1e-9
SMALLEST_STEP = 1e-6  # a choice: twenty halvings of a step after which its sites stay improper


class Found(NamedTuple):
    """Where a search ended, as `HyperparameterFit` says it; θ unconstrained, (D,)."""

    theta: Array
    evidence: float
    objective: float
    stop_reason: str
    converged: bool
    steps: int


class Adam:
    """Adam ascent projected to the box."""

    def __init__(self, rate: float, box: Array):
        self.rate, self.box = rate, box
        self._first = self._second = np.zeros(())
        self._steps = 0

    def step(self, theta: Array, gradient: Array) -> Array:
        self._steps += 1
        rates = corrected(self.rate, self._steps, *ADAM)
        moments = self._first, self._second
        self._first, self._second, step = adam_step(gradient, *moments, *rates, *ADAM)
        return np.clip(theta + step, *self.box)


def alternate(
    solver: Solver,
    graph: HyperparameterGraph,
    theta: Array,
    adam: Adam,
    e_steps: int,
    m_steps: int,
    max_iterations: int,
    tolerance: float,
    monitor: Watch,
) -> Found:
    """E- and M-steps until the objective falls, and the best of their points and the start.

    A fall in the first iteration does not stop it: Adam's first steps have full length however
    near the maximum is, and the sites have not followed yet.
    """
    y, lik = graph.y, solver.likelihood
    inputs, log_prior = graph.forward(theta)
    solution = solver.solve(y, inputs[0], inputs[1:])  # the first E-step runs to its end
    sites = solution.fixed_point.sites
    first = last = (theta, solution.value, solution.value + log_prior)
    steps, reason, converged = 0, f"{max_iterations} iterations", False
    for _ in range(max_iterations):
        start = theta
        try:
            inputs, _ = graph.forward(theta)
            sites = _e_step(solver, y, inputs, sites, e_steps if steps else 0)
            for _ in range(m_steps):
                inputs, _ = graph.forward(theta)
                _, bars = solver.held_gradient(y, inputs[0], inputs[1:], sites)
                theta = adam.step(theta, graph.backward(theta, bars))
                steps += 1
            evidence, objective = _held_value(solver, graph, y, theta, sites)
        except (ConvergenceError, ValueError) as error:
            reason = f"the M-step left the region where the evidence is known: {error}"
            break
        monitor(-objective)
        if objective < last[2] - FELL * abs(last[2]) and steps > m_steps:
            reason = "the learning objective fell"
            break
        last = (theta, evidence, objective)
        if _moved(theta, start) < tolerance:
            reason, converged = "the hyperparameters rest", True
            break
    if first[2] > last[2]:  # from the first iteration on it does not fall up to `last`
        converged = converged and _moved(last[0], first[0]) < tolerance
        last, reason = first, f"{reason}; below the start, which is returned"
    theta, evidence, objective = last
    inputs, log_prior = graph.forward(theta)
    solver.rule.solve(make_prior(inputs[1:]), lik, y, inputs[0])  # the reported point is usable
    return Found(theta, evidence, objective, reason, converged, steps)


def _moved(theta: Array, start: Array) -> float:
    """Largest relative change of a hyperparameter."""
    return float(np.max(np.abs(theta - start) / (1 + np.abs(theta))))


def natural_step(
    q: InducingGaussian | None,
    prior: SparsePrior,
    solver: Solver,
    y: Array,
    phi: Parameters,
    n: int,
) -> tuple[InducingGaussian, BatchTerms]:
    """One damped natural-gradient step on a batch, and the batch's terms after it."""
    lik, rho = solver.likelihood, step_of(solver)
    q = InducingGaussian.standard(len(prior.L)) if q is None else q
    target = batch_terms(q, prior, lik, y, phi, n).target
    q = InducingGaussian((1 - rho) * q.H + rho * target.H, (1 - rho) * q.B + rho * target.B)
    return q, batch_terms(q, prior, lik, y, phi, n)


def minibatch(
    gp: Approximate,
    graph: HyperparameterGraph,
    batches: HyperparameterGraph,
    theta: Array,
    adam: Adam,
    batch_size: int,
    passes: int,
    rng: np.random.Generator,
    monitor: Watch,
) -> Found:
    """Passes over the data in random batches; ``batches`` takes the rows of X of each."""
    X, y = gp.input_values(), graph.y
    n, q, steps = len(y), None, 0
    for _ in range(passes):
        total = 0.0
        parts = np.array_split(rng.permutation(n), -(-n // batch_size))
        for rows in parts:
            (phi, *inputs), log_prior = batches.forward(theta, X[rows])
            if not np.isfinite(log_prior):
                raise ConvergenceError(
                    f"the log prior is {log_prior} after {steps} steps: keep the search inside its "
                    "support by bounds, or leave the variables their transforms"
                )
            prior = SparsePrior(*inputs)
            q, terms = natural_step(q, prior, gp.solver, y[rows], phi, n)
            theta = adam.step(theta, batches.backward(theta, terms.bars, X[rows]))
            total, steps = total + terms.value, steps + 1
        assert q is not None  # a pass has at least one batch
        monitor(q.divergence() - total / len(parts))
    (phi, *inputs), log_prior = graph.forward(theta)
    evidence = gp.solver.solve(y, phi, tuple(inputs)).value
    reason = f"{passes} passes over the data"
    return Found(theta, evidence, evidence + log_prior, reason, False, steps)


def _held_value(
    solver: Solver,
    graph: HyperparameterGraph,
    y: Array,
    theta: Array,
    sites: GaussianSites,
) -> tuple[float, float]:
    inputs, log_prior = graph.forward(theta)
    post = make_prior(inputs[1:]).condition(sites)
    if not np.isfinite(log_prior):
        raise ConvergenceError(f"the log prior is {log_prior} there")
    evidence = solver.evidence(post, solver.correct(post, sites, y, inputs[0]))
    return evidence, evidence + log_prior


def step_of(solver: Solver) -> float:
    """ρ of a rule whose sites move by damped updates; TypeError for the others."""
    if solver.rule.rho is None:
        raise TypeError(f"{solver.rule} has no damped step: use rule=CVI()")
    return solver.rule.rho


def _e_step(
    solver: Solver, y: Array, inputs: Arrays, sites: GaussianSites, steps: int
) -> GaussianSites:
    """Damped updates of the sites at fixed hyperparameters; a step that is improper is halved."""
    if not steps:
        return sites
    prior: Prior = make_prior(inputs[1:])
    post = prior.condition(sites)
    for _ in range(steps):
        target = solver.rule.update(post, sites, solver.likelihood, y, inputs[0])
        step = step_of(solver)
        while True:
            try:
                proposal = sites.step(target, step)
                post = prior.condition(proposal)
                break
            except ImproperPosteriorError:
                step /= 2
                if step < SMALLEST_STEP:
                    raise
        sites = proposal
    return sites
