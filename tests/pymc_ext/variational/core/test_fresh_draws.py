"""Fresh draws: those that are kept are those that would be made again."""

import numpy as np
import pytest

from pymc_ext.density import CallableDensity
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.posterior import drawn_again, draws_of, fresh_draws
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian


class Counted(DiagonalGaussian):
    """How many draws it has made."""

    made = 0

    def forward(self, z: Array) -> tuple[Array, Array]:
        type(self).made += len(z)
        return super().forward(z)


@pytest.mark.parametrize(("dimension", "kept"), [(2, True), (600, False)])
def test_draws_are_kept_where_they_are_few_numbers(dimension: int, kept: bool) -> None:
    density = CallableDensity(lambda x: -(x**2).sum(axis=1), lambda x: -2 * x, dimension=dimension)
    q = Counted(np.ones(dimension), np.full(dimension, 0.5))
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    assert (fresh.drawn is not None) == kept
    before = q.made
    theta, log_q = (np.concatenate(x) for x in zip(*drawn_again(q, fresh), strict=True))
    assert q.made - before == (0 if kept else fresh.draws)
    made = draws_of(q, np.random.default_rng(1), fresh.draws)
    again, its_log_q = (np.concatenate(x) for x in zip(*made, strict=True))
    np.testing.assert_array_equal(theta, again)
    np.testing.assert_array_equal(log_q, its_log_q)
    assert fresh.log_ratios is not None
    np.testing.assert_array_equal(density.log_density(theta) - log_q, fresh.log_ratios)
