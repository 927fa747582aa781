"""Values between the places of a grid: by weights along each axis, and by differences."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.maths.cubics import cubic_weights
from pymc_ext.maths.grid import Grid

COUNTS = (5, 2, 4, 3)


def whole(g: int) -> Grid:
    """All places of a box, unevenly spaced."""
    rng = np.random.default_rng(1)
    counts = np.array(COUNTS[:g])
    places = [np.cumsum(rng.uniform(0.3, 1.2, count)) for count in counts]
    return Grid(np.concatenate(places), counts, np.argwhere(np.ones(counts)))


@pytest.mark.parametrize("g", [1, 2, 3, 4])
def test_values_are_of_cubics_along_each_axis(g: int) -> None:
    grid, rng = whole(g), np.random.default_rng(2)
    values, y = rng.standard_normal((grid.terms, 3)), rng.uniform(-2, 6, (40, g))
    expected = np.broadcast_to(values.reshape(*grid.counts, 3), (40, *grid.counts, 3))
    for k in range(g):
        at, weights, _ = cubic_weights(grid.axes[k], y[:, k])
        along = np.zeros((40, grid.counts[k]))
        np.add.at(along, (np.arange(40)[:, None], at), weights)
        expected = np.einsum("ni,ni...->n...", along, expected)
    np.testing.assert_allclose(grid.between(values, y), expected, atol=1e-12)


@pytest.mark.parametrize("g", [1, 2, 3, 4])
def test_off_the_known_places_it_has_those_of_the_next(g: int) -> None:
    box = whole(g)
    grid = Grid(box.places, box.counts, box.nodes[:-1])  # the last corner is not known
    corner = box.values[-1:]
    next_to_it = grid.values[np.argmin(np.abs(grid.nodes - box.nodes[-1]).sum(axis=1))]
    of_next = grid.between(grid.values, corner)[0]
    assert (np.abs(box.nodes[-1] - grid.nodes).sum(axis=1).min()) == 1
    assert np.sum(of_next != corner[0]) == 1 and np.sum(next_to_it != corner[0]) == 1


@pytest.mark.parametrize("g", [1, 2, 3, 4])
def test_its_derivatives_by_differences(g: int) -> None:
    grid, rng, h = whole(g), np.random.default_rng(3), 1e-6
    values, y = rng.standard_normal((grid.terms, 2, 3)), rng.uniform(-2, 6, (40, g))
    by = rng.standard_normal((40, 2, 3))
    found = grid.at(y).pulled_back(values, by)
    for k, step in enumerate(h * np.eye(g)):
        change = grid.between(values, y + step) - grid.between(values, y - step)
        numeric = np.einsum("nij,nij->n", by, change) / (2 * h)
        np.testing.assert_allclose(found[:, k], numeric, atol=1e-6)
