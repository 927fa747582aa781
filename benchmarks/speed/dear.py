"""Models for which a trusted answer is dear, or is refused, beside `pm.sample` at its defaults.

    python -m benchmarks.speed.dear [--models ...] [--runs ...] [--seeds 1] [--out FILE]

A level that jumps at a continuous time, a latent autoregressive series under counts, regressions
under a regularised horseshoe (Piironen & Vehtari 2017, arXiv:1707.01694), a Weibull law with a
threshold, a stationary series whose level lies far from the middle of its prior, as it may do
near a unit root, where fits end, and item responses of two parameters with free scales of items;
sds of threshold and series are known by quadrature. ``answer`` is
`bridge.fit`, ``pymc`` is `pm.sample`, 4 × (1000 + 1000); where asked for, ``warm-nuts``,
``flow-nuts`` and ``nutpie`` are as in `benchmarks.speed.bent_nuts`, with at most a million
gradients. Each run is kept as it ends. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.integrate import trapezoid

import bridge
from benchmarks.record import Runs
from benchmarks.speed.bent_nuts import drawn
from bridge.methods.problems import as_problem
from pymc_ext.density import PyMCDensity
from pymc_ext.maths.convergence import bulk_ess_and_rhat
from pymc_ext.maths.types import Array
from pymc_ext.sampling.run import BudgetSpentError

RESULTS = Path(__file__).parent / "results" / "dear.json"
BUDGET = 1_000_000
Numbers = dict[str, float | int | str | bool | None]
Found = tuple[Numbers, dict[str, Array]]


# ---- models ----------------------------------------------------------------------------------


def change_point() -> pm.Model:
    """A level before a time and another one after it, 50 normal rows."""
    t = np.arange(50.0)
    y = np.where(t < 20, 1.0, 2.0) + np.random.default_rng(1).normal(0, 0.5, 50)
    with pm.Model() as model:
        when = pm.Uniform("when", 0, 50)
        before, after = pm.Normal("before", 0, 5), pm.Normal("after", 0, 5)
        level = pm.math.switch(t < when, before, after)
        pm.Normal("y", level, pm.HalfNormal("sd", 1), observed=y)
    return model


def autoregressive() -> pm.Model:
    """A latent series of 60 steps under Poisson counts."""
    rng, x = np.random.default_rng(4), np.zeros(60)
    for t in range(1, 60):
        x[t] = 0.8 * x[t - 1] + rng.normal(0, 0.4)
    with pm.Model() as model:
        rho, sd = pm.Uniform("rho", -1, 1), pm.HalfNormal("sd", 1)
        first = pm.Normal.dist(0, 1)
        x_t = pm.AR("x", [rho], sigma=sd, init_dist=first, steps=59)
        pm.Poisson(
            "y", pm.math.exp(pm.Normal("level", 0, 2) + x_t), observed=rng.poisson(3 * np.exp(x))
        )
    return model


def horseshoe(binary: bool = False) -> pm.Model:
    """Ten slopes, of which three are not zero, 60 rows."""
    rng, p = np.random.default_rng(3), 10
    X, slopes = rng.standard_normal((60, p)), np.zeros(p)
    slopes[:3] = 1.5, -1.0, 0.4
    mean = 0.5 + X @ slopes
    with pm.Model() as model:
        z, local = pm.Normal("z", 0, 1, shape=p), pm.HalfCauchy("local", 1, shape=p)
        overall, slab = pm.HalfCauchy("overall", 0.1), 4 * pm.InverseGamma("slab", 2, 2)
        width = pm.math.sqrt(slab * local**2 / (slab + overall**2 * local**2))
        eta = pm.Normal("alpha", 0, 2) + X @ (z * width * overall)
        if binary:
            pm.Bernoulli("y", logit_p=eta, observed=rng.random(60) < 1 / (1 + np.exp(-mean)))
        else:
            noise = pm.HalfNormal("sd", 2)
            pm.Normal("y", eta, noise, observed=mean + rng.standard_normal(60))
    return model


THRESHOLD_ROWS = 25


def threshold_rows() -> Array:
    """Of a Weibull law with shape 2 and scale 3, above 1."""
    return 1 + 3 * np.random.default_rng(5).weibull(2.0, THRESHOLD_ROWS)


def threshold() -> pm.Model:
    """A Weibull law above a threshold that lies below the least row."""
    y = threshold_rows()
    with pm.Model() as model:
        at = pm.Uniform("at", -5, y.min())
        shape, scale = pm.HalfNormal("shape", 3), pm.HalfNormal("scale", 5)
        pm.Potential("y", pm.logp(pm.Weibull.dist(shape, scale), y - at).sum())
    return model


def series() -> Array:
    """Fifty steps about 40."""
    rng, y = np.random.default_rng(2), np.zeros(50)
    for t in range(1, len(y)):
        y[t] = 0.93 * y[t - 1] + rng.normal()
    return 40 + y


def near_unit_root() -> pm.Model:
    """A stationary series with a prior of its level that is four sds away, where rho is not 1."""
    y = series()
    with pm.Model() as model:
        rho, s, c = pm.Uniform("rho", -1, 1), pm.HalfNormal("s", 3), pm.Normal("c", 0, 10)
        pm.Normal("first", c, s / pm.math.sqrt(1 - rho**2), observed=y[0])
        pm.Normal("others", c + rho * (y[:-1] - c), s, observed=y[1:])
    return model


def items(persons: int, questions: int) -> pm.Model:
    """Item responses whose discriminations and difficulties have scales of their own."""
    rng = np.random.default_rng(1)
    ability, sharpness = rng.normal(size=persons), np.exp(rng.normal(0, 0.4, questions))
    hardness = rng.normal(size=questions)
    right = 1 / (1 + np.exp(-sharpness * (ability[:, None] - hardness)))
    with pm.Model() as model:
        theta = pm.Normal("theta", 0, 1, shape=persons)
        middle, spread = pm.Normal("middle", 0, 1), pm.HalfNormal("sd_b", 1)
        a = pm.LogNormal("a", 0, pm.HalfNormal("sd_a", 1), shape=questions)
        b = pm.Normal("b", middle, spread, shape=questions)
        pm.Bernoulli(
            "y",
            logit_p=a * (theta[:, None] - b),
            observed=(rng.random((persons, questions)) < right).astype(int),
        )
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    "change point": change_point,
    "latent AR": autoregressive,
    "horseshoe": horseshoe,
    "horseshoe, binary": lambda: horseshoe(binary=True),
    "threshold": threshold,
    "near a unit root": near_unit_root,
    "12 items": lambda: items(60, 12),
    "20 items": lambda: items(200, 20),
}


def threshold_by_quadrature(points: int = 160) -> tuple[float, float]:
    """Mean and sd of ``at``: the trapezium rule on a grid of all three."""
    y = threshold_rows()
    at = y.min() - np.geomspace(1e-6, 5 + y.min(), 4 * points)
    shape, scale = np.linspace(0.05, 12, points), np.linspace(0.05, 16, points)
    lp = np.empty((len(at), points, points))
    for i, place in enumerate(at):
        u = np.log(y - place)
        k, s = shape[:, None], scale[None]
        powers = np.exp(k[..., None] * (u - np.log(s)[..., None])).sum(axis=-1)
        lp[i] = len(y) * (np.log(k) - k * np.log(s)) + (k - 1) * u.sum() - powers
        lp[i] -= 0.5 * (k / 3) ** 2 + 0.5 * (s / 5) ** 2
    p = trapezoid(trapezoid(np.exp(lp - lp.max()), scale, axis=2), shape, axis=1)
    at, p = at[::-1], p[::-1]
    mean = trapezoid(p * at, at) / trapezoid(p, at)
    return float(mean), float(np.sqrt(trapezoid(p * (at - mean) ** 2, at) / trapezoid(p, at)))


def series_by_quadrature(points: int = 1_500) -> dict[str, float]:
    """Means and sds of ``rho`` and ``c``, which is normal, given those on a grid: logit (1 + rho)/2
    and log s."""
    y = series()
    logit, log_s = np.linspace(-6, 22, points)[:, None], np.linspace(-2, 2, 300)[None]
    rho, s = np.tanh(logit / 2), np.exp(log_s)
    root = np.sqrt(1 - rho**2)
    # rows, first that of the stationary law, are d = b c + s z: the sums of b^2, b d and d^2
    b2 = root**2 + (len(y) - 1) * (1 - rho) ** 2
    bd = root**2 * y[0] + (1 - rho) * (y[1:] - rho * y[:-1]).sum(axis=1, keepdims=True)
    d2 = root**2 * y[0] ** 2 + ((y[1:] - rho * y[:-1]) ** 2).sum(axis=1, keepdims=True)
    precision = b2 / s**2 + 1 / 10**2
    level = bd / s**2 / precision
    lp = np.log(root) - len(y) * log_s - 0.5 * d2 / s**2 - 0.5 * np.log(precision)
    lp += 0.5 * level**2 * precision - 0.5 * (s / 3) ** 2
    lp += log_s + 2 * np.log(root)  # Jacobians of the grid's coordinates
    p = np.exp(lp - lp.max())
    p /= p.sum()
    found = dict[str, float]()
    for name, mean, variance in (("rho", rho + 0 * s, 0.0), ("c", level, 1 / precision)):
        center = float((p * mean).sum())
        found[f"mean({name})"] = center
        found[f"sd({name})"] = float(np.sqrt((p * (variance + (mean - center) ** 2)).sum()))
    return found


# ---- runs ------------------------------------------------------------------------------------


def answer(model: pm.Model, seed: int) -> Found:
    """What `bridge.fit` gives."""
    advice = bridge.fit(model, random_seed=seed, progressbar=False)
    numbers: Numbers = {
        "method": advice.method,
        "trusted": advice.trusted,
        "gradients": advice.gradients,
        "verdict": advice.reasons,
    }
    return numbers, {name: np.asarray(x) for name, x in advice.idata["posterior"].items()}


def by_default(model: pm.Model, seed: int) -> Found:
    """`pm.sample`."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, which the numbers below show
        idata = pm.sample(cores=1, chains=4, random_seed=seed, progressbar=False,
                          discard_tuned_samples=False)  # fmt: skip
    statistics, warm = idata["sample_stats"], idata["warmup_sample_stats"]
    steps = sum(int(np.asarray(group["n_steps"]).sum()) for group in (statistics, warm))
    draws = {name: np.asarray(x) for name, x in idata["posterior"].items()}
    flat = np.concatenate([x.reshape(*x.shape[:2], -1) for x in draws.values()], axis=2)
    ess, rhat = bulk_ess_and_rhat(flat)
    divergences = int(np.asarray(statistics["diverging"]).sum())
    return {
        "gradients": steps,
        "divergences": divergences,
        "ess": float(ess.min()),
        "rhat": float(rhat.max()),
    }, draws


