"""What ``random_seed`` may be, wherever it is given: the one place that says so."""

from __future__ import annotations

import numpy as np

__all__ = ["check_seed"]

# What PyMC's older generator and Stan take; a fit is kept with its seed, so that it has to be a
# number, and a larger one would mean different draws in each of them.
LARGEST = 2**32 - 1


def check_seed(random_seed: object, *, generator: bool = False, name: str = "random_seed") -> None:
    """Raise unless it is None or an integer from 0 to 2³² − 1.

    Parameters
    ----------
    random_seed
        As it was given.
    generator
        Whether a NumPy Generator will do as well: for draws of a q that is there, not for a fit.
    name
        What the argument is called.

    Raises
    ------
    TypeError
        It is something else; a bool, too, which is seldom meant as a seed.
    ValueError
        It is out of range.

    Examples
    --------
    >>> check_seed(1.5)
    Traceback (most recent call last):
        ...
    TypeError: random_seed must be None or an integer from 0 to 2**32 - 1, got 1.5: give an integer
    """
    if random_seed is None or (generator and isinstance(random_seed, np.random.Generator)):
        return
    allowed = "None or an integer from 0 to 2**32 - 1"
    if generator:
        allowed = "None, an integer from 0 to 2**32 - 1 or a numpy.random.Generator"
    if isinstance(random_seed, bool) or not isinstance(random_seed, int | np.integer):
        plain = isinstance(random_seed, bool | float | str)
        got = repr(random_seed) if plain else f"a {type(random_seed).__name__}"
        raise TypeError(f"{name} must be {allowed}, got {got}: {_instead(random_seed)}")
    if not 0 <= random_seed <= LARGEST:
        raise ValueError(f"{name} must be {allowed}, got {random_seed}: give one in this range")


def _instead(random_seed: object) -> str:
    if isinstance(random_seed, np.random.Generator):
        return "draw one from it, int(rng.integers(2**32))"
    if isinstance(random_seed, np.random.RandomState):
        return "draw one from it, rng.randint(2**31)"
    return "give an integer"
