"""Quantiles of a law on cells as a map of normals: exact cases, tails, its inverse and pullback."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pymc_ext.maths.quantiles import KNOTS, Quantiles, Triangular

EDGES = np.linspace(-9, 9, 541)
NORMAL = Quantiles.of((), EDGES, np.diff(stats.norm.cdf(EDGES)))


def test_of_cells_of_a_normal_it_is_the_identity() -> None:
    """Given an earlier coordinate, whose mean the second one has."""
    middles = np.linspace(-2, 2, 9)
    mass = np.diff(stats.norm.cdf(EDGES - middles[:, None]), axis=1)
    found = Triangular((NORMAL, Quantiles.of((middles,), EDGES, mass)))
    z = np.random.default_rng(1).standard_normal((500, 2))
    t, log_det = found.forward(z)
    expected = np.stack(
        [z[:, 0], z[:, 1] + np.clip(z[:, 0], -2, 2)], axis=1
    )  # beyond cells as there
    np.testing.assert_allclose(t, expected, atol=3e-3)  # of cells a thirtieth of an sd wide
    np.testing.assert_allclose(log_det, 0, atol=0.05)
    np.testing.assert_allclose(found.inverse(t), z, atol=1e-10)


def test_where_no_cell_has_mass_it_is_as_where_the_earlier_coordinate_is_next() -> None:
    edges, middles = np.linspace(-5, 5, 101), np.arange(4.0)
    mass = np.tile(np.diff(stats.norm.cdf(edges)), (4, 1))
    mass[3] = 0.0
    found = Triangular((NORMAL, Quantiles.of((middles,), edges, mass)))
    z = np.stack([np.full(9, 3.0), np.linspace(-2, 2, 9)], axis=1)
    np.testing.assert_allclose(found.forward(z)[0][:, 1], z[:, 1], atol=0.01)


def test_tails_go_on_in_a_straight_line() -> None:
    found = Triangular((Quantiles.of((), np.linspace(-1, 1, 3), np.array([0.5, 0.5])),))
    z = np.array([KNOTS[-1], KNOTS[-1] + 2, KNOTS[0], KNOTS[0] - 2])[:, None]
    t, log_slope = found.forward(z)
    np.testing.assert_allclose(t[1] - t[0], 2 * np.exp(log_slope[0]))
    np.testing.assert_allclose(t[3] - t[2], -2 * np.exp(log_slope[2]))
    np.testing.assert_allclose(found.inverse(t), z, atol=1e-8)


@pytest.mark.parametrize("G", [1, 2, 3, 4])
def test_its_log_det_and_pullback_by_differences(G: int) -> None:
    """Of masses that nothing orders, within the knots and beyond."""
    rng, h = np.random.default_rng(2), 1e-6
    edges = np.linspace(-2, 2, 6)
    lower = np.stack(np.meshgrid(*[edges[:-1]] * G, indexing="ij"), axis=-1).reshape(-1, G)
    found = Triangular.of(lower, lower + 0.8, rng.uniform(0.2, 1, len(lower)))
    z = np.concatenate([rng.standard_normal((20, G)), rng.uniform(-5, 5, (20, G))])
    a = rng.standard_normal(G)
    t, log_det, pullback = found.forward_with_pullback(z)

    def f(z: np.ndarray) -> np.ndarray:
        t, log_det = found.forward(z)
        return np.sin(t) @ a + log_det

    for k, pulled in enumerate(pullback(np.cos(t) * a).T):
        step = h * np.eye(G)[k]
        np.testing.assert_allclose(pulled, (f(z + step) - f(z - step)) / (2 * h), atol=1e-6)
    moved = (z[:, None] + h * np.eye(G), z[:, None] - h * np.eye(G))
    above, below = (found.forward(at.reshape(-1, G))[0].reshape(at.shape) for at in moved)
    np.testing.assert_allclose(np.linalg.slogdet((above - below) / (2 * h))[1], log_det, atol=1e-6)
