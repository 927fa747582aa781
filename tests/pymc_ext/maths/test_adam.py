"""Adam's one statement: the textbook's steps on arrays, and those of the kernel of flows."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_ext.maths.adam import ADAM, RMSPROP, adam_step, corrected
from pymc_ext.maths.flow_kernels import adam
from tests.tolerances import EXACT

GRADIENTS = np.random.default_rng(1).normal(size=(30, 4))


@pytest.mark.parametrize("adaptive", [True, False])
def test_kernel_and_arrays_take_the_same_steps(adaptive: bool) -> None:
    x, mean, first, second = np.zeros((4, 4))
    state, own, moments = np.zeros(2), np.zeros(4), (np.zeros(4), np.zeros(4))
    for t, g in enumerate(GRADIENTS, start=1):
        adam(x, mean, first, second, g.copy(), np.ones(4), 0.01, 1.0, state, adaptive, 1e9)
        decay = ADAM if adaptive else RMSPROP
        rates = corrected(0.01, t, *decay) if adaptive else (0.01, 1.0)
        *moments, step = adam_step(g, *moments, *rates, *decay)
        own -= step
    np.testing.assert_allclose(x, own, rtol=EXACT)


def test_algorithm_1_of_kingma_and_ba() -> None:
    moments = (np.zeros(4), np.zeros(4))
    for t, g in enumerate(GRADIENTS, start=1):
        *moments, step = adam_step(g, *moments, *corrected(0.01, t, *ADAM), *ADAM)
        weights = 0.1 * 0.9 ** np.arange(t)[::-1], 0.001 * 0.999 ** np.arange(t)[::-1]
        m, v = weights[0] @ GRADIENTS[:t], weights[1] @ GRADIENTS[:t] ** 2
        m, v = m / weights[0].sum(), v / weights[1].sum()  # geometric sums, 1 − bᵗ
        np.testing.assert_allclose(step, 0.01 * m / (np.sqrt(v) + 1e-8), rtol=EXACT)
