"""Ctrl-C: whether it was pressed, also where a fit took it as its end, and what it looks like."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

__all__ = ["Interrupts", "is_interrupt"]


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


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is Ctrl-C; compiled code of numba's turns it into a SystemError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
