"""Bernstein flows against Dürr et al. (2024): KL of the exact cases, k̂ of the others.

    python -m benchmarks.papers.bfvi [--parts kl kl_map khat stored predictive symmetric]
        [--seeds 5] [--cases ...] [--methods ...] [--backend jax] [--database FOLDER]
        [--results FOLDER]

All fits aim at the **true** targets; the published k̂ are of targets without the log-Jacobian of
the positive parameter, except where there is none (network), and are printed beside ours for that
reason only. ``stored`` recomputes the published k̂ from the log ratios the authors kept; it and the
melanoma case need the data corpus, diamonds a posteriordb database (``--database``). ``symmetric``
says how much of the network's posterior, which has 48 copies, a q finds, and where it is too light.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy import integrate, stats

import pymc_ext as px
from benchmarks import record
from benchmarks.papers import bfvi_cases as cases
from benchmarks.papers.bfvi_fits import DRAWS, METHODS, SETTINGS, fit
from benchmarks.papers.bfvi_network import predictive, symmetric
from bridge.measures.khat import pareto_khat

ORDERS = (1, 2, 6, 10, 30, 50, 100)
PUBLISHED_KL = {
    "bernoulli": {10: 0.0147, 30: 0.0049},
    "cauchy": {2: 0.1239, 6: 0.0594, 10: 0.0181, 30: 0.0072, 50: 0.0022},
}
PUBLISHED_KHAT = {  # BF-VI of the paper, on targets without Jacobian
    "toy": 0.68,
    "eight_schools_ncp": 0.36,
    "eight_schools_cp": 0.53,
    "diamonds": 5.34,
}
GOALS = {
    "toy": 0.5,
    "eight_schools_ncp": 0.3,
    "eight_schools_cp": 0.5,
    "network": 0.7,
    "diamonds": 0.2,
}
STORED = {
    "toy": ("gpu_2D.npz", 0.68),
    "toy, mean-field Gaussian": ("2D_MF_Gauss.npz", 0.90),
    "eight_schools_ncp": ("gpu_8SCHOOLS.npz", 0.36),
    "eight_schools_cp": ("gpu_8CPprior_fix_8SCHOOLS_CP.npz", 0.53),
    "melanoma": ("cpu_MELA.npz", None),
}
STEPS = {"f1": "F1F2", "f2": "SigmoidF2", "f3": "TruncF2"}


def kl_by_quadrature(approx: Any, log_evidence: float) -> float:
    """KL(q‖p) of a one-dimensional flow as an integral over its normal."""
    z = np.linspace(-9, 9, 20_001)
    log_ratio = approx.log_ratios(z[:, None])
    return float(log_evidence - integrate.simpson(stats.norm.pdf(z) * log_ratio, x=z))


def kl_curves(seeds: int, backend: str, folder: Path) -> dict[str, Any]:
    """KL of the Bernoulli and Cauchy cases against M, for f1, f2 and f3, beside the paper's."""
    rows = []
    for case in ("bernoulli", "cauchy"):
        for input_map in ("f1", "f2", "f3") if case == "cauchy" else ("f1",):
            for order in ORDERS:
                for seed in range(1, seeds + 1):
                    shape = px.FlowShape(order, input_map=input_map, tails="bounded")
                    approx, _ = fit(getattr(cases, case), "defaults", shape=shape, polish=None,
                                    random_seed=seed, backend=backend)  # fmt: skip
                    kl = kl_by_quadrature(approx, cases.LOG_EVIDENCE[case])
                    rows.append({"case": case, "map": input_map, "M": order, "kl": kl})
                median = np.median([r["kl"] for r in rows[-seeds:]])
                theirs = PUBLISHED_KL[case].get(order) if input_map == "f1" else None
                print(f"{case} {input_map} M={order}: KL {median:.5f}, paper {theirs}", flush=True)
                record.write(folder / "bfvi_kl.json", {"kl": rows, "published": PUBLISHED_KL})
    _draw_kl(pd.DataFrame(rows), folder)
    return {"kl": rows, "published": PUBLISHED_KL}


def kl_on_the_map(seeds: int) -> dict[str, Any]:
    """KL of the same cases as a user has them of any model, and from the identity at M = 10."""
    shape = px.FlowShape(10, tails="bounded")
    ways: dict[str, dict[str, Any]] = {
        "on the map": {}, "on a Gaussian": {}, "in JAX": {"shape": shape},
        "defaults": {"shape": shape, "polish": None},
    }  # fmt: skip
    rows = []
    for case, published in PUBLISHED_KL.items():
        for method, options in ways.items():
            for seed in range(1, seeds + 1):
                start = time.process_time()
                approx, _ = fit(getattr(cases, case), method, random_seed=seed, **options)
                rows.append({
                    "case": case, "method": method, "seed": seed,
                    "kl": kl_by_quadrature(approx, cases.LOG_EVIDENCE[case]),
                    "steps": approx.result.iterations, "cpu_s": time.process_time() - start,
                })  # fmt: skip
            kl, cpu = (np.median([r[key] for r in rows[-seeds:]]) for key in ("kl", "cpu_s"))
            print(f"{case}, {method}: KL {kl:.5f}, {cpu:.1f} CPU s; paper, M = 10: {published[10]}")
    return {"kl": rows, "published": PUBLISHED_KL}


