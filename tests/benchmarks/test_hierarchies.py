"""Hierarchies drawn by chance: the same for an index, judged by what is exact."""

from __future__ import annotations

import numpy as np

from benchmarks.speed.hierarchies import answered, effects, groups, rows, table


def test_a_set_is_the_same_for_its_index() -> None:
    one, again, other = groups(3), groups(3), groups(4)
    np.testing.assert_array_equal(one.y, again.y)
    assert one.prior == again.prior and len(one.y) == 10
    assert len(other.y) != len(one.y) or not np.allclose(other.y, one.y)
    np.testing.assert_array_equal(rows(2).mean, rows(3).mean)
    assert not np.allclose(rows(4).mean, rows(3).mean)
    np.testing.assert_array_equal(effects(2).seen, effects(3).seen)
    assert not np.array_equal(effects(4).seen, effects(3).seen)


def test_an_answer_is_beside_the_exact_posterior() -> None:
    row = answered("groups", 7)
    assert row["trusted"] is True and row["dimension"] == 5
    assert 0.9 < row["sd_of_log_tau"] < 1.1 and row["mean_error"] < 0.1
    assert "1 of 1 trusted" in table([row])
