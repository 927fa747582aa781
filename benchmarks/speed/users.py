"""Models as applied users write them, of which none was looked at when defaults were chosen.

    python -m benchmarks.speed.users [--models ...] [--out FILE]

But `mrp`, whose 235,000 gradients led to places of grids being foreseen before the stored run. On
each model of :mod:`benchmarks.speed.users_models` `bridge.fit` at its defaults, nutpie at its own,
four chains, and a long run of nutpie, 4 × (1000 + 2000) at an acceptance of .9, which is what means
and sds of the answer are held to: 4 × (3000 + 5000) at .98 where that has R̂ above 1.01, fewer than
600 effective draws or divergences in .2 %. Where that has so too it settles
nothing, and errors are in brackets. They are of all scalars of free variables, constrained, whose
mean and sd the long run knows to .05 sds, but for moments that the answer says are not known; sds
of 4,000 draws err by 1 to 3 % themselves, of heavy tails by more. CPU seconds are of one process
a model, with compiling and without imports. Each model is kept as it ends. Run it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bridge
from benchmarks.processes import Stopwatch, in_a_process
from benchmarks.record import Runs
from benchmarks.speed.users_models import MODELS
from bridge.measures.limits import MEAN_WRONG, RATIO_WRONG
from pymc_ext.maths.convergence import bulk_ess_and_rhat, mean_error, sd_error
from pymc_ext.maths.types import Array

RESULTS = Path(__file__).parent / "results" / "users.json"
SEED = 1
LONG = {"draws": 2000, "tune": 1000, "target_accept": 0.9}
LONGER = {"draws": 5000, "tune": 3000, "target_accept": 0.98}
MOST_RHAT, FEWEST, MOST_DIVERGENT = 1.01, 600, 0.002
KNOWN = 0.05  # sds, of means and sds of the long run
Row = dict[str, Any]


def asked(name: str) -> Row:
    """The answer, nutpie's default, and how far the answer is from the long run."""
    import nutpie

    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")  # of convergence, which the numbers show
    model = MODELS[name]()
    free = [variable.name for variable in model.free_RVs]
    watch = Stopwatch()
    answer = bridge.fit(model, random_seed=SEED, progressbar=False)
    posterior = answer.idata["posterior"]
    ours = scalars(posterior, free)
    row: Row = {
        "dimension": int(sum(np.size(x) for x in model.initial_point().values())),
        "answer": {
            "method": answer.method,
            "trusted": answer.trusted,
            "gradients": answer.gradients,
            "verdict": answer.reasons,
            **watch.read(),
        },
    }
    watch = Stopwatch()
    compiled = nutpie.compile_pymc_model(model)
    _, row["nutpie"] = chains(compiled, free)
    row["nutpie"] |= watch.read()
    truth, row["long"] = chains(compiled, free, **LONG)
    if not settled(row["long"]):
        truth, row["long"] = chains(compiled, free, **LONGER)
    return row | errors(ours, truth, unknown_in(posterior, answer.unknown, free))


def chains(compiled: Any, free: list[str], **options: float) -> tuple[Array, Row]:
    """Draws of all scalars, (chains, draws, K), and how it went."""
    import nutpie

    idata = nutpie.sample(
        compiled, chains=4, cores=1, seed=SEED, progress_bar=False, save_warmup=True, **options
    )
    groups = idata["sample_stats"], idata["warmup_sample_stats"]
    draws = scalars(idata["posterior"], free)
    ess, rhat = bulk_ess_and_rhat(draws)
    divergences = np.asarray(groups[0]["diverging"])
    return draws, {
        "gradients": sum(int(np.asarray(group["n_steps"]).sum()) for group in groups),
        "ess": float(ess.min()),
        "rhat": float(rhat.max()),
        "divergent": float(divergences.mean()),
    }


def settled(run: Mapping[str, float]) -> bool:
    """Whether a run may be what others are held to."""
    mixed = run["rhat"] <= MOST_RHAT and run["ess"] >= FEWEST
    return mixed and run["divergent"] <= MOST_DIVERGENT


