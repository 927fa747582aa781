"""Memory of large arrays kept between steps, where the C library would give it back each time.

glibc returns what is free at the end of its heap to the system, so that a step's temporaries of
megabytes are mapped and cleared page by page again and again: a third of the CPU time of a map in
10,000 dimensions, three quarters of that of its draws.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator
from functools import cache

LARGE = 300  # dimensions; in 175 four percent of the time could be had
# Of mallopt(3): bytes free at the end of the heap from which they go back to the system, and of an
# array from which it is mapped by itself. Afterwards the most that glibc's own rule, which a first
# call ends, comes to.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
KEPT, AFTERWARDS, LONGEST_IN_HEAP = 2**31 - 1, 2**26, 2**25


def memory_for(dimension: int) -> contextlib.AbstractContextManager[None]:
    """:func:`memory_kept`, unless arrays have few columns."""
    return memory_kept() if dimension > LARGE else contextlib.nullcontext()


@contextlib.contextmanager
def memory_kept() -> Iterator[None]:
    """Context in which freed memory stays with the process; its end gives it back.

    Nothing happens where the C library is not glibc.

    Examples
    --------
    >>> import numpy as np
    >>> with memory_kept():
    ...     total = sum(float(np.ones(10**6).sum()) for _ in range(3))
    >>> total
    3000000.0
    """
    libc = _glibc()
    if libc is None:
        yield
        return
    libc.mallopt(MMAP_THRESHOLD, LONGEST_IN_HEAP)
    libc.mallopt(TRIM_THRESHOLD, KEPT)
    try:
        yield
    finally:
        libc.mallopt(TRIM_THRESHOLD, AFTERWARDS)
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    if platform.libc_ver()[0] != "glibc":
        return None
    libc = ctypes.CDLL(None)
    libc.mallopt.argtypes, libc.mallopt.restype = (ctypes.c_int, ctypes.c_int), ctypes.c_int
    libc.malloc_trim.argtypes, libc.malloc_trim.restype = (ctypes.c_size_t,), ctypes.c_int
    return libc
