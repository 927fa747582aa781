"""Ctrl-C: whether it was pressed, also where a fit took it as its end, and what it looks like."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TypeVar

__all__ = ["Interrupts", "interrupt_says", "is_interrupt", "through_one"]

T = TypeVar("T")


class Interrupts:
    """A context that notes each SIGINT and passes it on to whoever handled it before.

    Python delivers it to the main thread alone: elsewhere nothing is noted, as nothing arrives.

    Attributes
    ----------
    seen
        Whether there was one since the context was entered.

    Examples
    --------
    >>> with Interrupts() as interrupts:
    ...     try:
    ...         signal.raise_signal(signal.SIGINT)
    ...     except KeyboardInterrupt:
    ...         pass
    >>> interrupts.seen
    True
    """

    def __init__(self) -> None:
        self.seen = False
        self._before: object = None

    def __enter__(self) -> Interrupts:
        handler = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread() and callable(handler):
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if callable(self._before):
            signal.signal(signal.SIGINT, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        assert callable(self._before)
        self._before(number, frame)


@contextmanager
def interrupt_says(what: str) -> Iterator[None]:
    """Context whose Ctrl-C says ``what`` it ended, unless it has words already.

    >>> try:
    ...     with interrupt_says("interrupted before the fit"):
    ...         signal.raise_signal(signal.SIGINT)
    ... except KeyboardInterrupt as stop:
    ...     print(stop)
    interrupted before the fit
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        raise (stop if stop.args else KeyboardInterrupt(what)) from None


def through_one(make: Callable[[], T]) -> T:
    """What ``make()`` gives, begun once more where a Ctrl-C came in its middle.

    For what a fit needs after its last step: one Ctrl-C ends a fit, and leaves what it found; the
    next is raised.

    Examples
    --------
    >>> presses = iter([True, False])
    >>> through_one(lambda: signal.raise_signal(signal.SIGINT) if next(presses) else "found")
    'found'
    """
    try:
        return make()
    except (KeyboardInterrupt, SystemError) as error:
        if not is_interrupt(error):
            raise
    return make()


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C; compiled code of numba's turns it into a SystemError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
