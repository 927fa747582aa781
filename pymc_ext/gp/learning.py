"""Point estimates of the hyperparameters: by the exact gradient, or by the paper's alternation."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from pymc_ext.gp.errors import ConvergenceError, ImproperPosteriorError
from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.minibatch import WhitenedGaussian, batch_terms
from pymc_ext.gp.sites import GaussianSites
from pymc_ext.gp.solver import Solver, make_prior
from pymc_ext.gp.sparse import SparsePrior

logger = logging.getLogger(__name__)

METHODS = ("l-bfgs", "alternating", "minibatch")
DEFAULT_BOUND = 12.0  # e^±12 for a log-transformed hyperparameter


@dataclass(frozen=True)
class HyperparameterFit:
    """Where learning stopped, and why.

    Parameters
    ----------
    point
        Hyperparameters as `pm.find_MAP` returns them, to pass on as ``point=``.
    objective
        Evidence plus log prior there.
    evidence
        The evidence alone, all normalisers included.
    method, stop_reason, converged
        How it was found, why it stopped, whether that is a stationary point.
    steps
        Gradient evaluations of the hyperparameters.
    trace
        Objective after every iteration.
    active_bounds
        Hyperparameters (unconstrained names) that rest at a bound of the search.
    seconds
        Wall time without graph compilation.
    """

    point: dict[str, np.ndarray]
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
    gp: Any,
    method: str = "l-bfgs",
    start: dict[str, ArrayLike] | None = None,
    bounds: dict[str, tuple[float, float]] | None = None,
    max_iterations: int = 500,
    e_steps: int = 20,
    m_steps: int = 20,
    learning_rate: float = 0.01,
    tolerance: float = 1e-4,
    batch_size: int = 1000,
    random_seed: int | None = None,
    model: pm.Model | None = None,
) -> HyperparameterFit:
    """Maximise evidence + log prior over the hyperparameters.

    Parameters
    ----------
    gp
        `px.gp.Approximate` with data in ``model``.
    method
        ``"l-bfgs"``: the exact gradient of L(λ*(θ), θ) with the sites at their fixed point.
        ``"alternating"``: Li, John & Solin's E- and M-steps: ``e_steps`` damped updates of the
        sites, then ``m_steps`` of Adam on the evidence with the sites held; it stops when the
        objective falls (and returns the point before that), or the hyperparameters rest.
        ``"minibatch"``: for sparse models learned by the ELBO; ``max_iterations`` passes over the
        data in random batches, on each one natural-gradient step of size ``rule.rho`` and one step
        of Adam. The objective reported is the ELBO of all rows at the end.
    start
        Constrained start values by name; the model's initial point where missing.
    bounds
        (low, high) of constrained hyperparameters by name; others are bounded at ±12 on their
        unconstrained scale. Bounds that hold at the end are reported.
    max_iterations
        Of L-BFGS, or pairs of E- and M-steps.
    e_steps, m_steps, learning_rate, tolerance
        Of the alternation; ``tolerance``: relative change of every unconstrained hyperparameter
        over one iteration at which it stops as converged.

    batch_size, random_seed
        Of ``"minibatch"``: rows of a batch, seed of their order.

    Returns
    -------
    HyperparameterFit

    Raises
    ------
    ValueError
        Unknown method or hyperparameter, or a rule without damped steps in the alternation.
    ConvergenceError
        If the rule fails at the start.

    References
    ----------
    Li, John & Solin (2023), section 3 and figure 3, arXiv:2306.04201.
    """
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if not gp.inputs:
        raise ValueError("no data yet: call marginal_likelihood first")
    if method != "l-bfgs" and not hasattr(gp.solver.rule, "rho"):
        raise ValueError(f"method={method!r} needs rule=CVI(), got {gp.solver.rule}")
    if method == "minibatch" and (gp.Xu is None or gp.solver.learning != "elbo"):
        raise ValueError("method='minibatch' needs inducing inputs Xu and learning='elbo'")
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1, got {batch_size}")
    graph = gp.graph(pm.modelcontext(model))
    theta = graph.flatten(graph.transformed(start or {}))
    if not theta.size:
        raise ValueError("the model has no free hyperparameter to learn")
    box = _box(graph, bounds or {})
    theta = np.clip(theta, *box)
    begin = time.perf_counter()
    if method == "l-bfgs":
        found = _lbfgs(gp.solver, graph, theta, box, max_iterations)
    elif method == "minibatch":
        adam, rng = _Adam(learning_rate, 1, box), np.random.default_rng(random_seed)
        batches = HyperparameterGraph(gp, graph.model, batch=True)
        found = _minibatch(gp, graph, batches, theta, adam, batch_size, max_iterations, rng)
    else:
        adam = _Adam(learning_rate, m_steps, box)
        found = _alternate(gp.solver, graph, theta, adam, e_steps, max_iterations, tolerance)
    theta, evidence, objective, reason, converged, steps, trace = found
    active = tuple(_active(graph, theta, box))
    if active:
        logger.warning("%s: at a bound of the search", ", ".join(active))
    seconds = time.perf_counter() - begin
    return HyperparameterFit(
        graph.constrained(theta), objective, evidence, method, reason, converged, steps,
        tuple(trace), active, seconds,
    )  # fmt: skip


def _box(graph: HyperparameterGraph, bounds: dict[str, tuple[float, float]]) -> np.ndarray:
    """(2, D) bounds on the unconstrained scale."""
    ends = []
    for side in (0, 1):
        default = DEFAULT_BOUND * (2 * side - 1)
        flat = {name: np.full(v.shape, default) for name, v in graph.start_point.items()}
        given = graph.transformed({name: pair[side] for name, pair in bounds.items()})
        for rv in graph.model.free_RVs:
            if rv.name in bounds:
                name = graph.model.rvs_to_values[rv].name
                flat[name] = given[name]
        ends.append(graph.flatten(flat))
    box = np.array(ends)
    return np.array([box.min(axis=0), box.max(axis=0)])


def _active(graph: HyperparameterGraph, theta: np.ndarray, box: np.ndarray) -> list[str]:
    names = [n for n in graph.names for _ in range(graph.start_point[n].size)]
    at = np.isclose(theta, box[0], atol=1e-6) | np.isclose(theta, box[1], atol=1e-6)
    return sorted({name for name, hit in zip(names, at, strict=True) if hit})


def _lbfgs(solver: Solver, graph: HyperparameterGraph, theta, box, max_iterations):
    y, trace = graph.y, []
    best: dict[str, Any] = {}

    def negative(theta: np.ndarray) -> tuple[float, np.ndarray]:
        (phi, *prior), log_prior = graph.forward(theta)
        try:
            evidence = solver.solve(y, phi, tuple(prior)).value
            bars = solver.gradient(y, phi, tuple(prior))
        except (ConvergenceError, ImproperPosteriorError, ValueError) as error:
            if not best:
                raise
            logger.info("a trial point of the line search was refused: %s", error)
            return 1e10 + abs(best["value"]), np.zeros_like(theta)
        value = evidence + log_prior
        if not best or value > best["value"]:
            best.update(value=value, evidence=evidence, theta=theta.copy())
        return -value, -graph.backward(theta, bars)

    result = minimize(
        negative, theta, jac=True, method="L-BFGS-B", bounds=box.T,
        options={"maxiter": max_iterations, "gtol": 1e-5, "ftol": 1e-11},
        callback=lambda _: trace.append(best["value"]),
    )  # fmt: skip
    reason = str(result.message)
    return (
        best["theta"], best["evidence"], best["value"], reason, bool(result.success),
        int(result.nfev), trace,
    )  # fmt: skip


class _Adam:
    """Adam ascent with the moments restarted for every M-step, projected to the box."""

    def __init__(self, rate: float, steps: int, box: np.ndarray):
        self.rate, self.steps, self.box = rate, steps, box
        self._m: Any = 0.0
        self._v: Any = 0.0
        self._t = 0

    def step(self, theta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        self._t += 1
        self._m = 0.9 * self._m + 0.1 * gradient
        self._v = 0.999 * self._v + 0.001 * gradient**2
        m, v = self._m / (1 - 0.9**self._t), self._v / (1 - 0.999**self._t)
        return np.clip(theta + self.rate * m / (np.sqrt(v) + 1e-8), *self.box)


def _alternate(solver, graph, theta, adam, e_steps, max_iterations, tolerance):
    y, lik = graph.y, solver.likelihood
    inputs, log_prior = graph.forward(theta)
    solution = solver.solve(y, inputs[0], inputs[1:])  # the first E-step runs to its end
    sites = solution.fixed_point.sites
    trace: list[float] = []
    last = (theta, solution.value, solution.value + log_prior)
    steps, reason, converged = 0, f"{max_iterations} iterations", False
    for _ in range(max_iterations):
        inputs, _ = graph.forward(theta)
        sites = _e_step(solver, y, inputs, sites, e_steps if trace else 0)
        start = theta
        try:
            for _ in range(adam.steps):
                inputs, _ = graph.forward(theta)
                _, bars = solver.held_gradient(y, inputs[0], inputs[1:], sites)
                theta = adam.step(theta, graph.backward(theta, bars))
                steps += 1
            evidence, objective = _held_value(solver, graph, y, theta, sites)
        except (ImproperPosteriorError, ValueError) as error:
            reason = f"the M-step left the region where the sites are proper: {error}"
            break
        trace.append(objective)
        if objective < last[2] - 1e-9 * abs(last[2]) and len(trace) > 1:
            reason = "the learning objective fell"
            break
        last = (theta, evidence, objective)
        if np.max(np.abs(theta - start) / (1 + np.abs(theta))) < tolerance:
            reason, converged = "the hyperparameters rest", True
            break
    theta, evidence, objective = last
    inputs, log_prior = graph.forward(theta)
    solver.rule.solve(make_prior(inputs[1:]), lik, y, inputs[0])  # the reported point is usable
    return theta, evidence, objective, reason, converged, steps, trace


def _minibatch(gp, graph, batches, theta, adam, batch_size, passes, rng):
    X, y, lik, rho = gp.input_values(), graph.y, gp.solver.likelihood, gp.solver.rule.rho
    n, q, trace, steps = len(y), None, [], 0
    for _ in range(passes):
        total = 0.0
        parts = np.array_split(rng.permutation(n), -(-n // batch_size))
        for rows in parts:
            (phi, *inputs), _ = batches.forward(theta, X[rows])
            prior = SparsePrior(*inputs)
            q = WhitenedGaussian.standard(len(prior.L)) if q is None else q
            target = batch_terms(q, prior, lik, y[rows], phi, n).target
            q = WhitenedGaussian((1 - rho) * q.H + rho * target.H, (1 - rho) * q.B + rho * target.B)
            terms = batch_terms(q, prior, lik, y[rows], phi, n)
            theta = adam.step(theta, batches.backward(theta, terms.bars, X[rows]))
            total, steps = total + terms.value, steps + 1
        assert q is not None  # a pass has at least one batch
        trace.append(total / len(parts) - q.divergence())
    (phi, *inputs), log_prior = graph.forward(theta)
    evidence = gp.solver.solve(y, phi, tuple(inputs)).value
    reason = f"{passes} passes over the data"
    return theta, evidence, evidence + log_prior, reason, False, steps, trace


def _held_value(solver, graph, y, theta, sites) -> tuple[float, float]:
    inputs, log_prior = graph.forward(theta)
    post = make_prior(inputs[1:]).condition(sites)
    evidence = post.log_normaliser + solver.correct(post, sites, y, inputs[0]).value
    return evidence, evidence + log_prior


def _e_step(solver: Solver, y, inputs, sites: GaussianSites, steps: int) -> GaussianSites:
    """Damped updates of the sites at fixed hyperparameters; a step that is improper is halved."""
    rule: Any = solver.rule  # CVI, whose step is rho
    prior, rho = make_prior(inputs[1:]), rule.rho
    for _ in range(steps):
        post = prior.condition(sites)
        target = solver.rule.update(post, sites, solver.likelihood, y, inputs[0])
        step = rho
        while True:
            try:
                proposal = sites.step(target, step)
                prior.condition(proposal)
                break
            except ImproperPosteriorError:
                step /= 2
                if step < 1e-6:
                    raise
        sites = proposal
    return sites
