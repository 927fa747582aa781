"""Several Pathfinder paths, from the start and from dispersed points."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.gaussian.pathfinder import Path, PathSettings, follow_path

Array = NDArray[np.floating]
DISPERSION = 2.0  # dispersed starts are uniform within ±2, as Stan's are
MOST_TRIES = 30  # starts of which some may have no density


def follow_paths(
    density: CountedDensity,
    start: Array,
    rng: np.random.Generator,
    paths: int,
    settings: PathSettings = PathSettings(),  # noqa: B008  # frozen
) -> list[Path]:
    """Up to ``paths`` paths that found a Gaussian, the one from ``start`` (D,) first."""
    found: list[Path] = []
    for attempt in range(max(MOST_TRIES, paths)):
        dispersed = rng.uniform(-DISPERSION, DISPERSION, density.dimension)
        path = follow_path(density, dispersed if attempt else start, rng, settings)
        found += [] if path is None else [path]
        if len(found) == paths:
            break
    return found
