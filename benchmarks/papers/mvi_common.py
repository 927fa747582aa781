"""What the scripts on mixed variational inference share: features, methods, scores, tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.stats import binomtest, bootstrap

import pymc_ext as px

METHODS = ("laplace", "mu", "eig", "lr", "diag")
PREDICTIVE_DRAWS = 10_000  # S', as in the paper
DRAWS = {"draws": 256, "max_draws": 1024}  # S at first, and where the fresh ELBO is lower


def rbf(X: Any, centres: Any, width: Any, xp: Any = np) -> Any:
    """[exp(−‖x − c‖²/2r²), 1] (eq. 17), shape (N, M + 1); ``xp`` is numpy or pytensor.tensor."""
    squares = (X**2).sum(1)[:, None] - 2 * X @ centres.T + (centres**2).sum(1)[None]
    phi = xp.exp(-squares / (2 * width**2))
    return xp.concatenate([phi, xp.ones_like(phi[:, :1])], axis=1)


class Study:
    """One model, refitted by every method to one data set after another.

    Parameters
    ----------
    model
        Its data are ``pm.Data``; weights are the free variables that are no hyperparameters.
    hyperparameters
        Names of variables set by empirical Bayes, with their ``start``.
    """

    def __init__(self, model: pm.Model, hyperparameters: tuple[str, ...], start: dict) -> None:
        self.model, self.hyperparameters = model, hyperparameters
        common = {"model": model, "hyperparameters": hyperparameters, "start": start}
        laplace = px.LaplaceVI(search=px.ModeSearch(starts=1), random_seed=1, **common)
        mixed = {
            "base": laplace.approx,
            "random_seed": 1,
            "fixed_draws": px.FixedDraws(**DRAWS),
            **common,
        }
        self.inferences = {
            "laplace": laplace,
            "mu": px.MixedVI("mu", **mixed),
            "eig": px.MixedVI("eig", **mixed),
            "lr": px.MixedVI("lr", **mixed),
            "diag": px.DiagonalVI(**mixed),
        }

    def maximise_evidence(self, data: Mapping[str, Any]) -> dict[str, float]:
        """The hyperparameters of highest Laplace evidence on one data set."""
        with self.model:
            pm.set_data({k: v for k, v in data.items() if k not in self.hyperparameters})
        laplace = self.inferences["laplace"]
        laplace.restart()
        approx = laplace.fit(500, progressbar=False)
        return {name: float(value) for name, value in approx.hyperparameters.items()}

    def run(self, data: Mapping[str, Any], score: Callable[[Any], dict[str, float]]) -> dict:
        """Scores of each method on one data set, with ELBO and seconds; None where it fails."""
        with self.model:
            pm.set_data(dict(data))
        out: dict[str, Any] = {}
        for name, inference in self.inferences.items():
            inference.restart()
            try:
                approx = inference.fit(500, progressbar=False)
            except (px.NoModeError, ValueError) as error:
                out[name] = {"failure": str(error)}
                if name == "laplace":
                    return out
                continue
            result = approx.result
            out[name] = {
                **score(approx),
                "elbo": result.elbo,
                "seconds": result.seconds,
                **{k: float(v) for k, v in approx.hyperparameters.items()},
            }
        return out


def complete(runs: list[dict]) -> list[dict]:
    """The runs in which every method succeeded."""
    return [r for r in runs if len(r) == len(METHODS) and not failed(r)]


def failed(run: dict) -> bool:
    """Whether a method failed in this run."""
    return any("failure" in scores for scores in run.values())


def summary(runs: list[dict], measure: str) -> dict[str, float | None]:
    """One score of every method, for the log."""
    return {m: round(float(v[measure]), 3) if measure in v else None for m, v in runs[-1].items()}


def median_table(runs: list[dict], measure: str) -> dict[str, float]:
    """Median over the runs in which every method succeeded."""
    good = complete(runs)
    return {m: float(np.median([r[m][measure] for r in good])) for m in METHODS} | {
        "runs": len(good)
    }


def significance(runs: list[dict], measure: str, higher: bool, seed: int = 1) -> dict[str, Any]:
    """Best method by median, and per rival the sign test and bootstrap interval of section IV-B."""
    medians = median_table(runs, measure)
    sign = 1 if higher else -1
    best = max(METHODS, key=lambda m: sign * medians[m])
    good = complete(runs)
    rivals = {}
    for rival in METHODS:
        if rival == best or len(good) < 2:
            continue
        d = sign * np.array([r[best][measure] - r[rival][measure] for r in good])
        untied = d[d != 0]
        p = binomtest(int((untied > 0).sum()), len(untied)).pvalue if len(untied) else 1.0
        interval = bootstrap((d,), np.median, method="percentile", rng=seed).confidence_interval
        rivals[rival] = {"sign_test_p": float(p), "median_gain_95": [float(x) for x in interval]}
    significant = bool(rivals) and all(
        r["sign_test_p"] < 0.05 and r["median_gain_95"][0] > 0 for r in rivals.values()
    )
    return {"best": best, "significant": significant, "rivals": rivals}


def tables(
    runs: list[dict], measures: Mapping[str, bool], published: Mapping[str, Mapping[str, float]]
) -> dict[str, Any]:
    """Per measure (True: higher is better): our medians, the published ones and the tests."""
    if not complete(runs):
        return {"failures": runs}
    out: dict[str, Any] = {"failures": [run for run in runs if failed(run)]}
    for measure, higher in measures.items():
        out[measure] = {
            "ours": median_table(runs, measure),
            "paper": published.get(measure),
            "test": significance(runs, measure, higher),
        }
    return out


def read_results(path: Path) -> dict[str, Any]:
    """What :func:`benchmarks.record.write` recorded at ``path``; empty where there is nothing."""
    return json.loads(path.read_text(encoding="utf-8"))["results"] if path.is_file() else {}


def table(title: str, recorded: Mapping[str, Mapping[str, Any]], measure: str) -> str:
    """Ours over the paper's, one row each per data set; * marks the best of ours, ** where both
    tests of section IV-B call it significant, and the last column counts the runs."""
    lines = [f"{title:24}" + "".join(f"{m:>13}" for m in METHODS) + "  runs"]
    for name, results in recorded.items():
        if measure not in results:
            continue
        ours, paper, test = (results[measure][k] for k in ("ours", "paper", "test"))
        mark = {test["best"]: "**" if test["significant"] else "*"}
        cells = "".join(f"{ours[m]:11.6g}{mark.get(m, ''):2}" for m in METHODS)
        lines.append(f"{name:24}{cells}  {ours['runs']}")
        if paper:
            lines.append(f"{'  paper':24}" + "".join(f"{paper[m]:11.6g}  " for m in METHODS))
    return "\n".join(lines)


def weights(approx: Any) -> np.ndarray:
    """S' draws of the weights, (S', D)."""
    return approx.draws_with_logs(PREDICTIVE_DRAWS, random_seed=2)[0]


def features_graph(X: Any, centres: Any, width: Any) -> Any:
    """:func:`rbf` as a PyTensor graph."""
    return rbf(X, centres, width, pt)
