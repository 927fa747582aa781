"""`bridge.fit` on models whose labels, or signs, are free, beside chains held to one order.

    python -m benchmarks.speed.labels [--models ...] [--seeds 2]

Nothing tells the components of these mixtures apart, so that their posteriors have K! modes (a
factor model's two). The answer is held against 4 × 5,000 draws of the same model with an order, or
a sign, imposed: of its draws, put into that order, the worst error of a mean in sds and the worst
ratio of sds. "orders" is the smallest share of draws in one order, times K!: 1 where all are as
frequent, 0 where one is missed. Each run is kept as it ends.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bridge
from benchmarks.record import Runs

RESULTS = Path(__file__).parent / "results" / "labels.json"
Array = np.ndarray
Row = dict[str, float | str | bool]


@dataclass(frozen=True)
class Free:
    """A model whose order, or sign, is free.

    Parameters
    ----------
    make
        Random numbers -> the model.
    told_by
        The variable whose order, or first element's sign, tells its modes apart.
    exchanged
        Those that change with it.
    signs
        Whether signs are free, not orders.
    """

    make: Callable[[np.random.Generator], pm.Model]
    told_by: str
    exchanged: tuple[str, ...]
    signs: bool = False


def normals(K: int, rows: int, apart: float, one_sd: bool = False) -> Free:
    """Normals at 0, ``apart``, 2 ``apart`` …, of sd 1; all free."""

    def make(rng: np.random.Generator) -> pm.Model:
        y = rng.normal(apart * rng.integers(K, size=rows), 1.0)
        with pm.Model() as model:
            w = pm.Dirichlet("w", np.ones(K))
            mu = pm.Normal("mu", apart * (K - 1) / 2, 5, shape=K)
            sigma = pm.HalfNormal("sigma", 2, shape=None if one_sd else K)
            pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=y)
        return model

    return Free(make, "mu", ("mu", "w") if one_sd else ("mu", "w", "sigma"))


def counts(*rates: float) -> Free:
    """Poisson counts."""

    def make(rng: np.random.Generator) -> pm.Model:
        y = rng.poisson(rng.choice(rates, size=100 * (len(rates) - 1)))
        with pm.Model() as model:
            w = pm.Dirichlet("w", np.ones(len(rates)))
            rate = pm.Gamma("rate", 1, 0.1, shape=len(rates))
            pm.Mixture("y", w=w, comp_dists=pm.Poisson.dist(rate, shape=rate.shape), observed=y)
        return model

    return Free(make, "rate", ("rate", "w"))


def lines(rng: np.random.Generator) -> pm.Model:
    """Two regression lines."""
    x = rng.normal(size=150)
    y = np.where(rng.random(150) < 0.5, 1 + 2 * x, -1 - x) + 0.5 * rng.normal(size=150)
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(2))
        a, b = pm.Normal("a", 0, 3, shape=2), pm.Normal("b", 0, 3, shape=2)
        pm.NormalMixture("y", w=w, mu=a + b * x[:, None], sigma=pm.HalfNormal("s"), observed=y)
    return model


def factor(rng: np.random.Generator) -> pm.Model:
    """One factor, 40 rows of six items."""
    loadings = np.array([1.2, 0.8, -0.9, 0.7, 1.0, 0.6])
    y = rng.normal(size=40)[:, None] * loadings + rng.normal(size=(40, 6))
    with pm.Model() as model:
        loading, score = pm.Normal("loading", 0, 1, shape=6), pm.Normal("score", shape=40)
        sigma = pm.Gamma("sigma", 5, 5, shape=6)
        pm.Normal("y", score[:, None] * loading, sigma, observed=y)
    return model


MODELS = {
    "2 normals, 200 rows, 4 sds": normals(2, 200, 4),
    "2 normals, 200 rows, 3 sds": normals(2, 200, 3),
    "2 normals, 60 rows, 3 sds": normals(2, 60, 3),
    "3 normals, 300 rows, 4 sds": normals(3, 300, 4),
    "3 normals of one sd, 200 rows, 3 sds": normals(3, 200, 3, one_sd=True),
    "2 Poisson rates": counts(2, 10),
    "3 Poisson rates": counts(2, 10, 25),
    "2 regression lines": Free(lines, "a", ("a", "b", "w")),
    "1 factor": Free(factor, "loading", ("loading", "score"), signs=True),
}


def in_order(values: dict[str, Array], free: Free) -> dict[str, Array]:
    """Draws by name (N, K), each with its labels, or signs, in the one order."""
    told = values[free.told_by]
    if free.signs:
        sign = np.sign(told[:, :1])
        return {name: sign * values[name] for name in free.exchanged}
    order = np.argsort(told, axis=1)
    return {name: np.take_along_axis(values[name], order, axis=1) for name in free.exchanged}


def shares(told: Array, signs: bool) -> float:
    """The smallest share of an order, by what each would have."""
    if signs:
        first = np.mean(told[:, 0] > 0)
        return 2 * float(min(first, 1 - first))
    orders = [tuple(order) for order in np.argsort(told, axis=1)]
    every = list(permutations(range(told.shape[1])))
    return float(min(orders.count(order) for order in every) / len(orders) * len(every))


def draws(idata: object, names: Sequence[str]) -> dict[str, Array]:
    """By name, (N, K)."""
    posterior = idata["posterior"]  # type: ignore[index]
    return {n: posterior[n].values.reshape(-1, posterior[n].shape[-1]) for n in names}


def imposed(model: pm.Model, free: Free, start: dict[str, Array]) -> dict[str, Array]:
    """Draws of the model in one order, from ``start``."""
    with model.copy() as one:
        told = one[free.told_by]
        right = told[0] > 0 if free.signs else pt.all(pt.diff(told) > 0)
        pm.Potential("imposed", pt.switch(right, 0.0, -np.inf))
        idata = pm.sample(
            5_000, tune=2_000, chains=4, cores=1, random_seed=1, progressbar=False, initvals=start,
            target_accept=0.95, nuts_sampler="pymc", compute_convergence_checks=False,
        )  # fmt: skip
    return draws(idata, free.exchanged)


def one(name: str, seed: int) -> Row:
    """One answer, held against the imposed order."""
    free = MODELS[name]
    model = free.make(np.random.default_rng(sum(map(ord, name))))
    begin = time.perf_counter()
    advice = bridge.fit(model, random_seed=seed, progressbar=False)
    seconds = time.perf_counter() - begin
    found = draws(advice.idata, free.exchanged)
    ours = in_order(found, free)
    known = imposed(model, free, {name: x.mean(axis=0) for name, x in ours.items()})
    errors, ratios = [0.0], [1.0]
    for variable, x in known.items():
        sd = x.std(axis=0)
        errors += list(np.abs(ours[variable].mean(axis=0) - x.mean(axis=0)) / sd)
        ratios += list(ours[variable].std(axis=0) / sd)
    return {
        "trusted": advice.trusted,
        "method": advice.method,
        "gradients": sum(attempt.all_gradients for attempt in advice.attempts),
        "seconds": round(seconds, 1),
        "orders": shares(found[free.told_by], free.signs),
        "mean_error": float(max(errors)),
        "sd_ratio": float(max(ratios, key=lambda r: abs(np.log(r)))),
    }


def table(made: dict[str, Row]) -> str:
    """A line a run."""
    lines = [
        "| model | seed | trusted | by | gradients | seconds | orders | mean | sd |",
        "|" + "---|" * 9,
    ]
    for key, r in made.items():
        name, seed = key.rsplit("/", 1)
        lines.append(
            f"| {name} | {seed} | {'yes' if r['trusted'] else 'no'} | {r['method']} | "
            f"{r['gradients']:,} | {r['seconds']:.0f} | {r['orders']:.2f} | "
            f"{r['mean_error']:.2f} | {r['sd_ratio']:.2f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    logging.getLogger("pymc").setLevel(logging.ERROR)
    runs = Runs(options.results, "runs")
    for seed in range(1, options.seeds + 1):
        for name in options.models:
            runs(f"{name}/{seed}", one, name, seed)
    print(table(runs.made))


if __name__ == "__main__":
    main()
