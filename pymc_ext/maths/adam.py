"""Adam (Kingma & Ba 2015), stated once: for arrays, in the kernels of flows, and in graphs.

numba's cache of :mod:`.flow_kernels` does not see a change of this file: touch that one too.
"""

from __future__ import annotations

from pymc_ext.maths.namespace import Elementwise

ADAM, RMSPROP = (0.9, 0.999), (0.0, 0.9)  # b1 and b2: of Kingma & Ba, of Hinton's lectures


def corrected(
    rate: Elementwise, steps: Elementwise, b1: float, b2: float
) -> tuple[Elementwise, Elementwise]:
    """Rate and growth that undo the bias of both moments after ``steps`` steps, this one too."""
    return rate / (1 - b1**steps), 1 / (1 - b2**steps)


def adam_step(
    g: Elementwise,
    first: Elementwise,
    second: Elementwise,
    rate: Elementwise,
    growth: Elementwise,
    b1: float,
    b2: float,
) -> tuple[Elementwise, Elementwise, Elementwise]:
    """Moments after the gradient ``g``, and the step along them; RMSprop is without growth."""
    second = b2 * second + (1 - b2) * g * g
    first = b1 * first + (1 - b1) * g
    return first, second, rate * first / ((growth * second) ** 0.5 + 1e-8)
