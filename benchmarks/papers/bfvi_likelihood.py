"""Whether a flow can hold the network's posterior at all: fitted to its draws by likelihood.

    python -m benchmarks.papers.bfvi_likelihood [--hidden 32 96] [--steps 4000] [--results FOLDER]

The posterior has 48 copies (three hidden units may change places, and each the sign of all its
weights). Flows trained on the ELBO find some of them. Here the same flow maximises the mean log q
of NUTS draws, each moved to a copy at random, which is forward KL: what it reaches tells what the
family can hold, as opposed to what training on the ELBO finds. Needs JAX.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
from jax.example_libraries import optimizers
from scipy.special import logsumexp

import pymc_ext as px
from benchmarks import record
from benchmarks.papers import bfvi_cases as cases
from bridge.measures.khat import pareto_khat
from pymc_ext.jax_graphs import jax_function
from pymc_ext.variational.bernstein.graph import GRAPHS, FlowGraph
from pymc_ext.variational.bernstein.inversion import invert

BATCH, RATE, LONGEST = 256, 0.003, 20.0
NEWTON_STEPS = 4  # from the place where a draw was when last visited
DRAWS = 50_000


def copies(rng: np.random.Generator) -> np.ndarray:
    """NUTS draws (N, 10) of w1, b1, w2, b2, each moved to one of the 48 copies."""
    posterior = cases.network_nuts(4000)
    units = cases.network_units(posterior)
    units = units * rng.choice([-1.0, 1.0], (len(units), 3, 1))
    order = np.argsort(rng.random((len(units), 3, 1)), axis=1)
    units = np.take_along_axis(units, order, axis=1)
    flat = units.transpose(0, 2, 1).reshape(-1, 9)
    return np.hstack([flat, posterior["b2"].values.reshape(-1, 1)])


def flow_in_jax(graph: FlowGraph) -> Any:
    """(params, x (D,)) -> y (D,) and log q of y, up to the base's constant."""
    x = pt.matrix("x", shape=(1, graph.dimension))
    v = graph.input_map.inverse(x, graph.params, graph.stretch, GRAPHS)
    _, log_dx = graph.logit_input(v)
    y, log_dy = graph.flow(x)
    log_q = graph.law.log_density(v, GRAPHS).sum(-1) - log_dx - log_dy
    function, held = jax_function(list(graph.params.values()), x, [y, log_q])
    fixed = tuple(variable.get_value() for variable in held)

    def flow(values: Any, row: Any) -> tuple[Any, Any]:
        out, density = function(*values, *fixed, row[None])
        return out[0], density[0]

    return flow


def negative_log_q(flow: Any, values: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """−mean log q(y) by Newton's method from x; its last step carries the derivative in x(y)."""
    frozen = jax.lax.stop_gradient(values)
    solve = partial(jax.scipy.linalg.solve_triangular, lower=True)

    def row(x: Any, y: Any) -> tuple[Any, Any, Any]:
        def slope(at: Any) -> Any:
            return jax.jacfwd(lambda p: flow(frozen, p)[0])(at)

        def newton(_: Any, at: Any) -> Any:
            return at + jnp.clip(solve(slope(at), y - flow(frozen, at)[0]), -1, 1)

        root = jax.lax.stop_gradient(jax.lax.fori_loop(0, NEWTON_STEPS, newton, x))
        error = y - flow(values, root)[0]
        moved = root + solve(jax.lax.stop_gradient(slope(root)), error)
        found = jnp.max(jnp.abs(jax.lax.stop_gradient(error))) < 1e-3
        return jnp.where(found, -flow(values, moved)[1], 0.0), found, jnp.where(found, root, x)

    loss, found, roots = jax.vmap(row)(x, y)
    return loss.sum() / jnp.maximum(found.sum(), 1), (found.mean(), roots)


def fit(theta: np.ndarray, hidden: int, steps: int, rng: np.random.Generator) -> Any:
    """The flow of largest likelihood, by Adam with a cosine decay in the second half."""
    with cases.network():
        shape = px.FlowShape(10, (hidden, hidden), ordering=["w1", "b1", "w2", "b2"])
        approx = px.BernsteinVI(shape, random_seed=1).approx
    y = approx.q.coordinates(theta)
    x = invert(approx.q.triangular, y, BATCH)[0]
    flow = flow_in_jax(FlowGraph(approx.q))
    gradient = jax.value_and_grad(partial(negative_log_q, flow), has_aux=True)

    def rate(i: Any) -> Any:
        decay = 0.5 * (1 + jnp.cos(jnp.pi * jnp.maximum(2 * i / steps - 1, 0)))
        return RATE * jnp.minimum(1, (i + 1) / 100) * decay

    init, update, params = optimizers.adam(rate)

    @jax.jit
    def step(i: Any, state: Any, x: Any, y: Any) -> Any:
        (loss, (found, roots)), g = gradient(params(state), x, y)
        g = [jnp.nan_to_num(part, posinf=0, neginf=0) for part in g]  # of rows not found
        return update(i, optimizers.clip_grads(g, LONGEST), state), loss, found, roots

    state, losses, shares = init(list(approx.q.values.values())), [], []
    for i in range(steps):
        at = rng.integers(0, len(y), BATCH)
        state, loss, found, roots = step(i, state, x[at], y[at])
        x[at] = np.asarray(roots)
        losses.append(float(loss))
        shares.append(float(found))
    approx.q.set(np.concatenate([np.ravel(value) for value in params(state)]))
    return approx, float(np.mean(losses[-500:])), float(np.mean(shares))


def main() -> None:
    """Draw, fit with each width, judge, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hidden", type=int, nargs="+", default=[32, 96])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(1)
    theta, rows = copies(rng), []
    for hidden in given.hidden:
        begin = time.perf_counter()
        approx, loss, inverted = fit(theta, hidden, given.steps, rng)
        _, log_p, log_q = approx.draws_with_logs(DRAWS, random_seed=1001)
        ratio, khat = log_p - log_q, pareto_khat(log_p, log_q)
        rows.append({
            "hidden": hidden, "khat": khat.value, "relative_ess": khat.ess / DRAWS,
            "elbo": float(ratio.mean()), "log_marginal_is": float(logsumexp(ratio) - np.log(DRAWS)),
            "cross_entropy": loss, "share_inverted": inverted,
            "seconds": time.perf_counter() - begin,
        })  # fmt: skip
        print(f"network, by likelihood: {rows[-1]}", flush=True)
        record.write(given.results / "bfvi_likelihood.json", rows)


if __name__ == "__main__":
    main()
