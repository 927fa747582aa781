"""One BLAS thread where matrices are small: more cost far more than they bring."""

from __future__ import annotations

import contextlib

from threadpoolctl import threadpool_limits

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

    A low-rank fit of 1,000 dimensions took fifty times the CPU time with two threads.
    """
    return threadpool_limits(1, user_api="blas")
