"""Data that the models share."""

from __future__ import annotations

import numpy as np

ROWS, GROUPS = 80, 8


def generator() -> np.random.Generator:
    """The same random numbers for every model."""
    return np.random.default_rng(1)


def x_and_group() -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """A predictor and the group of each row, (ROWS,) both."""
    rng = generator()
    return rng.normal(size=ROWS), np.arange(ROWS) % GROUPS, rng
