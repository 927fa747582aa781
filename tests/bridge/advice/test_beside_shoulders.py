"""Mass in no basin of its own: named before a fit is trusted, and chains start there."""

from __future__ import annotations

import numpy as np

import bridge
from tests.needed import needs
from tests.pymc_ext.variational.missed.test_shoulders import ridge


def test_chains_start_on_a_shoulder_and_adapt_by_themselves():
    needs("nutpie")
    advice = bridge.fit(ridge(3), random_seed=2, progressbar=False)
    assert advice.method == "warm-nuts"
    assert "a shoulder at theta[0]" in advice.reasons
    assert not any(attempt.method == "basins" for attempt in advice.attempts)  # there is no mode
    chains = advice.attempts[-1].verdict
    assert "with its own adaptation" in chains and "chains were started there too" in chains
    # two chains more than the four of random starts: one in q's middle, one on the shoulder
    assert "6 chains" in chains
    draws = np.asarray(advice.idata["posterior"]["theta"]).reshape(-1, 3)
    # .0133 by the formula, known to a third: three of its errors are more than that
    assert 0 < (draws[:, 0] > 4).mean() < 2 * 0.0133
