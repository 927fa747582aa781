"""Evidence and test-density surfaces over (log ℓ, log σ): figures 2, 4, 7, 9 of Li et al. (2023).

    python -m benchmarks.papers.gp_surfaces [--set sonar] [--grid 21] [--steps 8000] [--share 0.5]

For every point of the grid: evidence a data point and mean test log-likelihood by Laplace, EP, VI,
the hybrid and annealed importance sampling (T = --steps, three chains; 0 leaves it out). --share
takes that share of the training inputs as inducing inputs (figure 4). Points run under joblib, are
appended to a file as they finish, and are not run again. An evidence above 0, which no log
probability of labels can be, is counted as impossible and left white: the EP energy at VI sites
reaches it where the model is badly wrong. --compare draws the recorded shares of a set together.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path
from typing import Any

import joblib
import matplotlib
import numpy as np
from scipy.special import log_ndtr, logsumexp
from sklearn.model_selection import KFold

import pymc_ext as px
from benchmarks import record
from benchmarks.papers.gp_epvi import latent, load
from pymc_ext.gp.sampling import annealed_evidence, sample_latents
from pymc_ext.gp.solver import Solver

matplotlib.use("Agg")
import matplotlib.pyplot as plt

CORPUS = Path(__file__).resolve().parents[3] / "shared" / "corpus" / "epvi"
METHODS = {
    "la": (px.gp.Laplace(), None),
    "ep": (px.gp.EP(tolerance=1e-6), None),
    "vi": (px.gp.CVI(tolerance=1e-6), None),
    "hybrid": (px.gp.CVI(tolerance=1e-6), "ep"),
}
PREDICTIVE_DRAWS = 400
SCALE = (-0.8, 0.0)  # of the figures
LEVELS = np.linspace(*SCALE, 17)


def split(name: str) -> tuple[np.ndarray, ...]:
    """The stored fold of sonar, else the first of five folds with seed 42."""
    if name == "sonar":
        with np.load(CORPUS / "sonar_fold.npz") as z:
            X, Y = (z["train_X"], z["test_X"]), (z["train_Y"], z["test_Y"])
        return X[0], (Y[0][:, 0] > 0).astype(float), X[1], (Y[1][:, 0] > 0).astype(float)
    X, y = load(name)
    train, test = next(iter(KFold(5, shuffle=True, random_state=42).split(X)))
    return X[train], y[train], X[test], y[test]


def matern(a: np.ndarray, b: np.ndarray, ell: float, sigma: float) -> np.ndarray:
    """Matérn-5/2."""
    square = (a**2).sum(1)[:, None] + (b**2).sum(1) - 2 * a @ b.T
    r = np.sqrt(5 * np.maximum(square, 0)) / ell
    return sigma**2 * (1 + r + r**2 / 3) * np.exp(-r)


def point(name: str, log_ell: float, log_sigma: float, steps: int, share: float) -> dict[str, Any]:
    """All methods at one point."""
    X, y, X_test, y_test = split(name)
    ell, sigma = np.exp(log_ell), np.exp(log_sigma)
    K, cross = matern(X, X, ell, sigma), matern(X_test, X, ell, sigma)
    n, none, zero = len(y), np.empty(0), np.zeros(len(y))
    inputs: tuple[np.ndarray, ...] = (zero, K)
    at = slice(None)
    if share < 1:
        at = np.random.default_rng(0).permutation(n)[: int(share * n)]
        inputs = (zero, K[np.ix_(at, at)], K[:, at], np.diag(K).copy())
    out: dict[str, Any] = {"log_ell": log_ell, "log_sigma": log_sigma}
    likelihood = px.gp.BernoulliProbit()
    for method, (rule, learning) in METHODS.items():
        try:
            solution = Solver(likelihood, rule, learning).solve(y, none, inputs)
        except (px.gp.ConvergenceError, ValueError) as error:
            out[method] = {"failed": str(error)[:100]}
            continue
        moments = latent(solution.fixed_point.posterior, cross[:, at], sigma**2)
        p = likelihood.predict(*moments, none)[0]
        test = np.log(np.where(y_test == 1, p, 1 - p)).mean()
        out[method] = {"evidence": solution.value / n, "test": float(test)}
    if steps:
        out["ais"] = annealed(X, y, K, cross, y_test, sigma, steps)
    return out


def annealed(
    X: np.ndarray, y: np.ndarray, K: np.ndarray, cross: np.ndarray, y_test: np.ndarray,
    sigma: float, steps: int,
) -> dict[str, float]:  # fmt: skip
    """Evidence by annealing; predictions by slice sampling from its last states."""
    n, likelihood = len(y), px.gp.BernoulliProbit()
    found = annealed_evidence(np.zeros(n), K, likelihood, y, steps=steps, chains=3)
    f = sample_latents(
        np.zeros(n), K, likelihood, y, draws=PREDICTIVE_DRAWS, thin=5, chains=3, tune=0,
        start=found.latents,
    ).reshape(-1, n)  # fmt: skip
    A = cross @ np.linalg.pinv(K, hermitian=True)
    mean = f @ A.T
    variance = np.maximum(sigma**2 - np.einsum("ij,ij->i", A, cross), 0)
    log_p = log_ndtr((2 * y_test - 1) * mean / np.sqrt(1 + variance))
    test = (logsumexp(log_p, axis=0) - np.log(len(f))).mean()
    return {
        "evidence": found.geometric_mean / n,
        "test": float(test),
        "se": found.standard_error / n,
    }


def possible(p: dict[str, Any], method: str) -> bool:
    """Whether there is an evidence, and not above 0."""
    return p[method].get("evidence", np.inf) <= 0


def figure(points: list[dict[str, Any]], path: Path) -> None:
    """Evidence (top) and test density (bottom), one column a method."""
    methods = [m for m in (*METHODS, "ais") if m in points[0]]
    ells, sigmas = (np.unique([p[k] for p in points]) for k in ("log_ell", "log_sigma"))
    fig, axes = plt.subplots(
        2, len(methods), figsize=(3.2 * len(methods), 6), squeeze=False, layout="constrained"
    )
    for column, method in zip(axes.T, methods, strict=True):
        for axis, kind in zip(column, ("evidence", "test"), strict=True):
            grid = np.full((len(sigmas), len(ells)), np.nan)
            for p in points:
                i = np.searchsorted(sigmas, p["log_sigma"]), np.searchsorted(ells, p["log_ell"])
                grid[i] = p[method].get(kind, np.nan) if possible(p, method) else np.nan
            filled = axis.contourf(ells, sigmas, np.clip(grid, *SCALE), levels=LEVELS)
            good = [p for p in points if possible(p, method)]
            best = max(good, key=lambda p, m=method: p[m]["evidence"])
            axis.plot(best["log_ell"], best["log_sigma"], "kx")
            axis.set(title=f"{method}: {kind}", xlabel="log ℓ", ylabel="log σ")
    fig.colorbar(filled, ax=axes, label="nats a data point", shrink=0.8, pad=0.01)
    fig.savefig(path, dpi=110)
    plt.close(fig)


def summary(points: list[dict[str, Any]]) -> dict[str, Any]:
    """Each method's best point, and its evidence against the annealed one over the grid."""
    table = {}
    for method in (m for m in (*METHODS, "ais") if m in points[0]):
        good = [p for p in points if possible(p, method)]
        best = max(good, key=lambda p, m=method: p[m]["evidence"])
        row = {k: best[k] for k in ("log_ell", "log_sigma")} | best[method]
        row["failed"] = sum("failed" in p[method] for p in points)
        row["impossible"] = len(points) - len(good) - row["failed"]
        if "ais" in points[0] and method != "ais":
            gap = np.array([p[method]["evidence"] - p["ais"]["evidence"] for p in good])
            row |= {"mean_error": float(gap.mean()), "largest_error": float(np.abs(gap).max())}
        table[method] = {k: round(v, 5) for k, v in row.items()}
    return table


