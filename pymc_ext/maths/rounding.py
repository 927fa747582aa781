"""Numbers that break a limit, as text that shows it: rounded away from the limit."""

from __future__ import annotations

import numpy as np


def above(number: float, digits: int) -> str:
    """Rounded up to so many decimals; NaN in a word.

    >>> above(5.001, 1)
    '5.1'
    >>> above(float("nan"), 3)
    'undefined'
    """
    return _text(np.ceil(number * 10**digits), digits)


def below(number: float, digits: int) -> str:
    """Rounded down; NaN in a word.

    >>> below(399.7, 0)
    '399'
    """
    return _text(np.floor(number * 10**digits), digits)


def _text(units: float, digits: int) -> str:
    return "undefined" if np.isnan(units) else f"{units / 10**digits:.{digits}f}"
