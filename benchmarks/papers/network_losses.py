"""Small networks trained by cross-entropy and by matched weighted squared losses.

    python -m benchmarks.papers.network_losses [--seeds 3] [--results FOLDER]

Bui, "Likelihood approximations via Gaussian approximate inference", section 4.1 and table 4:
accuracy, negative log-likelihood, expected calibration error, and AUC of telling test data from
out-of-distribution data by the largest predictive probability. The paper's CIFAR-10 networks are
replaced by one hidden layer in PyTensor on digits and MNIST-5k; out of distribution are printed
capital letters (matplotlib's DejaVu fonts, jittered), so font style differs as well as content.
α of each matching is chosen from `ALPHAS` by the train log-likelihood, as in the paper; all rows
are in the JSON. Needs scikit-learn, mlxtend and Pillow.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from PIL import Image, ImageDraw, ImageFont
from pytensor.compile.mode import Mode
from scipy.special import log_softmax
from sklearn.metrics import roc_auc_score

from benchmarks import record
from benchmarks.papers import matching_data
from pymc_ext.matching import (
    METHODS,
    calibration_bins,
    expected_calibration_error,
    matched_targets,
)

ALPHAS = (0.01, 0.05, 0.1)
HIDDEN, BATCH, RATE, WEIGHT_DECAY = 128, 64, 2e-3, 1e-4
SETS = {"digits": (1200, 60), "mnist5k": (4000, 15)}  # training rows, epochs
FONTS = Path(matplotlib.get_data_path()) / "fonts" / "ttf"

Loss = Callable[[Any, Any, Any], Any]


def letters(side: int, rng: np.random.Generator) -> np.ndarray:
    """Printed capitals, white on black in [0, 1], (1248, side²)."""
    fonts = [f for f in sorted(FONTS.glob("DejaVu*.ttf")) if "Display" not in f.name]
    images = []
    for path in fonts:
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
            for _ in range(1248 // (26 * len(fonts))):
                image = Image.new("L", (64, 64))
                font = ImageFont.truetype(str(path), int(rng.integers(38, 50)))
                centre = tuple(32 + rng.integers(-3, 4, size=2))
                ImageDraw.Draw(image).text(centre, letter, 255, font=font, anchor="mm")
                image = image.rotate(float(rng.uniform(-15, 15)))
                images.append(np.asarray(image.resize((side, side), Image.Resampling.BOX)) / 255)
    return np.array(images).reshape(len(images), -1)


class Network:
    """One hidden ReLU layer, trained by Adam on mean per-row loss(f, first, second)."""

    def __init__(self, n_inputs: int, n_classes: int, loss: Loss) -> None:
        self.shapes = [(n_inputs, HIDDEN), (HIDDEN,), (HIDDEN, n_classes), (n_classes,)]
        self.parameters = [pytensor.shared(np.zeros(s)) for s in self.shapes]
        x, first, second = pt.dmatrices("x", "first", "second")
        W, a, V, b = self.parameters
        f = pt.maximum(x @ W + a, 0) @ V + b
        decay = WEIGHT_DECAY / 2 * ((W**2).sum() + (V**2).sum())
        updates = pm.adam(loss(f, first, second).mean() + decay, self.parameters, RATE)
        self.accumulators = [v for v in updates if v not in self.parameters]
        mode = Mode(linker="py", optimizer="fast_compile")  # NumPy's BLAS; PyTensor may have none
        inputs = [x, first, second]
        self.step = pytensor.function(inputs, updates=updates, mode=mode, on_unused_input="ignore")
        self.logits = pytensor.function([x], f, mode=mode)

    def train(self, X: np.ndarray, targets: Any, epochs: int, seed: int) -> None:
        """Start anew from He's initial weights and run the epochs."""
        rng = np.random.default_rng(seed)
        for p, s in zip(self.parameters, self.shapes, strict=True):
            matrix = len(s) == 2
            p.set_value(rng.normal(size=s) * np.sqrt(2 / s[0]) if matrix else np.zeros(s))
        for v in self.accumulators:
            v.set_value(np.zeros_like(v.get_value()))
        for _ in range(epochs):
            order = rng.permutation(len(X))
            for rows in np.array_split(order, len(X) // BATCH):
                self.step(X[rows], *(t[rows] for t in targets))


def cross_entropy(f: Any, one_hot: Any, _: Any) -> Any:
    return -(one_hot * pt.special.log_softmax(f, axis=1)).sum(axis=1)


def weighted_square(f: Any, m: Any, v: Any) -> Any:
    return ((f - m) ** 2 / (2 * v)).sum(axis=1)


def evaluate(logits: np.ndarray, y: np.ndarray, outside: np.ndarray) -> dict[str, Any]:
    """Accuracy, NLL, ECE, AUC and the calibration curve."""
    log_p = log_softmax(logits, axis=1)
    p = np.exp(log_p)
    top = np.r_[p.max(axis=1), np.exp(log_softmax(outside, axis=1)).max(axis=1)]
    inside = np.r_[np.ones(len(p)), np.zeros(len(outside))]
    return {
        "accuracy": float(np.mean(p.argmax(axis=1) == y)),
        "nll": float(-log_p[np.arange(len(y)), y].mean()),
        "ece": expected_calibration_error(p, y),
        "ood_auc": float(roc_auc_score(inside, top)),
        "bins": [np.nan_to_num(b, nan=-1.0).round(4).tolist() for b in calibration_bins(p, y)],
    }


def loss_targets(K: int, y: np.ndarray) -> dict[str, tuple[str, Any]]:
    """Row name -> (kind of loss, targets of the training labels)."""
    one_hot = np.eye(K)[y]
    table: dict[str, tuple[str, Any]] = {
        "cross-entropy": ("cross-entropy", (one_hot, one_hot)),
        "gauss": ("square", (one_hot, np.ones_like(one_hot))),
    }
    for method in METHODS:
        for alpha in ALPHAS:
            table[f"{method} {alpha}"] = ("square", matched_targets(y, K, alpha, method))
    return table


def one_seed(name: str, networks: dict[str, Network], seed: int) -> dict[str, dict[str, Any]]:
    """Every loss on one random split; ``train_nll`` chooses α."""
    rows, epochs = SETS[name]
    rng = np.random.default_rng(seed)
    X, y = getattr(matching_data, name)()
    order = rng.permutation(len(y))
    X, y = X[order], y[order]
    outside = letters(int(np.sqrt(X.shape[1])), rng)
    out = {}
    for row, (kind, targets) in loss_targets(10, y[:rows]).items():
        network = networks[kind]
        network.train(X[:rows], targets, epochs, seed)
        logits = network.logits(X)
        out[row] = evaluate(logits[rows:], y[rows:], network.logits(outside))
        train = log_softmax(logits[:rows], axis=1)
        out[row]["train_nll"] = float(-train[np.arange(rows), y[:rows]].mean())
    return out


def chosen_rows(seeds: list[dict[str, dict[str, Any]]]) -> dict[str, list[str]]:
    """Method -> row of each seed: the α of the smallest train NLL."""
    table = {"cross-entropy": ["cross-entropy"] * len(seeds), "gauss": ["gauss"] * len(seeds)}
    for method in METHODS:
        names = [f"{method} {alpha}" for alpha in ALPHAS]
        table[method] = [min(names, key=lambda r, s=s: s[r]["train_nll"]) for s in seeds]
    return table


def summarise(seeds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    """Means and standard errors of every row, and of the chosen ones."""
    metrics = ("accuracy", "nll", "ece", "ood_auc", "train_nll")

    def summary(rows: list[str]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for metric in metrics:
            values = np.array([s[r][metric] for s, r in zip(seeds, rows, strict=True)])
            se = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            out[metric] = [round(float(values.mean()), 4), round(float(se), 4)]
        return out

    chosen = chosen_rows(seeds)
    return {
        "chosen": {
            method: summary(rows) | {"rows": rows, "bins": seeds[0][rows[0]]["bins"]}
            for method, rows in chosen.items()
        },
        "all": {row: summary([row] * len(seeds)) for row in seeds[0]},
    }


def figure(results: dict[str, Any], path: Path) -> None:
    """Calibration of the first seed: accuracy minus confidence against confidence."""
    fig, axes = plt.subplots(1, len(results), figsize=(5.2 * len(results), 4), squeeze=False)
    for axis, (name, r) in zip(axes[0], results.items(), strict=True):
        axis.axhline(0, color="black", linewidth=0.8)
        for method, row in r["chosen"].items():
            confidence, accuracy, share = map(np.array, row["bins"])
            keep = share > 0.01
            gap = accuracy[keep] - confidence[keep]
            label = f"{method} (ECE {row['ece'][0]:.3f})"
            axis.plot(confidence[keep], gap, marker="o", markersize=3, label=label)
        axis.set(title=name, xlabel="confidence", ylabel="accuracy − confidence", ylim=(-0.6, 0.8))
        axis.legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(path, dpi=110)
    plt.close(fig)


def main() -> None:
    """Run, print the chosen rows, write JSON and figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    warnings.simplefilter("error")
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    results = {}
    for name in arguments.sets:
        n_inputs = getattr(matching_data, name)()[0].shape[1]
        networks = {
            "cross-entropy": Network(n_inputs, 10, cross_entropy),
            "square": Network(n_inputs, 10, weighted_square),
        }
        results[name] = summarise([one_seed(name, networks, s) for s in range(arguments.seeds)])
        for method, r in results[name]["chosen"].items():
            values = [r[m][0] for m in ("accuracy", "nll", "ece", "ood_auc")]
            line = "%-8s %-14s accuracy %.4f  NLL %.4f  ECE %.4f  OOD AUC %.4f  %s"
            logging.info(line, name, method, *values, sorted(set(r["rows"])))
    record.write(arguments.results / "network_losses.json", results, "mlxtend", "pillow")
    figure(results, arguments.results / "network_losses.png")


if __name__ == "__main__":
    main()
