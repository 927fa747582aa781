"""Steps back where the ELBO fell: when, to where, and how fast after them."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.variational.gaussian.retreat import Retreat

NOISE = np.random.default_rng(1).standard_normal(100)


def test_steps_go_back_to_the_best_at_half_the_rate_and_gain_it_again() -> None:
    retreat = Retreat("start")
    assert not retreat.fell("first", NOISE - 10)
    assert not retreat.fell("better", NOISE)
    assert retreat.fell("worse", NOISE - 10)
    assert retreat.best == "better" and retreat.damping == 1
    assert not retreat.fell("better", NOISE)
    assert retreat.damping == 0.5
    for _ in range(5):
        assert not retreat.fell("better", NOISE)
    assert retreat.damping == 1


def test_noise_is_no_fall() -> None:
    retreat = Retreat("start")
    retreat.fell("first", NOISE)
    assert not retreat.fell("second", NOISE - 0.4)  # of errors of 0.09 each


@pytest.mark.parametrize("far", [-1e3, -1e43])
def test_one_draw_far_out_neither_makes_a_fall_nor_hides_one(far) -> None:
    single = NOISE.copy()
    single[0] = far
    retreat = Retreat("start")
    retreat.fell("first", NOISE)
    assert not retreat.fell("second", single)
    assert retreat.fell("third", single - 10)


def test_a_lucky_batch_does_not_hold_for_ever() -> None:
    retreat = Retreat("start")
    retreat.fell("lucky", NOISE + 1)
    backs = 0
    while retreat.fell("lucky", NOISE):
        backs += 1
        assert backs < 20
    assert backs > 0