def by_chains(run: str) -> Callable[[pm.Model, int], Found]:
    """A sampler of `benchmarks.speed.bent_nuts`; its draws are not kept."""

    def sampled(model: pm.Model, seed: int) -> Found:
        try:
            numbers, _ = drawn(as_problem(model, None), PyMCDensity(model), run, seed, BUDGET)
        except BudgetSpentError as error:
            return {"gradients": error.spent, "trusted": False, "verdict": str(error)}, {}
        return numbers, {}

    return sampled


RUNS: dict[str, Callable[[pm.Model, int], Found]] = {
    "answer": answer,
    "pymc": by_default,
    **{run: by_chains(run) for run in ("warm-nuts", "flow-nuts", "nutpie")},
}


def made(name: str, run: str, seed: int) -> Numbers:
    """One run; means and sds of scalar variables are kept with it."""
    begin = time.process_time()
    numbers, draws = RUNS[run](MODELS[name](), seed)
    numbers["cpu_s"] = round(time.process_time() - begin, 1)
    for variable, x in draws.items():
        if x.ndim == 2:
            numbers |= {f"mean({variable})": float(x.mean()), f"sd({variable})": float(x.std())}
    return numbers


def report(runs: Mapping[str, Numbers]) -> None:
    """A line a run."""
    for key, n in runs.items():
        trusted = {True: "trusted", False: "refused", None: ""}[n.get("trusted")]  # type: ignore[index]
        more = "".join(
            f", {k} {n[k]:.4g}"
            for k in ("divergences", "ess", "rhat", "sd(at)", "mean(rho)", "sd(c)")
            if k in n
        )
        print(f"{key:32} {trusted:8} {n['gradients']:>10,} gradients {n['cpu_s']:6.1f} s{more}")


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--runs", nargs="+", default=["answer", "pymc"], choices=list(RUNS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    mean, sd = threshold_by_quadrature()
    runs = Runs(arguments.out, "runs", threshold={"mean(at)": mean, "sd(at)": sd})
    for name in arguments.models:
        for seed in range(1, arguments.seeds + 1):
            for run in arguments.runs:
                runs(f"{name}/{run}/{seed}", made, name, run, seed)
    report(runs.made)
    print(f"threshold by quadrature: mean {mean:.3f}, sd {sd:.3f}")
    exact = ", ".join(f"{name} {value:.3f}" for name, value in series_by_quadrature().items())
    print(f"near a unit root by quadrature: {exact}")


if __name__ == "__main__":
    main()
