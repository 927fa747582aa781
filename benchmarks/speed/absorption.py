"""`bridge.fit` on curves of absorption whose two rates may be exchanged, beside quadrature.

    python -m benchmarks.speed.absorption [--seeds 3] [--out FILE]

The concentration after a dose by mouth, of one compartment, is the same where the rates of
absorption and of elimination change places and the volume with them: their priors alone tell the
two apart, and the mass near the second arrangement is 6 to 39 % on these five data sets of five to
ten rows. Given both rates and the noise the log of the volume is normal, so that means and sds are
known from a grid of three dimensions. Of each answer the worst error of a mean, in sds, and the sd
over the exact one farthest from 1. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import bridge
from benchmarks.record import Runs
from pymc_ext.maths.types import Array

RESULTS = Path(__file__).parent / "results" / "absorption.json"
TIMES = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12])
DOSE, VOLUME = 100.0, 10.0
SETS = {  # rates of absorption and elimination, noise, rows
    1: (1.2, 0.5, 0.2, 10),
    2: (0.8, 0.6, 0.2, 10),
    3: (1.2, 0.5, 0.3, 6),
    4: (2.0, 0.3, 0.3, 5),
    5: (0.5, 0.6, 0.15, 7),
}
VOLUME_SD, NOISE_SD = 0.5, 0.5  # of the priors: of log V about log 10, of the noise about zero
Row = dict[str, float | str | bool]
Moments = dict[str, tuple[float, float]]


def rows_of(number: int) -> Array:
    """Logs of concentrations of a data set."""
    absorbed, eliminated, noise, count = SETS[number]
    t = TIMES[:count]
    curve = absorbed / (absorbed - eliminated) * (np.exp(-eliminated * t) - np.exp(-absorbed * t))
    return np.log(DOSE * curve / VOLUME) + noise * np.random.default_rng(number).normal(size=count)


def curve_model(y: Array) -> pm.Model:
    """One compartment, noise on the log scale."""
    t = TIMES[: len(y)]
    with pm.Model() as model:
        ka, ke = pm.LogNormal("ka", 0, 1), pm.LogNormal("ke", -1, 1)
        V = pm.LogNormal("V", np.log(VOLUME), VOLUME_SD)
        curve = ka * pt.exp(-ke * t) * -pt.expm1(-(ka - ke) * t) / (ka - ke)
        noise = pm.HalfNormal("s", NOISE_SD)
        pm.Normal("y", pt.log(DOSE * curve) - pt.log(V), noise, observed=y)
    return model


def exact(y: Array, points: int = 500, noises: int = 60) -> tuple[Moments, float]:
    """Mean and sd of the log of each parameter, and the mass where ka < ke."""
    t, count = TIMES[: len(y)], len(y)
    log_ka = np.linspace(-5, 5, points)[:, None, None]
    log_ke = np.linspace(-6, 4, points)[None, :, None]
    ka, ke = np.exp(log_ka), np.exp(log_ke)
    gap = np.where(np.abs(ka - ke) < 1e-9, 1e-9, ka - ke)
    with np.errstate(all="ignore"):
        log_curve = log_ka - ke * t + np.log(-np.expm1(-gap * t) / gap) + np.log(DOSE)
    rest = y - log_curve  # −log V and the noise
    first, second = rest.sum(axis=-1), (rest**2).sum(axis=-1)
    log_s = np.linspace(-5, 1.2, noises)
    precision = count * np.exp(-2 * log_s) + VOLUME_SD**-2
    prior = -np.log(VOLUME) * VOLUME_SD**-2
    level = (first[..., None] * np.exp(-2 * log_s) + prior) / precision  # of −log V
    lp = -count * log_s - 0.5 * (second[..., None] * np.exp(-2 * log_s) - level**2 * precision)
    lp += log_s - 0.5 * np.log(precision) - 0.5 * np.exp(2 * log_s) / NOISE_SD**2
    lp += -0.5 * log_ka**2 - 0.5 * (log_ke + 1) ** 2
    p = np.exp(np.where(np.isfinite(lp), lp, -np.inf) - np.nanmax(lp))
    p /= p.sum()

    def moments(x: Array, variance: Array | float = 0.0) -> tuple[float, float]:
        mean = float((p * x).sum())
        return mean, float(np.sqrt((p * (variance + (x - mean) ** 2)).sum()))

    level = np.where(np.isfinite(level), level, 0.0)  # where there is no mass
    found = {"ka": moments(log_ka), "ke": moments(log_ke), "s": moments(log_s)}
    found["V"] = moments(-level, 1 / precision)
    return found, float(p[np.broadcast_to(log_ka < log_ke, p.shape)].sum())


def answer(number: int, seed: int) -> Row:
    """One answer, held against the exact moments."""
    y = rows_of(number)
    truth, exchanged = exact(y)
    advice = bridge.fit(curve_model(y), random_seed=seed, progressbar=False)
    posterior = advice.idata["posterior"]
    errors, ratios = [], []
    for name, (mean, sd) in truth.items():
        x = np.log(np.asarray(posterior[name]))
        errors.append(abs(float(x.mean()) - mean) / sd)
        ratios.append(float(x.std()) / sd)
    return {
        "method": advice.method,
        "trusted": advice.trusted,
        "gradients": advice.gradients,
        "mean_error": max(errors),
        "sd_ratio": max(ratios, key=lambda ratio: abs(np.log(ratio))),
        "exchanged": exchanged,
    }


def report(made: Mapping[str, Row]) -> None:
    """A line an answer."""
    for key, row in made.items():
        print(f"{key:8} {row['method']:14} {'trusted' if row['trusted'] else 'refused':8} "
              f"{row['gradients']:>8,} gradients, mean off by {row['mean_error']:.3f} sds, sd "
              f"{row['sd_ratio']:.3f}, mass with ka < ke {row['exchanged']:.0%}")  # fmt: skip


def main() -> None:
    """Make what is missing, then print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    runs = Runs(arguments.out, "runs")
    for number in SETS:
        for seed in range(1, arguments.seeds + 1):
            runs(f"{number}/{seed}", answer, number, seed)
    report(runs.made)


if __name__ == "__main__":
    main()
