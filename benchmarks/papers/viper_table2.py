"""Table 2 of Komodromos et al. (2024): VI-PER, VI-PG, VI-MC and MCMC side by side.

    python -m benchmarks.papers.viper_table2 [--data ../shared/corpus/vi_per] [--seeds 5]

Without --data the data sets are simulated. ELBO by 10,000 draws, KL_MC = KL(q_MC || q) on the
coefficients, MSE, coverage and width of 95 % intervals of f(x_i), AUC, seconds of the fit. Beside
each: the published row of the same data set, if --data has it. (Published ELBOs of PG are far below
those of the same q, whose other columns agree with ours.) Every data set is saved when it is done;
a later call with the same settings goes on from there.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from scipy.stats import norm, rankdata

import pymc_ext as px
from benchmarks.papers.viper_simulator import simulate
from benchmarks.record import write
from stan_models import StanProgram, nuts

COLUMNS = ("elbo", "kl_mc", "mse", "coverage", "width", "auc", "seconds")
# published arrays: rows of the first axis, columns of the last
ROWS = {"PER-diagonal": 0, "PER-full": 1, "PG-diagonal": 2, "PG-full": 3, "MC-diagonal": 4,
        "MC-full": 5, "MCMC": 6}  # fmt: skip
PUBLISHED = {"elbo": 0, "auc": 1, "mse": 5, "coverage": 6, "width": 7, "seconds": 8, "kl_mc": 9}
STAN = """
data { int N; int K; matrix[N, K] x; array[N] int y; }
parameters { vector[K] beta; }
model {
  target += std_normal_lpdf(beta);
  target += bernoulli_logit_glm_lpmf(y | x, 0, beta);
}
"""


@dataclass(frozen=True)
class Posterior:
    """Mean and standard deviation of f(x_i); mean and covariance of β where q is Gaussian."""

    f_mean: np.ndarray
    f_sd: np.ndarray
    seconds: float
    elbo: float | None = None
    mean: np.ndarray | None = None
    cov: np.ndarray | None = None
    interval: np.ndarray | None = None


def gaussian_kl(m0, S0, m1, S1) -> float:
    """KL(N(m0, S0) || N(m1, S1))."""
    P1 = np.linalg.inv(S1)
    d = m1 - m0
    log_det = np.linalg.slogdet(S1)[1] - np.linalg.slogdet(S0)[1]
    return float(0.5 * (np.trace(P1 @ S0) + d @ P1 @ d - len(d) + log_det))


def auc(score: np.ndarray, y: np.ndarray) -> float:
    """Area under the ROC curve, from ranks."""
    n1 = y.sum()
    return float((rankdata(score)[y == 1].sum() - n1 * (n1 + 1) / 2) / (n1 * (len(y) - n1)))


def variational(X, y, method, steps: int) -> Posterior:
    """Fit by one pm.fit method; seconds exclude compilation."""
    with pm.Model():
        beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
        pm.Bernoulli("y", logit_p=X @ beta, observed=y)
        approx = pm.fit(steps, method=method(), progressbar=False)
    mean, cov = approx.mean.eval(), approx.cov.eval()
    sd = np.sqrt(np.einsum("ij,jk,ik->i", X, cov, X))
    elbo = approx.evaluate(10_000, random_seed=0).elbo
    return Posterior(X @ mean, sd, approx.result.seconds, elbo, mean, cov)


def mcmc(X, y, program: StanProgram, seed: int) -> Posterior:
    """NUTS, 4 chains of 1000 after 1000; intervals from quantiles."""
    program.compile()
    data = {"N": len(y), "K": X.shape[1], "x": X, "y": y}
    begin = time.perf_counter()
    idata = nuts(program, data, random_seed=seed)
    seconds = time.perf_counter() - begin
    draws = idata.posterior["beta"].to_numpy().reshape(-1, X.shape[1])
    f = draws @ X.T
    interval = np.quantile(f, [0.025, 0.975], axis=0)
    return Posterior(f.mean(0), f.std(0), seconds, interval=interval)


def metrics(q: Posterior, reference: Posterior, X, y, truth) -> dict[str, float | None]:
    """The table's columns."""
    f0 = X @ truth
    half = norm.ppf(0.975) * q.f_sd
    low, high = (q.f_mean - half, q.f_mean + half) if q.interval is None else q.interval
    kl = None
    if q.mean is not None and q is not reference:
        kl = gaussian_kl(reference.mean, reference.cov, q.mean, q.cov)
    return {
        "elbo": q.elbo,
        "kl_mc": kl,
        "mse": float(np.mean((q.f_mean - f0) ** 2)),
        "coverage": float(np.mean((low <= f0) & (f0 <= high))),
        "width": float(np.mean(high - low)),
        "auc": auc(q.f_mean, y),
        "seconds": q.seconds,
    }


