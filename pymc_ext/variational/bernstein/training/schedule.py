"""When a training phase ends: at full rate until the ELBO is level, then a cosine decay.

That is the way from afar; from a fitted base see :mod:`.depth`.
"""

from __future__ import annotations

import numpy as np

from pymc_ext.maths.types import Array

# All are choices. On eight schools, not centred, 4,000 and 10,000 steps from the identity, half and
# twice each (STEADY .35 and .85) move the ELBO by .0006 nats at most, STEADY .35 by .003. What
# tells when it is level decides nothing there, as it gains .002 from the one to the other
# (`python -m benchmarks.papers.flow_schedule`).
WARM_UP = 100  # steps over which the learning rate rises
MOST_CHECKS = 20  # ELBO checks in the longest possible first phase
FEWEST = 500  # steps between two ELBO checks, at least
PATIENCE = 4  # checks without a gain after which the ELBO counts as level
STEADY = 0.7  # largest share of the steps at full learning rate, if the ELBO does not level off
DECAY = 3 / 7  # length of the decay relative to that of the first phase
FINAL_RATE = 0.01  # learning rate at the end, relative
GRAIN = 25  # steps of one rate within a block: the decay of the shortest has five
WINDOW = 2000  # longest memory of the averaged iterate, in steps


def average_weight(steps: int) -> float:
    """Weight of a new iterate in an average that started ``steps`` steps ago."""
    return 1 / min(steps + 1, WINDOW)


def cosine(share: float) -> float:
    """Learning rate, relative, after ``share`` of the decay."""
    return float(FINAL_RATE + (1 - FINAL_RATE) * 0.5 * (1 + np.cos(np.pi * min(share, 1.0))))


class Plateau:
    """Tells when a rising sequence of noisy means has levelled off.

    Each estimate is an array of the same length, the mean of which counts; entry i of two estimates
    may share its randomness, which makes their difference more exact.
    """

    def __init__(self, patience: int = PATIENCE) -> None:
        self.patience = patience
        self.estimates: list[Array] = []

    def add(self, values: Array) -> bool:
        """Record one estimate; True once the last ``patience`` ones bring no significant gain."""
        self.estimates.append(np.asarray(values, dtype=float))
        if len(self.estimates) <= self.patience or not np.isfinite(values).all():
            return False
        old, new = self.estimates[: -self.patience], self.estimates[-self.patience :]
        gain = np.mean(new, axis=0) - max(old, key=np.mean)
        if not np.isfinite(gain).all():
            return False
        return bool(np.mean(gain) < np.std(gain) / np.sqrt(len(gain)))