def scalars(posterior: Any, names: list[str]) -> Array:
    """Of all variables one after the other, (chains, draws, K)."""
    parts = (np.asarray(posterior[name]) for name in names)
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in parts], axis=2)


def unknown_in(posterior: Any, unknown: tuple[str, ...], names: list[str]) -> NDArray[np.bool_]:
    """Which scalars are of variables some of whose moments are said not to be known, (K,)."""
    said = {name.partition("[")[0] for name in unknown}
    sizes = (np.asarray(posterior[name])[0, 0].size for name in names)
    return np.repeat([name in said for name in names], list(sizes))


def errors(ours: Array, truth: Array, unknown: NDArray[np.bool_]) -> Row:
    """The largest error of a mean, in sds, and the sd that is farther off, as a ratio."""
    mean, sd = truth.mean(axis=(0, 1)), truth.std(axis=(0, 1))
    known = ~unknown & (mean_error(truth) < KNOWN * sd) & (sd_error(truth) < KNOWN)
    off = np.abs(ours.mean(axis=(0, 1)) - mean)[known] / sd[known]
    ratios = ours.std(axis=(0, 1))[known] / sd[known]
    return {
        "compared": int(known.sum()),
        "mean_error": float(off.max(initial=0.0)),
        "sd_ratio": float(ratios[np.argmax(np.abs(np.log(ratios)))]) if known.any() else 1.0,
    }


def table(made: Mapping[str, Row]) -> str:
    """A line a model, and what they come to."""
    lines = [
        f"{'model':22} {'D':>3} {'answer':12} trusted  gradients CPU s  nutpie's gradients CPU s"
        "   ESS     R̂ mean error sd ratio"
    ]
    for name, row in made.items():
        ours, theirs = row["answer"], row["nutpie"]
        found = f"{row['mean_error']:.2f}", f"{row['sd_ratio']:.2f}"
        off, ratio = found if settled(row["long"]) else (f"({x})" for x in found)
        lines.append(
            f"{name:22} {row['dimension']:3} {ours['method']:12} "
            f"{'yes' if ours['trusted'] else 'no':7} {ours['gradients']:10,} {ours['cpu_s']:5.0f} "
            f"{theirs['gradients']:19,} {theirs['cpu_s']:5.0f} {theirs['ess']:5.0f} "
            f"{theirs['rhat']:6.3f} {off:>10} {ratio:>8}"
        )
    trusted = [row for row in made.values() if row["answer"]["trusted"]]
    known = [row for row in trusted if settled(row["long"])]
    wrong = sum(
        row["mean_error"] > MEAN_WRONG or not 1 / RATIO_WRONG <= row["sd_ratio"] <= RATIO_WRONG
        for row in known
    )
    lines.append(
        f"{len(trusted)} of {len(made)} trusted, {wrong} of the {len(known)} that are settled wrong"
    )
    by: dict[str, list[Row]] = {"all": list(made.values()), "by weights": [], "by chains": []}
    for row in made.values():
        by["by chains" if "nuts" in row["answer"]["method"] else "by weights"].append(row)
    for label, rows in by.items():
        if not rows:
            continue
        gradients, seconds = (
            np.array([row["answer"][what] / row["nutpie"][what] for row in rows])
            for what in ("gradients", "cpu_s")
        )
        lines.append(
            f"{label} ({len(rows)}): gradients over nutpie's {np.median(gradients):.2f} in median "
            f"(fewer on {np.sum(gradients < 1)}), CPU seconds {np.median(seconds):.2f} (fewer on "
            f"{np.sum(seconds < 1)})"
        )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    runs = Runs(arguments.out, "runs")
    for name in arguments.models:
        runs(name, in_a_process, asked, name)
        print(table({name: runs.made[name]}).splitlines()[1], flush=True)
    print(table(runs.made))


if __name__ == "__main__":
    main()