def compare(results: Path, name: str) -> None:
    """Figure 4: evidence of VI and the hybrid for every recorded share of inducing inputs."""
    found = {}
    for file in results.glob(f"gp_surfaces_{name}_*.json"):
        share, points = float(file.stem.split("_")[-1]), json.loads(file.read_text())
        found[share, len(points["results"]["points"])] = points["results"]["points"]
    shares = sorted({share for share, _ in found}, reverse=True)
    fig, axes = plt.subplots(
        3, len(shares), figsize=(3.2 * len(shares), 8.4), squeeze=False, layout="constrained"
    )
    for column, share in zip(axes.T, shares, strict=True):
        points = found[share, max(n for s, n in found if s == share)]
        ells, sigmas = (np.unique([p[k] for p in points]) for k in ("log_ell", "log_sigma"))
        for axis, method in zip(column, ("ep", "vi", "hybrid"), strict=True):
            grid = np.full((len(sigmas), len(ells)), np.nan)
            for p in (p for p in points if possible(p, method)):
                i = np.searchsorted(sigmas, p["log_sigma"]), np.searchsorted(ells, p["log_ell"])
                grid[i] = p[method]["evidence"]
            filled = axis.contourf(ells, sigmas, np.clip(grid, *SCALE), levels=LEVELS)
            title = f"{method}: m/n = {100 * share:.0f} %"
            axis.set(title=title, xlabel="log ℓ", ylabel="log σ")
    fig.colorbar(filled, ax=axes, label="nats a data point", shrink=0.8, pad=0.01)
    fig.savefig(results / f"gp_surfaces_{name}_shares.png", dpi=110)
    plt.close(fig)


def main() -> None:
    """Run what is missing, keep every point, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="sonar")
    parser.add_argument("--grid", type=int, default=21)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--compare", action="store_true", help="draw figure 4 of recorded shares")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if arguments.compare:
        compare(arguments.results, arguments.set)
        return
    name = f"gp_surfaces_{arguments.set}_{arguments.grid}_{arguments.steps}_{arguments.share:g}"
    if arguments.set == "sonar" and not CORPUS.is_dir():
        logging.info("left out: sonar (%s) is not here; try --set breast-cancer-wisc-diag", CORPUS)
        return
    arguments.results.mkdir(parents=True, exist_ok=True)
    log = arguments.results / f"{name}.jsonl"
    done = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    kept = arguments.results / f"{name}.json"
    if kept.exists():
        done += json.loads(kept.read_text())["results"]["points"]
    seen = {(p["log_ell"], p["log_sigma"]) for p in done}
    axis = np.linspace(-1, 5, arguments.grid).round(6)
    todo = [(a, b) for a in axis for b in axis if (a, b) not in seen]
    run = joblib.Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")
    options = (arguments.steps, arguments.share)
    with log.open("a", encoding="utf-8") as out:
        for p in run(joblib.delayed(point)(arguments.set, a, b, *options) for a, b in todo):
            out.write(json.dumps(p) + "\n")
            out.flush()
            done.append(p)
    table = summary(done)
    logging.info("%s", json.dumps(table, indent=1))
    record.write(kept, {"best": table, "points": done})
    log.unlink()
    figure(done, arguments.results / f"{name}.png")


if __name__ == "__main__":
    main()
