"""One BLAS thread where matrices are small: more cost far more than they bring."""

from __future__ import annotations

import contextlib
from functools import cache

from threadpoolctl import ThreadpoolController

# Products of some hundred rows with D columns take microseconds, waking threads as long: steps of
# 256 draws in ten dimensions took ten times the CPU time with two threads.
MOST_COLUMNS = 200


def threads_for(dimension: int) -> contextlib.AbstractContextManager[object]:
    """Context in which BLAS has one thread, unless matrices have more than 200 columns."""
    if dimension > MOST_COLUMNS:
        return contextlib.nullcontext()
    return one_thread()


def one_thread() -> contextlib.AbstractContextManager[object]:
    """Context in which BLAS has one thread, for products of thin matrices in any dimension.

    A low-rank fit of 1,000 dimensions took fifty times the CPU time with two threads; L-BFGS in 26
    dimensions, beside other work on two cores, thirty times the wall time.
    """
    return _libraries().limit(limits=1, user_api="blas")


@cache
def _libraries() -> ThreadpoolController:
    """The BLAS of NumPy and of SciPy, looked for once: that takes a millisecond or two."""
    import scipy.linalg  # noqa: F401  # loads its own, which would not be found before

    return ThreadpoolController()
