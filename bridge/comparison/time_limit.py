"""A limit on the wall time of a block of Python."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def can_limit() -> bool:
    """Whether `time_limit` works here: it needs SIGALRM and the main thread of a process."""
    return hasattr(signal, "SIGALRM") and threading.current_thread() is threading.main_thread()


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise TimeoutError in the block once ``seconds`` have passed; None is no limit.

    The alarm is heard between two steps of Python: one long call of compiled code runs to its end
    first. It sounds again every second, should something in the block swallow the exception.
    """
    if seconds is None:
        yield
        return

    def ring(*_: object) -> None:
        raise TimeoutError(f"stopped at the limit of {seconds:g} s a run")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
