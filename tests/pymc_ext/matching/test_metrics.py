"""Calibration error by hand, and for a model that is calibrated by construction."""

import numpy as np
import pytest

from pymc_ext.matching import calibration_bins, expected_calibration_error


def test_by_hand():
    p = [[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.45, 0.55]]
    confidence, accuracy, share = calibration_bins(p, [0, 1, 1, 1], n_bins=2)
    assert np.isnan(confidence[0]) and share[0] == 0
    assert (confidence[1], accuracy[1], share[1]) == (pytest.approx(0.7125), 0.75, 1)
    assert expected_calibration_error(p, [0, 1, 1, 1], 2) == pytest.approx(0.0375)
    assert expected_calibration_error([[1.0, 0.0]], [1]) == 1


def test_calibrated_predictions_have_a_small_error():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), size=40_000)
    y = (p.cumsum(axis=1) < rng.random((40_000, 1))).sum(axis=1)
    # |mean of a bin's noise| is at most sqrt(share/4n) on average; 15 bins
    assert expected_calibration_error(p, y) < np.sqrt(15 / (4 * 40_000)) * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.6]], [0]), "sum to 1"),
        (([[np.nan, 1]], [0]), "sum to 1"),
        (([[0.5, 0.5]], [2]), "whole numbers"),
        (([[0.5, 0.5]], [0, 1]), "must hold 1 labels, got 2"),
        (([[0.5, 0.5]], [0], 0), "n_bins must be >= 1"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(*arguments)
