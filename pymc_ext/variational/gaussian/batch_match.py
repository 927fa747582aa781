r"""A robust Gaussian from scores alone: paths, batch and match in a trust region, ELBO finish."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.variational.core.course import Candidate, Course, in_doubling_blocks
from pymc_ext.variational.gaussian.matching_stage import Matching
from pymc_ext.variational.gaussian.natural_gradient import NaturalGradient
from pymc_ext.variational.gaussian.pathfinder import Path
from pymc_ext.variational.gaussian.paths import follow_paths
from pymc_ext.variational.gaussian.posteriors import Gaussian

Array = NDArray[np.floating]
PATHS = 4
FIRST_BLOCK = 10
NO_PATH_SD = 0.1


@dataclass(frozen=True)
class Found:
    best: Candidate[Gaussian]
    paths: list[Path]
    gain: float
    error: float


def find_gaussian(density: CountedDensity, start: Array, rng: np.random.Generator, course: Course[Gaussian], paths=PATHS) -> Found:
    found = follow_paths(density, start, rng, paths)
    if found:
        best = max(found, key=lambda path: path.elbo).q
        q = Gaussian(best.mean, np.linalg.cholesky(best.cov))
    else:
        q = Gaussian(start, NO_PATH_SD * np.eye(len(start)))
    q = Matching(density, q, rng).run(course)
    candidate = course.offer(q)
    end = in_doubling_blocks(NaturalGradient(density, q, rng), course, candidate, FIRST_BLOCK)
    return Found(end.best, found, end.gain, end.error)