def _draw_kl(ours: pd.DataFrame, folder: Path) -> None:
    figure, axes = plt.subplots()
    for color, (input_map, label) in zip("rgb", STEPS.items(), strict=True):
        rows = ours[(ours["case"] == "cauchy") & (ours["map"] == input_map)]
        mine = rows.groupby("M").kl.median()
        axes.loglog(mine.index, mine, color + "-o", label=f"{input_map}, ours")
        path = cases.CORPUS / "bfvi" / f"cauchy_kl_{label}.csv"
        if path.is_file():
            theirs = pd.read_csv(path).groupby("M").kl.median()
            axes.loglog(theirs.index, theirs, color + "--", label=f"{input_map}, paper")
    axes.set(xlabel="order M", ylabel="KL(q‖p), Cauchy case")
    axes.set_xticks(ORDERS, [str(M) for M in ORDERS])
    axes.minorticks_off()
    axes.legend()
    figure.savefig(folder / "bfvi_kl.png", dpi=120)
    plt.close(figure)


def measure(approx: Any, seconds: float, seed: int) -> dict[str, Any]:
    """ELBO of q, k̂ and relative ESS of its proposal, and what each training phase reached."""
    _, lp, lq = approx.draws_with_logs(DRAWS, random_seed=1000 + seed)
    judged = pareto_khat(*approx.weighted_draws(DRAWS, random_seed=1000 + seed)[1:])
    return {
        "seed": seed,
        "khat": judged.value,
        "elbo": float(np.mean(lp - lq)),
        "relative_ess": judged.ess / DRAWS,
        "seconds": seconds,
        "steps": approx.result.iterations,
        "stages": [stage.describe() for stage in getattr(approx, "stages", ())],
    }


def khat_table(
    seeds: int,
    backend: str,
    database: Path | None,
    names: list[str],
    methods: list[str],
    folder: Path,
) -> dict[str, Any]:
    """k̂ and ELBO of every case with a mean-field Gaussian and Student-t beside the flow."""
    builders = {**cases.CASES, "diamonds": lambda: cases.diamonds(database)}
    table: dict[str, Any] = {}
    for name in names:
        build = builders[name]
        if build() is None:
            print(f"{name}: left out, its data are not here", flush=True)
            continue
        for method in methods:
            options = {"backend": backend, **SETTINGS.get(method, {}).get(name, {})}
            runs = [
                measure(*fit(build, method, random_seed=seed, **options), seed)
                for seed in range(1, seeds + 1)
            ]
            table[f"{name}, {method}"] = runs
            khats, elbos = (np.array([r[key] for r in runs]) for key in ("khat", "elbo"))
            print(
                f"{name}, {method}: k̂ {np.median(khats):.2f} [{khats.min():.2f}, "
                f"{khats.max():.2f}], ELBO {np.median(elbos):.4f}, "
                f"{np.median([r['seconds'] for r in runs]):.0f} s; paper (other target) "
                f"{PUBLISHED_KHAT.get(name)}, goal {GOALS.get(name)}",
                flush=True,
            )
            for run in runs:
                for stage in run["stages"]:
                    print(f"    seed {run['seed']}: {stage}", flush=True)
            path = folder / f"bfvi_khat_{name}.json"  # keeps the rows of other methods
            record.write(path, {**record.kept(path), f"{name}, {method}": runs})
    return table


def stored_khats() -> dict[str, Any]:
    """k̂ of the log ratios the authors kept: the published values."""
    out: dict[str, Any] = {}
    for name, (file, published) in STORED.items():
        path = cases.CORPUS / "bfvi" / "khat" / file
        if not path.is_file():
            print(f"{name}: no stored log ratios here", flush=True)
            continue
        runs = np.load(path)
        ratios = [np.asarray(runs[key], dtype=float) for key in runs.files]
        khats = [pareto_khat(r, np.zeros_like(r)).value for r in ratios]
        out[name] = {"khat": khats, "published": published}
        print(f"{name}, stored: mean k̂ {np.mean(khats):.2f}, published {published}", flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = ("stored", "khat", "kl", "kl_map", "predictive", "symmetric")
    parser.add_argument("--parts", nargs="+", choices=parts, default=list(parts))
    parser.add_argument("--cases", nargs="+", choices=(*cases.CASES, "diamonds"),
                        default=[*cases.CASES, "diamonds"])  # fmt: skip
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--backend", choices=("jax", "pytensor"), default="pytensor")
    parser.add_argument("--database", type=Path, help="a posteriordb posterior_database folder")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    given = parser.parse_args()
    given.results.mkdir(parents=True, exist_ok=True)
    runs: dict[str, Callable[[], Any]] = {
        "stored": stored_khats,
        "khat": lambda: khat_table(
            given.seeds,
            given.backend,
            given.database,
            given.cases,
            given.methods,
            given.results,
        ),
        "kl": lambda: kl_curves(given.seeds, given.backend, given.results),
        "kl_map": lambda: kl_on_the_map(given.seeds),
        "predictive": lambda: predictive(given.backend, given.results),
        "symmetric": lambda: symmetric(given.backend),
    }
    for part in given.parts:
        result = runs[part]()
        if part != "khat":  # which writes a file for each case
            record.write(given.results / f"bfvi_{part}.json", result)


if __name__ == "__main__":
    main()
