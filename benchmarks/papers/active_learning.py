"""Active learning of Bayesian logistic regression: matching, chance, refitted exact regression.

    python -m benchmarks.papers.active_learning [--seeds 8] [--results FOLDER]

Bui, "Likelihood approximations via Gaussian approximate inference", section 4.3, figures 5 and 16:
10 initial labels, then 200 labels from a pool, each the row of highest predictive entropy (and
BALD), α = 0.1 as in the paper. The paper's IMDB reviews with Gemma features are replaced by two
binary tasks: odd against even digits (MNIST-5k) and the first against the second half of the
alphabet (letter), both on random ReLU features. "exact refit" is scikit-learn's
LogisticRegression, refitted to a maximum a posteriori estimate at every step, asking by entropy.
Needs scikit-learn and mlxtend; letter is read from the data corpus and left out where it is absent.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import entr
from sklearn.linear_model import LogisticRegression

from benchmarks import record
from benchmarks.papers import matching_data
from pymc_ext.matching import MatchingState, active_learning
from pymc_ext.matching.predict import log_expected_probabilities

INITIAL, STEPS, POOL, TEST, WIDTH = 10, 200, 2500, 2000, 128
PRIOR_PRECISION, EVERY = 0.04, 10
METHODS = ("laplace", "moment", "variational", "moment-ori")
LEVELS = (0.75, 0.80, 0.825)

Run = tuple[np.ndarray, float]  # accuracy and log-likelihood at every tenth label, CPU seconds
Split = dict[str, tuple[np.ndarray, np.ndarray]]


def task(name: str, rng: np.random.Generator) -> Split:
    """Random initial rows with both classes, pool and test set of a binary task."""
    X, y = getattr(matching_data, name)()
    y = y % 2 if name == "mnist5k" else (y >= 13).astype(int)
    order = rng.permutation(len(y))[: INITIAL + POOL + TEST]
    H, y = matching_data.relu_features(X[order], WIDTH, rng), y[order]
    if len(np.unique(y[:INITIAL])) < 2:
        return task(name, rng)
    a, b = INITIAL, INITIAL + POOL
    return {"start": (H[:a], y[:a]), "pool": (H[a:b], y[a:b]), "test": (H[b:], y[b:])}


def score(log_p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy and mean log-likelihood."""
    return float(np.mean(log_p.argmax(axis=1) == y)), float(log_p[np.arange(len(y)), y].mean())


def matching(method: str, criterion: str, data: Split, seed: int) -> Run:
    state = MatchingState(
        [0, 1], WIDTH, method=method, link="logit", prior_precision=PRIOR_PRECISION
    )
    state.update(*data["start"])
    X, y = data["test"]

    def evaluate(current: MatchingState) -> tuple[float, float] | None:
        if (current.n_seen - INITIAL) % EVERY:
            return None
        return score(log_expected_probabilities(*current.predict_latents(X)), y)

    run = active_learning(state, *data["pool"], STEPS, criterion, seed, evaluate)
    return np.array([e for e in run.evaluations if e is not None]), run.cpu_seconds


def exact_refit(data: Split) -> Run:
    """Entropy of the maximum a posteriori prediction, refitted from scratch at each step."""
    (X, y), (pool_x, pool_y), test = data["start"], data["pool"], data["test"]
    available, scores, seconds = np.ones(len(pool_y), dtype=bool), [], 0.0
    for step in range(STEPS + 1):
        begin = time.process_time()
        model = LogisticRegression(C=1 / PRIOR_PRECISION, max_iter=2000).fit(X, y)
        entropy = entr(model.predict_proba(pool_x)).sum(axis=1)
        chosen = int(np.argmax(np.where(available, entropy, -1)))
        seconds += time.process_time() - begin
        if step % EVERY == 0:
            scores.append(score(model.predict_log_proba(test[0]), test[1]))
        available[chosen] = False
        X, y = np.vstack([X, pool_x[chosen]]), np.append(y, pool_y[chosen])
    return np.array(scores), seconds


