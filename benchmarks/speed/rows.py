"""Logistic regression on ten million rows of a Parquet file: passes over it beside SGD.

    python -m benchmarks.speed.rows [--rows 1e7] [--folder FOLDER] [--only ...]

Twenty predictors of correlations 0.5^|i−j|, written in groups of 250,000 rows to a temporary folder
(1.8 GB at 10⁷ rows), and an intercept. Each run is a process of its own, which prints the CPU
seconds of its fit, compilation included, its peak memory in GiB, and its errors against the
full-data posterior: of means in posterior standard deviations and of log sds, the largest of 21.
Run it with OMP_NUM_THREADS=1.

- ``truth``: Newton's method to the mode in plain NumPy, and from its last pass the first-order
  difference of mean and mode, −½ Λ⁻¹ Σ_i x_i σ''(x_i β) x_iᵀ Λ⁻¹ x_i, which bounds the size of what
  else is left out; its sds are those of Λ⁻¹.
- ``viper``: ``pm.fit(method=px.ViperVI(tolerance=1e-6), rows=...)``.
- ``matched`` and ``matched elbo``: ``px.MatchedClassifier.fit_rows``, α = 0.1 and chosen.
- ``advi``: PyMC's own ``pm.fit(method="advi")`` on ``pm.Minibatch`` of 1,000 rows, all of which are
  in memory, after as many CPU seconds of steps as ``viper`` took in all, and after four times as
  many.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from scipy.special import expit

import pymc_ext as px
from benchmarks import record

Array = np.ndarray
Row = dict[str, Any]
RESULTS = Path(__file__).parent / "results" / "rows.json"
P, GROUP, BATCH, MORE = 20, 250_000, 1000, 4
NAMES = [f"x{i}" for i in range(P)]
PRIOR_SD = np.array([2.0, *[1.0] * P])  # of the intercept, then of the slopes


def write_rows(path: Path, count: int) -> None:
    """The file."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetWriter

    rng = np.random.default_rng(1)
    slopes = 0.3 * rng.standard_normal(P)
    L = np.linalg.cholesky(0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P))))
    schema = pa.schema([(name, pa.float64()) for name in NAMES] + [("y", pa.int8())])
    with ParquetWriter(path, schema, write_page_checksum=True) as writer:
        for begin in range(0, count, GROUP):
            X = rng.standard_normal((min(GROUP, count - begin), P)) @ L.T
            y = (rng.random(len(X)) < expit(X @ slopes - 0.5)).astype(np.int8)
            writer.write_table(pa.table([*X.T, y], schema=schema))


def rows_of(path: Path) -> px.ParquetRows:
    """Its rows."""
    return px.ParquetRows(path, {"X": NAMES, "y": "y"})


def model(X: Any, y: Any, **options: Any) -> pm.Model:
    """y ~ Bernoulli(σ(a + X β))."""
    with pm.Model() as made:
        if isinstance(X, np.ndarray):
            X, y = pm.Data("X", X), pm.Data("y", y)
        intercept = pm.Normal("intercept", 0, PRIOR_SD[0])
        slopes = pm.Normal("slopes", 0, 1, shape=P)
        pm.Bernoulli("label", logit_p=intercept + X @ slopes, observed=y, **options)
    return made


# ---- the runs ----------------------------------------------------------------------------------


def truth(path: Path) -> Row:
    """Mean and sds of the posterior, and the difference of its mean and mode."""

    def designs() -> Iterator[tuple[Array, Array]]:
        for block in rows_of(path).blocks():
            yield np.c_[np.ones(len(block["y"])), block["X"]], block["y"]

    begin, beta, passes = time.process_time(), np.zeros(P + 1), 0
    while True:
        gradient, precision = -beta / PRIOR_SD**2, np.diag(PRIOR_SD**-2)
        for X, y in designs():
            p = expit(X @ beta)
            gradient += X.T @ (y - p)
            precision += X.T @ (X * (p * (1 - p))[:, None])
        passes += 1
        step = np.linalg.solve(precision, gradient)
        beta = beta + step
        if gradient @ step < 1e-12:  # twice the nats that are left
            break
    cov = np.linalg.inv(precision)
    pull = np.zeros(P + 1)
    for X, _ in designs():
        p = expit(X @ beta)
        third = p * (1 - p) * (1 - 2 * p)
        pull += X.T @ (third * np.einsum("ij,ij->i", X @ cov, X))
    off, sd = -0.5 * cov @ pull, np.sqrt(np.diag(cov))
    return {
        "seconds": time.process_time() - begin,
        "passes": passes + 1,
        "mean_minus_mode": float(np.abs(off / sd).max()),
        "mean": (beta + off).tolist(),
        "sd": sd.tolist(),
    }


