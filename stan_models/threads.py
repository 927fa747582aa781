"""Rows of a batch shared out among threads, which changes no number."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise

import joblib

__all__ = ["in_threads", "thread_count"]


def thread_count() -> int:
    """How many threads evaluate a density.

    ``STAN_NUM_THREADS`` as Stan reads it, −1 for all cores; else ``OMP_NUM_THREADS``, which joblib
    sets to the share of each of its workers; else all cores that this process may use.

    Raises
    ------
    ValueError
        ``STAN_NUM_THREADS`` is no positive integer nor −1.
    """
    asked = os.environ.get("STAN_NUM_THREADS")
    if asked is not None:
        try:
            count = int(asked)
        except ValueError:
            count = 0
        if count != -1 and count < 1:
            raise ValueError(
                f"STAN_NUM_THREADS must be a positive integer, or -1 for all cores, got {asked!r}"
            )
        return count if count > 0 else joblib.cpu_count()
    shared = os.environ.get("OMP_NUM_THREADS", "")
    return int(shared) if shared.isdigit() and int(shared) else joblib.cpu_count()


def in_threads(call: Callable[[int, int], None], rows: int, parts: int) -> None:
    """``call(first, last)`` for consecutive parts of ``rows``, at once; what one raises is raised.

    For calls that let other threads run, as those of a C library do.
    """
    edges = [rows * part // parts for part in range(parts + 1)]
    own, *rest = pairwise(edges)
    others = [_pool(os.getpid(), parts).submit(call, *part) for part in rest]
    try:
        call(*own)
    finally:
        wait(others)  # none may go on with arrays that are gone
    for other in others:
        other.result()


@cache
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """Threads of this process: a fork of it has none of them."""
    return ThreadPoolExecutor(workers, thread_name_prefix="stan_models")