def strategies() -> dict[str, Callable[[Split, int], Run]]:
    """Name -> run; matching by every method and entropy, and variational by all criteria."""

    def one(method: str, criterion: str) -> Callable[[Split, int], Run]:
        return lambda data, seed: matching(method, criterion, data, seed)

    table = {f"{method} entropy": one(method, "entropy") for method in METHODS}
    table["variational bald"] = one("variational", "bald")
    table["variational random"] = one("variational", "random")
    table["exact refit entropy"] = lambda data, seed: exact_refit(data)
    return table


def labels_needed(curves: np.ndarray, level: float) -> list[int | None]:
    """First number of labels with that accuracy, for each seed; None if never reached."""
    reached = curves >= level
    return [int(np.argmax(r)) * EVERY + INITIAL if r.any() else None for r in reached]


def median_needed(needed: list[int | None]) -> float | None:
    """Median over the seeds, None if half of them never reached the level."""
    values = np.array([np.inf if n is None else n for n in needed])
    median = float(np.median(values))
    return median if np.isfinite(median) else None


def summarise(runs: list[Run]) -> dict[str, Any]:
    """Means over the seeds at every tenth label, labels needed, speed."""
    table = np.stack([scores for scores, _ in runs])
    seconds = np.array([s for _, s in runs])
    n = np.sqrt(len(runs))
    return {
        "labels": [INITIAL + i for i in range(0, STEPS + 1, EVERY)],
        "accuracy": table[:, :, 0].mean(axis=0).round(4).tolist(),
        "accuracy_se": (table[:, :, 0].std(axis=0) / n).round(4).tolist(),
        "log_likelihood": table[:, :, 1].mean(axis=0).round(4).tolist(),
        "log_likelihood_se": (table[:, :, 1].std(axis=0) / n).round(4).tolist(),
        "median_labels_for_accuracy": {
            str(level): median_needed(labels_needed(table[:, :, 0], level)) for level in LEVELS
        },
        "steps_per_cpu_second": round(STEPS / float(np.median(seconds)), 1),
    }


def figure(results: dict[str, Any], path: Path) -> None:
    """Accuracy (top) and log-likelihood (bottom) against labels, one column a data set."""
    fig, axes = plt.subplots(2, len(results), figsize=(5 * len(results), 6.4), squeeze=False)
    for column, (name, methods) in zip(axes.T, results.items(), strict=True):
        for method, r in methods.items():
            style = {"linestyle": "-" if method.endswith("entropy") else "--", "label": method}
            column[0].plot(r["labels"], r["accuracy"], **style)
            column[1].plot(r["labels"], r["log_likelihood"], **style)
        column[0].set(title=name, ylabel="test accuracy")
        column[1].set(xlabel="labels", ylabel="test log-likelihood / nat")
    axes[0, 0].legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main() -> None:
    """Run, print the ends, write JSON and figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--sets", nargs="+", default=["mnist5k", "letter"])
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    results: dict[str, Any] = {}
    for name in arguments.sets:
        if name == "letter" and not matching_data.LETTER.exists():
            logging.info("letter left out: no %s", matching_data.LETTER)
            continue
        splits = [task(name, np.random.default_rng(s)) for s in range(arguments.seeds)]
        results[name] = {}
        for method, run in strategies().items():
            r = summarise([run(data, seed) for seed, data in enumerate(splits)])
            results[name][method] = r
            line = (
                name,
                method,
                r["accuracy"][-1],
                r["log_likelihood"][-1],
                r["steps_per_cpu_second"],
            )
            logging.info("%-8s %-20s accuracy %.4f  log-lik %8.4f  %7.1f steps/cpu-s", *line)
    record.write(arguments.results / "active_learning.json", results, "mlxtend")
    figure(results, arguments.results / "active_learning.png")


if __name__ == "__main__":
    main()
