"""Numbers that break a limit, as text that shows it: rounded away from the limit."""

from __future__ import annotations

import numpy as np


def above(number: float, digits: int) -> str:
    """Rounded up to so many decimals.

    >>> above(5.001, 1)
    '5.1'
    """
    return f"{np.ceil(number * 10**digits) / 10**digits:.{digits}f}"


def below(number: float, digits: int) -> str:
    """Rounded down.

    >>> below(399.7, 0)
    '399'
    """
    return f"{np.floor(number * 10**digits) / 10**digits:.{digits}f}"
