"""Hierarchies drawn by chance: the same for an index, judged by what is exact."""

from __future__ import annotations

import numpy as np

from benchmarks.speed.hierarchies import answered, drawn, table


def test_a_set_is_the_same_for_its_index() -> None:
    one, again, other = drawn(3), drawn(3), drawn(4)
    np.testing.assert_array_equal(one.y, again.y)
    assert one.prior == again.prior and len(one.y) == 10
    assert len(other.y) != len(one.y) or not np.allclose(other.y, one.y)


def test_an_answer_is_beside_the_exact_posterior() -> None:
    row = answered(7)
    assert row["trusted"] is True and row["groups"] == 3
    assert 0.9 < row["sd_of_log_tau"] < 1.1 and row["mean_error"] < 0.1
    assert "1 of 1 trusted" in table([row])