def one_data_set(X, y, truth, seed, options, program) -> dict[str, dict[str, float | None]]:
    """Every method on one data set."""
    fits = {}
    for covariance in ("diagonal", "full"):
        fits[f"PER-{covariance}"] = variational(X, y, lambda c=covariance: px.ViperVI(c), 1000)
        fits[f"PG-{covariance}"] = variational(X, y, lambda c=covariance: px.JaakkolaVI(c), 5000)
        fits[f"MC-{covariance}"] = variational(
            X, y, lambda c=covariance: px.MonteCarloVI(c, draws=options.mc_draws, random_seed=seed),
            options.mc_steps,
        )  # fmt: skip
    if not options.no_mcmc:
        fits["MCMC"] = mcmc(X, y, program, seed)
    table = {}
    for name, q in fits.items():
        family = "diagonal" if name.endswith("diagonal") else "full"
        table[name] = metrics(q, fits[f"MC-{family}"], X, y, truth)
    return table


def load(options) -> Iterator[tuple]:
    """(seed, X, y, β, published rows or None) of each data set."""
    if options.data is None:
        for seed in range(1, options.seeds + 1):
            yield seed, *simulate(options.n, options.p, options.setting, random_seed=seed), None
        return
    stored = np.load(options.data / "generated" / f"gen_{options.published}.npz")
    published = np.load(options.data / "results" / f"res_{options.published}.npz")["metrics"]
    for seed in range(1, min(options.seeds, len(stored) // 3) + 1):
        X, y, b = (stored[f"{key}{seed}"] for key in "Xyb")
        yield seed, X, y.astype(int), b, published[:, seed - 1]


def columns(row: np.ndarray) -> dict[str, float | None]:
    """A published row by column; the paper's stand-ins for "not computed" are None."""
    values = {c: float(row[PUBLISHED[c]]) for c in COLUMNS}
    missing = {"elbo": 0.0, "kl_mc": -1.0}
    return {c: None if v == missing.get(c) else v for c, v in values.items()}


def print_medians(rows: list[dict[str, Any]]) -> None:
    """Medians over the data sets, ours | published on the same ones."""
    seeds = {r["seed"] for r in rows}
    print(f"\nmedians over {len(seeds)} data sets, ours | published")
    print(f"{'':14s}" + "".join(f"{c:>20s}" for c in COLUMNS))
    for name in ROWS:
        mine = [r for r in rows if r["method"] == name]
        cells = [
            f"{median(mine, 'ours', c):>10}|{median(mine, 'published', c):<9}" for c in COLUMNS
        ]
        if mine:
            print(f"{name:14s}" + "".join(cells))


def median(rows: list[dict[str, Any]], source: str, column: str) -> str:
    """Median of one column over the data sets, empty if it was not computed."""
    values = [r[source][column] for r in rows if r[source] and r[source][column] is not None]
    return f"{np.median(values):.4g}" if values else ""


def saved_rows(path: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of an earlier call with these settings."""
    if not path.is_file():
        return []
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    return results["rows"] if results["settings"] == settings else []


def main() -> None:
    """Run, print medians beside the published ones, and keep every seed as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--published", choices=("2_1_2", "2_0_0"), default="2_1_2")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--setting", type=int, default=3)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--p", type=int, default=25)
    parser.add_argument("--mc-steps", type=int, default=2000)
    parser.add_argument("--mc-draws", type=int, default=100)
    parser.add_argument("--no-mcmc", action="store_true")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    program = StanProgram(STAN, name="viper_table2")
    source = "simulated" if options.data is None else f"published_{options.published}"
    simulated = ("setting", "n", "p") if options.data is None else ()
    kept = (*simulated, "mc_steps", "mc_draws", "no_mcmc")
    settings = {"source": source, **{k: getattr(options, k) for k in kept}}
    path = options.results / f"viper_table2_{source}.json"
    rows = saved_rows(path, settings)
    for seed, X, y, truth, published in load(options):
        if any(r["seed"] == seed for r in rows):
            continue
        for name, ours in one_data_set(X, y, truth, seed, options, program).items():
            paper = None if published is None else columns(published[ROWS[name]])
            rows.append({"seed": seed, "method": name, "ours": ours, "published": paper})
            print(seed, name, {c: v and round(v, 4) for c, v in ours.items()}, flush=True)
        write(path, {"settings": settings, "rows": rows}, "cmdstanpy")
    print_medians(rows)


if __name__ == "__main__":
    main()
