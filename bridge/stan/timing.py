"""How long a gradient of a Stan program takes."""

from __future__ import annotations

import timeit
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pymc as pm

    from stan_models import StanDensity

__all__ = ["gradient_seconds"]


def gradient_seconds(density: StanDensity, model: pm.Model) -> float:
    """Time of a gradient at the model's initial point, the least of five batches of ten."""
    (start,) = model.initial_point().values()
    batch = np.tile(start, (10, 1))
    times = timeit.repeat(lambda: density.log_density_gradient(batch), number=1, repeat=5)
    return min(times) / len(batch)
