"""What a trusted answer costs beside `pm.sample`, by the number of parameters and of rows.

    python -m benchmarks.speed.cost [--models ...] [--only answer pymc nutpie]

PyMC models as people write them: counts with an effect of each group (Poisson, centred) of 10 to
2,000 parameters and of 120 to 120,000 rows, and a model as of radon in houses of counties (85
groups with an intercept and a slope each, 919 rows, D = 175), centred and not. On each run
`bridge.fit`, which ends with draws worth 400 and a verdict, and `pm.sample` at its defaults, 4 ×
(1000 + 1000), with its own sampler and with nutpie. Seconds are CPU seconds of one process that
does nothing else and of the compilers that it runs, imports left out (PyTensor's own cache is warm
where a model of that form was run before, by whichever of them). For chains the smallest bulk ESS
of all parameters is shown, so that who compares sees what was bought. Each run is kept as it ends.
Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

import bridge
from benchmarks.processes import Stopwatch, in_a_process
from benchmarks.record import Runs
from benchmarks.speed.elbo_curves import poisson_groups
from pymc_ext.maths.convergence import bulk_ess
from pymc_ext.maths.types import Array

Row = dict[str, float | int | str | bool | dict[str, list[float]]]
RESULTS = Path(__file__).parent / "results" / "cost.json"
FIGURE = Path(__file__).parents[2] / "docs" / "cost.png"
SEED = 1
DIMENSIONS, ROWS = (10, 30, 100, 300, 1000, 2000), (120, 1_200, 12_000, 120_000)
ROWS_OF_A_GROUP, GROUPS_OF_ROWS = 4, 30
COUNTIES, HOUSES = 85, 919


def counts(groups: int, rows: int) -> pm.Model:
    """D = groups + 3: a mean, a slope, a scale, and an effect of each group."""
    return poisson_groups(np.arange(rows) % groups)


def radon(centred: bool) -> pm.Model:
    """D = 175: intercepts and slopes of the counties, which have 1 to 120 houses."""
    rng = np.random.default_rng(2)
    share = rng.gamma(0.7, size=COUNTIES)
    county = np.concatenate([
        np.arange(COUNTIES),
        rng.choice(COUNTIES, HOUSES - COUNTIES, p=share / share.sum()),
    ])  # fmt: skip
    floor = (rng.random(HOUSES) < 0.17).astype(float)
    intercept, slope = rng.normal(1.5, 0.35, COUNTIES), rng.normal(-0.7, 0.3, COUNTIES)
    y = intercept[county] + slope[county] * floor + 0.75 * rng.standard_normal(HOUSES)
    with pm.Model() as model:
        effects = []
        for name in ("intercept", "slope"):
            mean, sd = pm.Normal(f"mean_{name}", 0, 5), pm.HalfNormal(f"sd_{name}", 1)
            if centred:
                effects.append(pm.Normal(name, mean, sd, shape=COUNTIES))
            else:
                effects.append(mean + sd * pm.Normal(f"z_{name}", 0, 1, shape=COUNTIES))
        mean_of_row = effects[0][county] + effects[1][county] * floor
        pm.Normal("y", mean_of_row, pm.HalfNormal("sigma", 1), observed=y)
    return model


MODELS: dict[str, Callable[[], pm.Model]] = {
    **{
        f"D = {D}": lambda D=D: counts(D - 3, (D - 3) * ROWS_OF_A_GROUP)  # type: ignore[misc]
        for D in DIMENSIONS
    },
    **{f"N = {rows}": lambda rows=rows: counts(GROUPS_OF_ROWS, rows) for rows in ROWS},  # type: ignore[misc]
    "radon centred": lambda: radon(centred=True),
    "radon not centred": lambda: radon(centred=False),
}


# ---- runs ------------------------------------------------------------------------------------


def answer(model: pm.Model) -> Row:
    """What `bridge.fit` gives."""
    advice = bridge.fit(model, random_seed=SEED, progressbar=False)
    return {
        "method": advice.method,
        "trusted": advice.trusted,
        "gradients": advice.gradients,
        "verdict": advice.reasons,
    }


def pymc(model: pm.Model, sampler: str = "pymc") -> Row:
    """`pm.sample` with its own sampler, or another."""
    idata = sampled(model, sampler)
    statistics = idata["sample_stats"]
    found: Row = {"method": sampler, "divergences": int(np.asarray(statistics["diverging"]).sum())}
    return found | {"ess": float(np.min(bulk_ess(all_draws(idata))))}


def nutpie(model: pm.Model) -> Row:
    """`pm.sample` with nutpie."""
    return pymc(model, "nutpie")


def sampled(model: pm.Model, sampler: str) -> az.InferenceData:
    """4 × (1000 + 1000) draws."""
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, which the numbers shown tell
        return pm.sample(
            nuts_sampler=sampler, chains=4, cores=1, random_seed=SEED, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip


def all_draws(idata: az.InferenceData) -> Array:
    """Of all scalars, (chains, draws, scalars)."""
    parts = map(np.asarray, idata["posterior"].data_vars.values())
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in parts], axis=2)


RUNS = {"answer": answer, "pymc": pymc, "nutpie": nutpie}


def timed(name: str, run: str) -> Row:
    """One run, with its CPU seconds and peak memory."""
    return measured(MODELS[name], RUNS[run])


def measured(make: Callable[[], pm.Model], run: Callable[[pm.Model], Row]) -> Row:
    """A run on a model that is there, with its size, seconds and memory."""
    logging.disable(logging.WARNING)
    model = make()
    watch = Stopwatch()
    row = run(model)
    dimension = int(sum(np.size(x) for x in model.initial_point().values()))
    return {"dimension": dimension, **watch.read(), **row}


# ---- table and figure ------------------------------------------------------------------------


def table(made: dict[str, Row]) -> str:
    """A line a model: seconds, gradients, and how many times longer the others take."""
    lines = [f"{'model':18} {'D':>5}  {'method':12} trusted  gradients  CPU s     MB"
             f"   pm.sample: CPU s (ESS)   with nutpie: CPU s (ESS)"]  # fmt: skip
    for name in MODELS:
        row = made.get(f"{name}/answer")
        if row is None:
            continue
        line = (
            f"{name:18} {row['dimension']:5}  {row['method']:12} "
            f"{'yes' if row['trusted'] else 'no':7} {row['gradients']:10,} {row['cpu_s']:6.1f} "
            f"{row['peak_mb']:6}"
        )
        for other in ("pymc", "nutpie"):
            theirs = made.get(f"{name}/{other}")
            if theirs is None:
                line += "                          –"
                continue
            ratio = float(theirs["cpu_s"]) / float(row["cpu_s"])
            line += f"   {theirs['cpu_s']:8.1f} ({theirs['ess']:5.0f}), {ratio:4.1f}×"
        lines.append(line)
    return "\n".join(lines)


def draw(made: dict[str, Row], path: Path) -> None:
    """CPU seconds against D, and against N."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), sharey=True)
    labels = {"answer": "bridge.fit", "pymc": "pm.sample", "nutpie": "pm.sample, nutpie"}
    for ax, letter, label in zip(axes, "DN", ("parameters", "rows"), strict=True):
        for k, (run, text) in enumerate(labels.items()):
            names = [n for n in MODELS if n.startswith(letter + " ") and f"{n}/{run}" in made]
            x = [int(name.split("=")[1]) for name in names]
            ax.plot(x, [float(made[f"{n}/{run}"]["cpu_s"]) for n in names], "o-", color=f"C{k}",
                    label=text)  # fmt: skip
        ax.set(xscale="log", yscale="log", xlabel=label)
    axes[0].set_ylabel("CPU seconds, compilation included")
    axes[0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table, draw the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--figure", type=Path, default=FIGURE)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for name in options.models:
        for run in options.only:
            row = runs(f"{name}/{run}", in_a_process, timed, name, run)
            print(f"{name}/{run}", {k: v for k, v in row.items() if k != "verdict"}, flush=True)
    print(table(runs.made))
    draw(runs.made, options.figure)


if __name__ == "__main__":
    main()
