"""The standard normal law, for NumPy arrays and symbolic tensors alike."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from pymc_ext.maths.types import Array

LOG_2PI = float(np.log(2 * np.pi))
Rows = TypeVar("Rows")


def standard_normal_logp(z: Rows) -> Rows:
    """log N(z; 0, I) of each row, (N, K) -> (N,)."""
    rows: Array = z  # type: ignore[assignment]  # or a PyTensor matrix, which computes alike
    return -0.5 * (rows**2).sum(-1) - 0.5 * LOG_2PI * rows.shape[-1]
