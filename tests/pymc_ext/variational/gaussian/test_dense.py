"""Methods that hold D × D numbers refuse a dimension where these do not fit, and say what does."""

import numpy as np
import pytest

from pymc_ext.density import CallableDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.mixed import Diagonal
from pymc_ext.variational.gaussian.mixture import Mixture
from pymc_ext.variational.gaussian.pathfinder import Pathfinder

MANY = CallableDensity(
    lambda theta: -0.5 * (theta**2).sum(axis=1), lambda theta: -theta, dimension=15_000
)


@pytest.mark.parametrize("algorithm", [Laplace(), Diagonal(), Mixture(), Bernstein()])
def test_dense_methods_say_what_they_would_take(algorithm) -> None:
    words = r"15,000 × 15,000 numbers, 1.8 GB each: use batch-match .* or hierarchical"
    with pytest.raises(ValueError, match=words):
        algorithm.fit(MANY, random_seed=1)


def test_others_do_not_mind() -> None:
    assert np.isfinite(Pathfinder(paths=1).fit(MANY, random_seed=1).result.elbo)
