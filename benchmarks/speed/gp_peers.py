"""Variational GP classification beside GPflow's VGP, which needs an environment of its own.

    python -m venv PEERS && PEERS/bin/pip install gpflow tensorflow-cpu
    python -m benchmarks.speed.gp_peers --python PEERS/bin/python [--sizes 350 1000]

Same data, RBF kernel, logistic likelihood and start values; one thread. (1) One gradient of the
ELBO: ours at the converged posterior of every hyperparameter value, GPflow's in all variational
parameters and hyperparameters at once, compiled. (2) A fitted model: L-BFGS from the same start,
ours to its own stop, GPflow's by `gpflow.optimizers.Scipy` until it stops or --seconds are over;
seconds without compilation, and the ELBO reached.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

START = {"variance": 1.5, "ls": 1.2}


def peer(path: str, seconds: float) -> dict[str, Any]:
    """Runs in the peers' environment: GPflow's seconds of a gradient and of a fit."""
    import gpflow
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    with np.load(path) as z:
        data = (z["X"], z["y"][:, None].astype(float))
    kernel = gpflow.kernels.SquaredExponential(variance=START["variance"], lengthscales=START["ls"])
    model = gpflow.models.VGP(data, kernel, gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid))
    variables = model.trainable_variables

    @tf.function
    def gradient() -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            loss = model.training_loss()
        return loss, tape.gradient(loss, variables)

    gradient()
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        gradient()[0].numpy()
        times.append(time.perf_counter() - begin)
    begin, trace = time.perf_counter(), []

    def watch(*_: Any) -> None:
        trace.append(time.perf_counter() - begin)
        if trace[-1] > seconds:
            raise TimeoutError

    reason = "converged"
    try:
        found = gpflow.optimizers.Scipy().minimize(
            model.training_loss, variables, step_callback=watch, options={"maxiter": 100_000}
        )
        reason = str(found.message)
    except TimeoutError:
        reason = f"stopped after {seconds:g} s"
    return {
        "gradient_seconds": float(np.median(times)), "fit_seconds": time.perf_counter() - begin,
        "elbo": float(model.elbo()), "iterations": len(trace), "stop": reason,
        "variance": float(kernel.variance.numpy()), "ls": float(kernel.lengthscales.numpy()),
        "versions": {"gpflow": gpflow.__version__, "tensorflow": tf.__version__},
    }  # fmt: skip


def ours(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    """The same by `CVI`."""
    import pymc_ext as px
    from benchmarks.speed.gp import model

    it, gp = model(X, y, px.gp.CVI(tolerance=1e-6))
    graph, times = gp.graph(it), []
    theta = np.log(list(START.values()))
    for i in range(15):
        at = theta + 0.02 * (1 + i % 2)  # 2 % away from the last solution, as in learning
        begin = time.perf_counter()
        (phi, *prior), _ = graph.forward(at)
        graph.backward(at, gp.solver.gradient(graph.y, phi, tuple(prior)))
        times.append(time.perf_counter() - begin)
    gp.solver._last = None
    with it:
        fit = px.gp.fit_hyperparameters(gp)
    return {
        "gradient_seconds": float(np.median(times)), "fit_seconds": fit.seconds,
        "elbo": fit.evidence, "gradients": fit.steps, "stop": fit.stop_reason,
        **{k: float(v) for k, v in fit.point.items()},
    }  # fmt: skip


def main() -> None:
    """Measure both on the same data, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", type=Path, help="interpreter that has gpflow")
    parser.add_argument("--sizes", nargs="+", type=int, default=[350, 1000])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    if arguments.peer:
        print(json.dumps(peer(arguments.peer, arguments.seconds)))
        return
    from benchmarks import record
    from benchmarks.speed.gp import data

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    results = {}
    for n in arguments.sizes:
        X, y = data(n)
        results[str(n)] = {"ours": ours(X, y)}
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            np.savez(file.name, X=X, y=y)
            command = [str(arguments.python), __file__, "--peer", file.name]
            command += ["--seconds", str(arguments.seconds)]
            env = os.environ | {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
            answer = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
        results[str(n)]["gpflow"] = json.loads(answer.stdout.splitlines()[-1])
        logging.info("%d %s", n, json.dumps(results[str(n)], indent=1))
        record.write(arguments.results / "gp_peers.json", results)


if __name__ == "__main__":
    main()
