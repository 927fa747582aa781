"""Sparse factors of many matrices beside LAPACK's of each."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.variational.hierarchical.others import Others
from pymc_ext.variational.hierarchical.pattern import Pattern, least_fill

SIZE, MANY = 30, 7


def arrow() -> np.ndarray:
    """What all share comes first, which is the worst order."""
    pattern = np.eye(SIZE, dtype=bool)
    pattern[:3] = pattern[:, :3] = True
    return pattern


def walk() -> np.ndarray:
    """A cycle in a random order."""
    pattern, at = np.eye(SIZE, dtype=bool), np.random.default_rng(1).permutation(SIZE)
    pattern[at, np.roll(at, 1)] = pattern[np.roll(at, 1), at] = True
    return pattern


def crossed() -> np.ndarray:
    """Ten and twenty that are coupled with one another."""
    pattern = np.eye(SIZE, dtype=bool)
    pattern[:10, 10:] = pattern[10:, :10] = True
    return pattern


def full() -> np.ndarray:
    return np.ones((SIZE, SIZE), dtype=bool)


PATTERNS = {made.__name__: made for made in (arrow, walk, crossed, full)}
ENTRIES = {"arrow": 27 * 4 + 6, "walk": 28 * 3 + 3, "crossed": 20 * 11 + 55, "full": 465}


def made(name: str) -> tuple[Pattern, np.ndarray]:
    """A pattern in the order of least fill, and positive definite matrices (N, k, k) of it."""
    coupled = PATTERNS[name]()
    order = least_fill(coupled)
    coupled = coupled[np.ix_(order, order)]
    A = np.random.default_rng(2).standard_normal((MANY, SIZE, SIZE)) * coupled
    return Pattern.of(coupled), A + np.swapaxes(A, 1, 2) + 20 * np.eye(SIZE)


def entries(pattern: Pattern, matrices: np.ndarray) -> np.ndarray:
    return np.stack([pattern.entries(A) for A in matrices], axis=1)


@pytest.mark.parametrize("name", PATTERNS)
def test_the_factor_has_few_entries_and_is_lapacks(name) -> None:
    pattern, A = made(name)
    assert len(pattern.rows) == ENTRIES[name]
    root = pattern.root(entries(pattern, A))
    expected = np.linalg.cholesky(A)
    np.testing.assert_allclose(root, entries(pattern, expected), atol=1e-12)
    np.testing.assert_allclose(pattern.squared(root), entries(pattern, A), atol=1e-12)
    left_out = expected.copy()
    left_out[:, pattern.rows, pattern.columns] = 0
    assert not left_out.any()
    np.testing.assert_array_equal(pattern.dense(entries(pattern, A)[:, 0]), A[0])


@pytest.mark.parametrize("name", PATTERNS)
def test_products_and_solves_are_those_of_dense_matrices(name) -> None:
    pattern, A = made(name)
    root, dense = pattern.root(entries(pattern, A)), np.linalg.cholesky(A)
    v = np.random.default_rng(3).standard_normal((SIZE, MANY))
    np.testing.assert_allclose(pattern.times(root, v), np.einsum("nij,jn->in", dense, v))
    transposed = np.einsum("nji,jn->in", dense, v)
    np.testing.assert_allclose(pattern.transposed_times(root, v), transposed)
    np.testing.assert_allclose(pattern.solve(root, pattern.times(root, v)), v)
    np.testing.assert_allclose(pattern.transposed_solve(root, transposed), v)


@pytest.mark.parametrize("name", ["arrow", "full"])
def test_a_matrix_that_is_not_positive_definite_has_the_factor_of_another(name) -> None:
    """The others' factors are their own."""
    pattern, A = made(name)
    wrong = A.copy()
    wrong[2, 5, 5] = -1.0
    root = pattern.root(entries(pattern, wrong))
    assert np.isfinite(root).all() and np.all(root[pattern.diagonal] > 0)
    alone = np.delete(np.arange(MANY), 2)
    expected = entries(pattern, np.linalg.cholesky(A[alone]))
    np.testing.assert_allclose(root[:, alone], expected, atol=1e-12)


def test_what_is_held_leaves_the_rest_coupled_as_they_were() -> None:
    others = Others.ordered(np.arange(SIZE) + 100, arrow())
    assert {100, 101, 102} == set(others.shared(3)) < set(others.places[-4:])
    assert len(others.columns) == 4
    left = others.without([101, 110])
    assert len(left) == SIZE - 2 and not {101, 110} & set(left.places)
    assert len(left.columns) == 3 and set(left.shared(2)) == {100, 102}
