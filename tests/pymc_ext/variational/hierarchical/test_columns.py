"""Hessians from few differences: all entries, in as many differences as their pattern needs."""

import numpy as np
import pytest

from pymc_ext.variational.hierarchical.columns import (
    each_column,
    few_columns,
    hessian_from,
    not_zero,
    steps_of,
)


def blocks(groups: int, shared: int) -> np.ndarray:
    """Pairs beside pairs, and what all share."""
    size = 2 * groups + shared
    pattern = np.kron(np.eye(groups + shared), np.ones((2, 2)))[:size, :size]
    pattern[:, 2 * groups :] = pattern[2 * groups :] = 1
    return pattern


def arrow(locals_: int, shared: int) -> np.ndarray:
    pattern = np.eye(locals_ + shared)
    pattern[locals_:] = pattern[:, locals_:] = 1
    return pattern


def chain(size: int) -> np.ndarray:
    return np.eye(size) + np.eye(size, k=1) + np.eye(size, k=-1)


PATTERNS = {
    "pairs": (blocks(7, 0), 2),
    "pairs and two that all share": (blocks(7, 2), 4),
    "two hundred pairs": (blocks(200, 2), 4),
    "thirty items that forty persons answer": (arrow(40, 30), 31),
    "chain": (chain(9), 3),
    "full": (np.ones((5, 5)), 5),
    "diagonal": (np.eye(6), 1),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_all_entries_are_told_by_few_differences(name) -> None:
    pattern, fewest = PATTERNS[name]
    rng, size = np.random.default_rng(1), len(pattern)
    H = rng.normal(size=(size, size)) * pattern
    H = H + H.T + 10 * np.eye(size)
    H[:, 0] *= 1e6  # scales differ
    H[0] *= 1e6
    columns = few_columns(not_zero(H[None]))
    assert len(columns) == fewest
    h = rng.uniform(0.5, 2, size)
    made = hessian_from(columns, steps_of(columns, h) @ H, h)
    np.testing.assert_allclose(made, H, rtol=1e-12)


def test_an_entry_of_one_of_several_matrices_is_kept() -> None:
    first, second = np.eye(3), np.eye(3)
    second[0, 2] = second[2, 0] = 0.5
    assert len(few_columns(not_zero(first[None]))) == 1
    assert len(few_columns(not_zero(np.array([first, second])))) == 2


def test_one_difference_a_column_takes_the_mean_of_both_sides() -> None:
    columns, h = each_column(2), np.ones(2)
    made = hessian_from(columns, np.array([[1.0, 3.0], [5.0, 2.0]]), h)
    np.testing.assert_allclose(made, [[1.0, 4.0], [4.0, 2.0]])
