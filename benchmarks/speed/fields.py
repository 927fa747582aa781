"""Time series, fields on maps and hierarchies beside nutpie: seconds, gradients, worth of draws.

    python -m benchmarks.speed.fields [--kinds ...] [--sites 100 400 1600 4096]
        [--only fit answer nutpie]

Models of `fields_models` by the number of sites, or groups. On each `pm.fit` by `HierarchicalVI`
("fit"), `bridge.fit` ("answer"), and `pm.sample` with nutpie at its defaults, 4 × (1000 + 1000).
Seconds are CPU seconds of one process that does nothing else, compilers included. Each run is kept
as it ends. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr

import bridge
import pymc_ext as px
from benchmarks.processes import in_a_process
from benchmarks.record import Runs
from benchmarks.speed.cost import SEED, Row, all_draws, measured, sampled
from benchmarks.speed.fields_models import KINDS
from pymc_ext.maths.convergence import bulk_ess_and_rhat

RESULTS = Path(__file__).parent / "results" / "fields.json"
SITES = (100, 400, 1600, 4096)


def fit(model: pm.Model) -> Row:
    """The law that a map of normals has, and what draws of it are worth as weights."""
    approx = pm.fit(method=px.HierarchicalVI(random_seed=SEED, model=model), progressbar=False,
                    model=model)  # fmt: skip
    result, draws = approx.result, approx.sample(4_000, random_seed=SEED).posterior
    fresh = result.fresh_proposal or result.fresh
    return {
        "gradients": result.gradient_evaluations,
        "khat": fresh.khat,
        "relative_ess": fresh.ess / fresh.draws,
        "gap": fresh.log_marginal_is - result.fresh.elbo,
        "globals": globals_of(draws),
    }


def answer(model: pm.Model) -> Row:
    """What `bridge.fit` gives."""
    advice = bridge.fit(model, random_seed=SEED, progressbar=False)
    return {
        "method": advice.method,
        "trusted": advice.trusted,
        "gradients": advice.gradients,
        "globals": globals_of(advice.idata["posterior"]),
    }


def nutpie(model: pm.Model) -> Row:
    """`pm.sample` with nutpie."""
    idata = sampled(model, "nutpie")
    statistics, (ess, rhat) = idata["sample_stats"], bulk_ess_and_rhat(all_draws(idata))
    return {
        "gradients": int(np.asarray(statistics["n_steps"]).sum()),  # of the 4 × 1000 alone
        "ess": float(np.min(ess)),
        "rhat": float(np.max(rhat)),
        "divergences": int(np.asarray(statistics["diverging"]).sum()),
        "globals": globals_of(idata["posterior"]),
    }


def globals_of(posterior: xr.Dataset) -> dict[str, list[float]]:
    """Mean and sd of variables that are one number."""
    scalars = {str(name): x for name, x in posterior.data_vars.items() if x.ndim == 2}
    return {
        name: [float(x.mean()), float(x.std())]
        for name, x in scalars.items()
        if not name.endswith("__")  # nutpie shows them unconstrained too
    }


RUNS = {"fit": fit, "answer": answer, "nutpie": nutpie}


def timed(kind: str, sites: int, run: str) -> Row:
    """One run, with its CPU seconds and peak memory."""
    return measured(partial(KINDS[kind], sites), RUNS[run])


def apart(ours: Row, theirs: Row) -> float:
    """The largest difference of a global's mean, in their sds."""
    a, b = ours["globals"], theirs["globals"]
    assert isinstance(a, dict) and isinstance(b, dict)
    return max(abs(a[name][0] - b[name][0]) / b[name][1] for name in b)


def table(made: dict[str, Row]) -> str:
    """A line a model."""
    lines = [
        f"{'model':12}{'D':>6}   fit: {'gradients':>9}{'CPU s':>7}{'MB':>6}{'k̂':>6}{'ESS/N':>6}"
        f"   answer: {'gradients':>9}{'CPU s':>8}  by            nutpie: {'gradients':>10}"
        f"{'CPU s':>8}{'ESS':>6}{'R̂':>6}{'apart':>7}"
    ]
    for kind in KINDS:
        for sites in SITES:
            rows = {run: made.get(f"{kind}/{sites}/{run}") for run in RUNS}
            if (own := rows["fit"]) is None:
                continue
            line = (
                f"{kind:12}{own['dimension']:6}        {own['gradients']:9,}{own['cpu_s']:7.1f}"
                f"{own['peak_mb']:6}{own['khat']:6.2f}{own['relative_ess']:6.2f}"
            )
            if (found := rows["answer"]) is not None:
                said = found["method"] if found["trusted"] else "not trusted"
                line += f"           {found['gradients']:9,}{found['cpu_s']:8.1f}  {said:13}"
            if (other := rows["nutpie"]) is not None:
                line += f"         {other['gradients']:10,}{other['cpu_s']:8.1f}{other['ess']:6.0f}"
                line += f"{other['rhat']:6.2f}{apart(found or own, other):7.2f}"
            lines.append(line)
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is missing, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="*", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--sites", nargs="*", type=int, default=list(SITES))
    parser.add_argument("--only", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    runs = Runs(options.results, "runs")
    for sites in options.sites:
        for kind in options.kinds:
            for run in options.only:
                row = runs(f"{kind}/{sites}/{run}", in_a_process, timed, kind, sites, run)
                print(f"{kind}/{sites}/{run}", row, flush=True)
    print(table(runs.made))


if __name__ == "__main__":
    main()
