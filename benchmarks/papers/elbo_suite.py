"""The suite of Blessing et al. (2024): ELBO and log evidence, beside their best and the truth.

    python -m benchmarks.papers.elbo_suite [--targets NAME ...] [--seeds 3] [--results FOLDER]

On each target `bridge.fit`, told nothing, for the log evidence by importance weights, and
`px.BernsteinVI` for up to 20,000 steps, for the ELBO of a normalised q; on the Cox process, a
Gaussian process on a grid, `px.gp.Approximate` with variational sites. CPU seconds include
compilation. Sonar, German credit and the pines need the data corpus.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy.special import gammaln
from scipy.stats import multivariate_normal

import bridge
import pymc_ext as px
from benchmarks import record
from benchmarks.papers import elbo_suite_targets as suite

DRAWS, STEPS = 20_000, 20_000
COX_BEST, COX_CELLS, COX_VARIANCE, COX_LENGTH = 469.89, 40, 1.91, 40 / 33
Row = dict[str, Any]


def answer(model: pm.Model, seed: int) -> Row:
    """What `bridge.fit` says of the evidence; None where chains answered."""
    begin = time.process_time()
    advice = bridge.fit(model, random_seed=seed, progressbar=False)
    log_z, error = advice.log_evidence or (None, None)
    return {"log_z": log_z, "log_z_se": error, "trusted": advice.trusted, "method": advice.method,
            "answer_gradients": advice.gradients,
            "answer_s": time.process_time() - begin}  # fmt: skip


def density(model: pm.Model, seed: int) -> Row:
    """A flow, and what its own fresh draws say of it."""
    begin = time.process_time()
    with model:
        q = pm.fit(STEPS, method=px.BernsteinVI(random_seed=seed), progressbar=False)
    spent = time.process_time() - begin
    _, lp, lq = q.draws_with_logs(DRAWS, random_seed=1000 + seed)
    judged = bridge.pareto_khat(lp, lq)
    return {"elbo": float(np.mean(lp - lq)), "elbo_se": float(np.std(lp - lq) / np.sqrt(DRAWS)),
            "khat": judged.value, "log_marginal_is": judged.log_marginal_is,
            "gradients": q.result.gradient_evaluations, "flow_s": spent}  # fmt: skip


def cox(seed: int) -> Row | None:
    """A log-Gaussian Cox process of pines on a grid of 1,600 cells."""
    path = suite.DATA / "pines.csv"
    if not path.is_file():
        return None
    places = pd.read_csv(path)[["data_x", "data_y"]].to_numpy()
    cells = np.floor(COX_CELLS * places).astype(int)
    counts = np.zeros((COX_CELLS, COX_CELLS), dtype=int)
    np.add.at(counts, (cells[:, 0], cells[:, 1]), 1)
    y, grid = counts.ravel(), np.argwhere(np.ones_like(counts)).astype(float)
    log_cell = np.log(y.size)  # log p of the suite has rates per cell and no factorials
    mean = np.log(len(places)) - COX_VARIANCE / 2 - log_cell
    constants = float(np.sum(gammaln(y + 1) + y * log_cell))
    begin = time.process_time()
    with pm.Model() as model:
        kernel = COX_VARIANCE * pm.gp.cov.Matern12(2, ls=COX_LENGTH)
        gp = px.gp.Approximate(mean_func=pm.gp.mean.Constant(mean), cov_func=kernel,
                               likelihood=px.gp.Poisson(), rule=px.gp.CVI())  # fmt: skip
        gp.marginal_likelihood("y", X=grid, y=y)
        elbo = float(model.logp().eval()) + constants
        mu, S = (x.eval() for x in gp.latent(grid))
    spent = time.process_time() - begin
    q = multivariate_normal(mu, S)
    prior = multivariate_normal(np.full(y.size, mean), kernel(grid).eval())
    f = q.rvs(DRAWS, random_state=seed)
    ratios = prior.logpdf(f) + f @ y - np.exp(f).sum(axis=1) + np.sum(y) * log_cell - q.logpdf(f)
    judged = bridge.pareto_khat(ratios.reshape(5, -1), np.zeros((5, DRAWS // 5)))
    return {"elbo": elbo, "khat": judged.value, "log_z": judged.log_marginal_is,
            "log_z_se": judged.log_marginal_is_se, "flow_s": spent, "method": "CVI"}  # fmt: skip


def measured(name: str, seed: int) -> Row | None:
    """One target; None where its data are not here."""
    if name == "cox":
        return cox(seed)
    target = suite.TARGETS[name]
    model = target.model()
    if model is None:
        return None
    return answer(model, seed) | density(model, seed)


def markdown(results: Mapping[str, Any]) -> str:
    """A row a target: medians over seeds, the largest CPU seconds."""
    lines = [
        "| target | D | ELBO, their best | ELBO, a flow | log Z, ours | log Z, exact "
        "| k̂ of the flow | trusted | CPU s: answer, flow |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, best in results["best"].items():
        rows = [r for key, r in results["runs"].items() if key.startswith(f"{name}/") and r]
        if not rows:
            continue
        median = {
            key: float(
                np.median([row[key] for row in rows if row.get(key) is not None] or [np.nan])
            )
            for key in ("elbo", "log_z", "log_z_se", "khat")
        }
        D = COX_CELLS**2 if name == "cox" else suite.TARGETS[name].dimension
        asked = [row for row in rows if "trusted" in row]
        took = [max((row[key] for row in rows if key in row), default=np.nan)
                for key in ("answer_s", "flow_s")]  # fmt: skip
        known = not np.isnan(median["log_z"])
        lines.append(
            f"| {name} | {D:,} | {_number(best)} | {median['elbo']:.3f} | "
            + (f"{median['log_z']:.3f} ± {median['log_z_se']:.3f}" if known else "–, chains")
            + f" | {_number(results['exact'].get(name))} | {median['khat']:.2f} | "
            + (f"{sum(row['trusted'] for row in asked)} of {len(asked)}" if asked else "–")
            + f" | {', '.join('–' if np.isnan(s) else f'{s:.0f}' for s in took)} |"
        )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}".rstrip("0").rstrip(".")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = (*suite.TARGETS, "cox")
    parser.add_argument("--targets", nargs="+", choices=names, default=list(names))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    exact = {n: t.log_z() for n, t in suite.TARGETS.items() if t.log_z is not None}
    best = {n: t.theirs for n, t in suite.TARGETS.items()} | {"cox": COX_BEST}
    runs = record.Runs(given.results / "elbo_suite.json", "runs", exact=exact, best=best)
    for name in given.targets:
        for seed in range(1, given.seeds + 1):
            row = runs(f"{name}/{seed}", measured, name, seed)
            print(name, seed, row or "left out: its data are not here", flush=True)
    print(markdown(runs.others | {"runs": runs.made}))


if __name__ == "__main__":
    main()
