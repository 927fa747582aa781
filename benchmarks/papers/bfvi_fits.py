"""What fits the cases of `benchmarks.papers.bfvi`: each method with its options by case."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm

import pymc_ext as px

DRAWS = 50_000  # by which each fit is judged
FLOW = px.FlowShape(10, (32, 32))  # all else is the default
SLOWER = px.StepOptions(learning_rate=0.001)


def flow_settings(shape: px.FlowShape) -> dict[str, dict[str, Any]]:
    """Options by case of a flow of this shape."""
    longer = replace(shape, latent="student-t", tails=None)
    return {
        "melanoma": {"base": "laplace"},
        "diamonds": {"base": "laplace", "step": SLOWER, "shape": longer},
    }


SETTINGS: dict[str, dict[str, dict[str, Any]]] = {  # of each method, by case
    "flow": flow_settings(FLOW),
    "in JAX": flow_settings(FLOW),
    "defaults": flow_settings(px.FlowShape()),
    "mean-field Gaussian": {"eight_schools_cp": {"base": "unit"}},  # it has no mode
    "mean-field Student-t": {
        "melanoma": {"base": "diagonal"},
        "diamonds": {"base": "diagonal", "step": SLOWER},
    },
}
MEAN_FIELD = px.FlowShape(1, (), latent="student-t", tails="linear", conditioning="squashed")
METHODS: dict[str, Callable[..., Any]] = {
    "flow": lambda **k: px.BernsteinVI(**{"shape": FLOW, "base": "identity", **k}),
    "defaults": lambda **k: px.BernsteinVI(**{"base": "identity", **k}),
    "on the map": lambda backend=None, **k: px.BernsteinVI(**k),  # as a user has it, of any model
    "on a Gaussian": lambda backend=None, **k: px.BernsteinVI(base="match", **k),
    "in JAX": lambda **k: px.BernsteinVI(
        **{"shape": FLOW, "base": "identity", "polish": None, **k, "backend": "jax"}
    ),
    "mean-field Gaussian": lambda backend=None, **k: px.DiagonalVI(**k),
    "mean-field Student-t": lambda **k: px.BernsteinVI(
        MEAN_FIELD, polish=None, **{"base": "identity", **k}
    ),
}
BY_NEED = ("on the map", "on a Gaussian")  # which end by themselves


def fit(
    build: Callable[[], pm.Model | None], method: str, n: int = 30_000, **options: Any
) -> tuple[Any, float]:
    """An approximation and the seconds it took, tracing and compiling included."""
    begin = time.perf_counter()
    with build():
        if options.get("base") == "diagonal":
            options["base"] = diagonal_base()
        inference = METHODS[method](**options)
        draws = {} if method == "mean-field Gaussian" else {"obj_n_mc": 32}
        if method in BY_NEED:
            approx = pm.fit(method=inference, progressbar=False)
        else:
            approx = pm.fit(n, method=inference, progressbar=False, **draws)
    return approx, time.perf_counter() - begin


def diagonal_base() -> tuple[np.ndarray, np.ndarray]:
    """Mode, and the variances of Laplace's approximation given all other parameters."""
    laplace = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    precision = np.linalg.inv(laplace.cov.eval())
    return laplace.mean.eval(), np.diag(1 / np.diag(precision))
