"""GPflow's side of ``benchmarks.speed.gp_peers``: VGP and SVGP on the same data and start.

    PEERS/bin/python benchmarks/speed/gp_gpflow.py DATA.npz BUDGET

Runs in an environment of its own (``gp_peers`` names its packages); imports nothing of this
project. DATA holds X, y and, for SVGP, Z. Prints one JSON line: seconds of one ELBO and its
gradient in all variables (compiled, median); seconds of one evidence and gradient with q at its
optimum, 2 % away from hyperparameters where it was (natural gradients of step 1 until the ELBO
moves by less than 1e-4); and for each way of fitting the ELBO over time until BUDGET seconds have
passed or it stands. Tracing and compiling are not in any of them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable

os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")  # else Keras 3, whose Adam refuses variables
import gpflow
import numpy as np
import tensorflow as tf

REPEATS, STANDS = 15, 1e-4


def build(X: np.ndarray, y: np.ndarray, Z: np.ndarray | None) -> gpflow.models.GPModel:
    """The model of ``benchmarks.speed.gp``: RBF kernel, logistic likelihood, no priors."""
    kernel = gpflow.kernels.SquaredExponential(variance=1.5, lengthscales=1.2)
    likelihood = gpflow.likelihoods.Bernoulli(invlink=tf.sigmoid)
    if Z is None:
        return gpflow.models.VGP((X, y), kernel, likelihood)
    model = gpflow.models.SVGP(kernel, likelihood, Z, num_data=len(X))
    gpflow.set_trainable(model.inducing_variable, False)
    return model


class Watch:
    """ELBO over time."""

    def __init__(self, loss: Callable[[], tf.Tensor], budget: float):
        self.loss, self.budget, self.paused = loss, budget, 0.0
        self.trace: list[tuple[float, float]] = []
        self.begin = time.perf_counter()

    def __call__(self, *_: object) -> None:
        now = time.perf_counter()
        self.trace.append((now - self.begin - self.paused, -float(self.loss())))
        self.paused += time.perf_counter() - now
        if self.trace[-1][0] > self.budget:
            raise TimeoutError


def step_with_q_solved(model: gpflow.models.GPModel, bare: Callable, step: Callable) -> float:
    """Seconds of one evidence and gradient after a small move of the hyperparameters."""
    natural = gpflow.optimizers.NaturalGradient(1.0)

    @tf.function
    def update() -> tf.Tensor:
        natural.minimize(bare, [(model.q_mu, model.q_sqrt)])
        return bare()

    def solve() -> None:
        last, value = np.inf, float(update())
        while abs(last - value) > STANDS:
            last, value = value, float(update())

    solve()
    for parameter in (model.kernel.variance, model.kernel.lengthscales):
        parameter.assign(parameter * np.exp(0.02))
    begin = time.perf_counter()
    solve()
    step()
    return time.perf_counter() - begin


def by_lbfgs(model: gpflow.models.GPModel, loss: Callable[[], tf.Tensor], budget: float) -> Watch:
    """All variables together, as in GPflow's own examples."""
    watch = Watch(loss, budget)
    try:
        gpflow.optimizers.Scipy().minimize(
            loss, model.trainable_variables, step_callback=watch,
            compile=True, options={"maxiter": 100_000},
        )  # fmt: skip
    except TimeoutError:
        return watch
    watch()
    return watch


def by_natural_gradients(
    model: gpflow.models.GPModel, loss: Callable[[], tf.Tensor], budget: float
) -> Watch:
    """Natural gradients for q, Adam for the hyperparameters, in turns."""
    for part in (model.q_mu, model.q_sqrt):
        gpflow.set_trainable(part, False)
    natural, adam = gpflow.optimizers.NaturalGradient(0.5), tf.optimizers.Adam(0.05)

    @tf.function
    def turn() -> None:
        natural.minimize(loss, [(model.q_mu, model.q_sqrt)])
        adam.minimize(loss, model.trainable_variables)

    start = [v.numpy() for v in model.variables]
    turn()
    for variable, value in zip(model.variables, start, strict=True):
        variable.assign(value)
    watch = Watch(loss, budget)
    try:
        while len(watch.trace) < 100 or watch.trace[-1][1] - watch.trace[-100][1] > STANDS:
            turn()
            watch()
    except TimeoutError:
        pass
    return watch


def main() -> None:
    budget = float(sys.argv[2])
    with np.load(sys.argv[1]) as file:
        X, y = file["X"], file["y"].astype(float)[:, None]
        Z = file["Z"] if "Z" in file else None
    data = [] if Z is None else [(X, y)]
    model = build(X, y, Z)
    bare = model.training_loss_closure(*data)

    @tf.function
    def step() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = bare()
        return [value, *tape.gradient(value, model.trainable_variables)]

    step()
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    out = {"version": gpflow.__version__, "step_seconds": float(np.median(seconds))}
    out["solved_step_seconds"] = step_with_q_solved(model, bare, step)
    for name, fit in (("l-bfgs", by_lbfgs), ("natural gradients", by_natural_gradients)):
        model = build(X, y, Z)
        loss = tf.function(model.training_loss_closure(*data))
        loss()
        watch = fit(model, loss, budget)
        out[name] = {
            "trace": watch.trace,
            "variance": float(model.kernel.variance.numpy()),
            "ls": float(model.kernel.lengthscales.numpy()),
        }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
