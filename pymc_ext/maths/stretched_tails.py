r"""A monotone map of R that leaves the middle as it is and moves the tails outwards.

.. math:: s(v) = v + \operatorname{sign}(v)\, a \Big(\frac{t}{1 + t}\Big)^2, \quad
    t = (|v| - 1.5)_+, \quad a \ge 0,

with an a for each side. Its slope is continuous and at most 1 + 8a/27, and s(v) - v stays below a:
draws far out hardly go farther, which keeps E log p finite under steep targets. ``xp`` is
``NUMPY``, or ``pytensor.tensor`` for graphs.
"""

from __future__ import annotations

from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace

START = 1.5  # a choice; of a normal latent 13 % lies beyond
NEWTON_STEPS = 12  # twice as many as come to rounding for a <= 10


def excess(t: Elementwise, a: Elementwise) -> Elementwise:
    """t + a (t / (1 + t))², t >= 0."""
    return t + a * (t / (1 + t)) ** 2


def excess_slope(t: Elementwise, a: Elementwise) -> Elementwise:
    """Derivative of :func:`excess` in t."""
    return 1 + 2 * a * t / (1 + t) ** 3


def excess_inverse(s: Elementwise, a: Elementwise) -> Elementwise:
    """t with ``excess(t, a) = s``, to rounding for a <= 10, by Newton's method."""
    t = s
    for _ in range(NEWTON_STEPS):
        t = t - (excess(t, a) - s) / excess_slope(t, a)
    return t


def stretched(
    v: Elementwise, a: Elementwise, xp: Namespace = NUMPY
) -> tuple[Elementwise, Elementwise]:
    """s(v) and log ds/dv, elementwise; ``a`` (2, D) of the left and of the right, v (N, D)."""
    side, t = _amount(v, a, xp), xp.maximum(abs(v) - START, 0.0)
    return v + xp.sign(v) * (excess(t, side) - t), xp.log(excess_slope(t, side))


def stretch_derivatives(v: Elementwise, a: Elementwise) -> tuple[Elementwise, Elementwise]:
    """ds/dv and d log(ds/dv)/dv, elementwise, in numbers; arguments as :func:`stretched`."""
    side, t = _amount(v, a, NUMPY), NUMPY.maximum(abs(v) - START, 0.0)
    slope = excess_slope(t, side)
    curve = 2 * side * (1 - 2 * t) / (1 + t) ** 4
    return slope, NUMPY.switch(t > 0, NUMPY.sign(v) * curve / slope, 0.0)


def unstretch(s: Elementwise, a: Elementwise, xp: Namespace = NUMPY) -> Elementwise:
    """v with s(v) = s."""
    beyond = xp.maximum(abs(s) - START, 0.0)
    return s - xp.sign(s) * (beyond - excess_inverse(beyond, _amount(s, a, xp)))


def _amount(x: Elementwise, a: Elementwise, xp: Namespace) -> Elementwise:
    return xp.switch(x > 0, a[1], a[0])