def viper(path: Path) -> Row:
    """Ours."""
    rows = rows_of(path)
    begin = time.process_time()
    with model(np.zeros((1, P)), np.zeros(1, dtype=int)):
        approx = pm.fit(method=px.ViperVI(tolerance=1e-6), rows=rows, progressbar=False)
    result = approx.result
    return {
        "seconds": time.process_time() - begin,
        "passes": result.gradient_evaluations,
        "elbo": result.elbo,
        "mean": approx.mean.eval().tolist(),
        "sd": approx.std.eval().tolist(),
    }


def matched(path: Path, alpha: float | str = 0.1) -> Row:
    """The classifier, which puts the intercept last."""
    rows, precision = rows_of(path), np.roll(PRIOR_SD**-2, -1)
    begin = time.process_time()
    classifier = px.MatchedClassifier(alpha=alpha, prior_precision=precision).fit_rows(rows)
    posterior = classifier.state_.posterior
    return {
        "seconds": time.process_time() - begin,
        "passes": 1,
        "mean": np.roll(posterior.mean[0], 1).tolist(),
        "sd": np.roll(np.sqrt(np.diag(posterior.covariance[0])), 1).tolist(),
    }


def advi(path: Path, seconds: float) -> Row:
    """PyMC's own, as it is after ``seconds`` and after `MORE` times these."""
    import pyarrow.parquet as pq

    columns = pq.read_table(path)
    X = np.column_stack([columns[name].to_numpy() for name in NAMES])
    y = columns["y"].to_numpy().astype("int32")  # another type would be cast, which PyMC refuses
    del columns
    seen: dict[str, Any] = {}
    clock: list[float] = []

    def look(approx: pm.Approximation, losses: Array, i: int) -> None:
        clock.append(time.process_time())
        for name, limit in (("", seconds), ("later_", MORE * seconds)):
            if clock[-1] - clock[0] > limit and f"{name}mean" not in seen:
                seen[f"{name}steps"], seen[f"{name}seconds"] = i, clock[-1] - clock[0]
                seen[f"{name}mean"] = approx.mean.eval().tolist()
                seen[f"{name}sd"] = approx.std.eval().tolist()
        if "later_mean" in seen:
            raise StopIteration

    with model(*pm.Minibatch(X, y, batch_size=BATCH), total_size=len(y)):
        pm.fit(10**9, method="advi", random_seed=1, callbacks=[look], progressbar=False)
    return seen


RUNS: dict[str, Callable[..., Row]] = {
    "truth": truth,
    "viper": viper,
    "matched": matched,
    "matched elbo": lambda path: matched(path, "elbo"),
    "advi": advi,
}


# ---- all of them -------------------------------------------------------------------------------


def child(name: str, path: Path, *arguments: float) -> Row:
    """A run in a process of its own, with its peak memory."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.speed.rows"]
    command += ["--child", name, str(path), *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: Row = json.loads(done.stdout.splitlines()[-1])
    return found


def judged(row: Row, truth: Row) -> Row:
    """The row with its errors in place of means and sds."""
    mean, sd = np.array(truth["mean"]), np.array(truth["sd"])
    for name in ("", "later_"):
        if f"{name}mean" in row:
            off = (np.array(row.pop(f"{name}mean")) - mean) / sd
            row[f"{name}mean_error"] = float(np.abs(off).max())
            row[f"{name}log_sd_error"] = float(np.abs(np.log(row.pop(f"{name}sd") / sd)).max())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--folder", type=Path, help="of the file, kept; a temporary one by default")
    parser.add_argument("--only", nargs="+", choices=[*RUNS][2:], default=[*RUNS][2:])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, path, *numbers = given.child
        row = RUNS[name](Path(path), *map(float, numbers))
        row["peak_GiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(json.dumps(row))
        return
    with tempfile.TemporaryDirectory() as temporary:
        path = (given.folder or Path(temporary)) / f"rows-{int(given.rows)}.parquet"
        if not path.exists():
            write_rows(path, int(given.rows))
        known, results = child("truth", path), {"rows": int(given.rows)}
        print(show("truth", known), flush=True)
        for name in ["viper", *given.only]:
            limits = [results["viper"]["seconds"]] if name == "advi" else []
            results[name] = judged(child(name, path, *limits), known)
            print(show(name, results[name]), flush=True)
        results["truth"] = {k: v for k, v in known.items() if k not in ("mean", "sd")}
        record.write(given.out, results, "pyarrow")


def show(name: str, row: Row) -> str:
    """One line."""
    return f"{name}: " + ", ".join(
        f"{k} {v:,.4g}" for k, v in row.items() if isinstance(v, int | float)
    )


if __name__ == "__main__":
    main()
