"""`bridge.fit` on mixtures with ordered means, whose posteriors have a shoulder, beside chains.

    python -m benchmarks.speed.shoulders [--sets 0 1 ...] [--seeds 3] [--kinds ...]
        [--out FILE]

Data set 0 is a user's, the others are made. A hundred rows of two normals, some two sds apart;
means, sds and the weight are free, means in order. Some percent of the mass lie several sds off,
where one component is wide and the other has hardly a row: no mode is there. ``fit`` is
`bridge.fit` as it is, ``without`` the same without the short chains that look for such mass,
``fewer`` and ``shorter`` with half as many and half as long ones. Each is held against 4 × 10,000
draws of Stan's program (an acceptance rate of .95): the worst ratio of the sds of the five
parameters, and the worst error of a mean in sds. Each run is kept as it ends.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from unittest.mock import patch

import arviz as az
import numpy as np

import bridge
from benchmarks.record import Runs
from pymc_ext.maths.types import Array
from pymc_ext.variational.missed.shoulders import CHAINS, TRANSITIONS
from stan_models import StanProgram, nuts

RESULTS = Path(__file__).parent / "results" / "shoulders.json"
PROGRAM = """
data { int N; vector[N] y; }
parameters { ordered[2] mu; vector<lower=0>[2] sigma; real<lower=0, upper=1> w; }
model {
  mu ~ normal(0, 2);
  sigma ~ normal(0, 2);
  w ~ beta(2, 2);
  for (n in 1:N)
    target += log_mix(w, normal_lpdf(y[n] | mu[1], sigma[1]), normal_lpdf(y[n] | mu[2], sigma[2]));
}
"""
# What each kind of answer has in place of what the product has.
KINDS: dict[str, dict[str, object]] = {
    "fit": {},
    "without": {"bridge.trust.moments_beside": lambda *weighted: None},
    "fewer": {
        "pymc_ext.variational.missed.shoulders.CHAINS": CHAINS // 2,
        "pymc_ext.variational.missed.missed_mass.CHAINS": CHAINS // 2,
    },
    "shorter": {"pymc_ext.variational.missed.shoulders.TRANSITIONS": TRANSITIONS // 2},
}
SETS = range(9)
USERS = (
    -2.35, 0.07, -0.81, 0.34, -0.64, -0.09, -0.66, -1.94, -1.22, -1.66, -0.15, -1.98,
    -2.52, -0.3, 0.16, 0.46, 0.11, -2.49, -1.68, -1.54, -1.01, -3.14, -1, -0.71,
    -1.94, -0.87, 0.2, -0.94, 0.07, 0.03, -0.58, -0.61, -1.36, 0.25, -1.46, -1.69,
    -0.28, -1.71, -0.56, 0.07, 1.77, 1.79, 2.44, 2.31, 0.48, 0.66, 2.78, 2.02,
    0.05, 0.63, 1.73, 0.93, 2.09, 1.78, 2.11, 0.78, 2.21, 3.28, 1.08, 2.77,
    2.5, 2.23, 1.66, 0.79, 1.02, 2.33, 2.5, 2.7, 2.49, 2.44, 1.37, 0.75,
    1.88, 2.12, 1.79, 0.5, 1.3, 0.54, 1.84, 0.88, 1.59, 1.98, 1.83, 2.81,
    0.84, -0.03, 2.48, 2.84, 2.87, 1.95, 2.15, 1.82, 0.69, 1.27, 2.12, 1.26,
    3.25, 0.49, 1.38, 2.61,
)  # fmt: skip
Row = dict[str, float | str | bool]


def rows_of(number: int) -> dict[str, object]:
    """A data set: 20 to 60 rows about 0, the others 2 to 3 to their right."""
    if number == 0:
        return {"N": len(USERS), "y": list(USERS)}
    rng = np.random.default_rng(number)
    first, apart = int(rng.integers(20, 61)), rng.uniform(2, 3)
    y = np.concatenate([rng.normal(0, 1, first), rng.normal(apart, 0.8, 100 - first)])
    return {"N": 100, "y": y.tolist()}


def flat(posterior: object) -> Array:
    """Draws of the five parameters, (N, 5)."""
    values = [np.asarray(posterior[name]) for name in ("mu", "sigma", "w")]  # type: ignore[index]
    return np.concatenate([x.reshape(x.shape[0] * x.shape[1], -1) for x in values], axis=1)


@cache
def truth(number: int) -> tuple[Array, Array, float]:
    """Means and sds of long chains, and their worst R-hat."""
    program = StanProgram(PROGRAM, name="ordered_mixture")
    idata = nuts(program, rows_of(number), draws=10_000, adapt_delta=0.95, random_seed=1)
    draws, rhat = flat(idata["posterior"]), az.rhat(idata["posterior"])
    return draws.mean(axis=0), draws.std(axis=0), max(float(x.max()) for x in rhat.values())


def made(number: int, seed: int, kind: str) -> Row:
    """One answer."""
    program = StanProgram(PROGRAM, name="ordered_mixture")
    begin = time.process_time()
    with ExitStack() as replaced:
        for name, value in KINDS[kind].items():
            replaced.enter_context(patch(name, value))
        advice = bridge.fit(program, rows_of(number), random_seed=seed, progressbar=False)
    seconds = time.process_time() - begin
    draws = flat(advice.idata["posterior"])
    mean, sd, rhat = truth(number)
    ratios = draws.std(axis=0) / sd
    return {
        "trusted": advice.trusted,
        "method": advice.method,
        "gradients": float(advice.gradients or np.nan),
        "cpu_seconds": round(seconds, 2),
        "sd_ratio": float(ratios[np.argmax(np.abs(np.log(ratios)))]),
        "mean_error": float(np.abs((draws.mean(axis=0) - mean) / sd).max()),
        "rhat_of_truth": rhat,
        "reasons": advice.reasons,
    }


def report(runs: Mapping[str, Row]) -> None:
    """A line an answer, and how many of each kind are trusted, and how far these are off."""
    for key, row in runs.items():
        print(f"{key:14} {row['method']:14} trusted {row['trusted']!s:6}sds {row['sd_ratio']:.2f} "
              f"means {row['mean_error']:.2f} gradients {row['gradients']:9,.0f} "
              f"CPU s {row['cpu_seconds']:.1f}")  # fmt: skip
    for kind in KINDS:
        own = [row for key, row in runs.items() if key.endswith(f"/{kind}")]
        good = [row for row in own if row["trusted"]]
        if good:
            ratios = np.array([float(row["sd_ratio"]) for row in good])
            gradients = np.median([float(row["gradients"]) for row in own])
            print(f"{kind}: {len(good)} of {len(own)} trusted, sds {ratios.min():.2f} to "
                  f"{ratios.max():.2f} of the truth, {np.mean(ratios < 0.9):.0%} below .9; "
                  f"{gradients:,.0f} gradients in median")  # fmt: skip


def main() -> None:
    """Make what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, nargs="+", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=["fit", "without"])
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    runs = Runs(arguments.out, "runs")
    for number in arguments.sets:
        for seed in range(1, arguments.seeds + 1):
            for kind in arguments.kinds:
                runs(f"{number}/{seed}/{kind}", made, number, seed, kind)
    report(runs.made)


if __name__ == "__main__":
    main()
