"""One line that says what a long answer is at, on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from pymc_ext.options import require_flag

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["at_work", "hidden", "now"]

_line: ContextVar[tuple[Progress, TaskID] | None] = ContextVar("_line", default=None)


@contextmanager
def at_work(progressbar: bool) -> Iterator[None]:
    """Context in which :func:`now` shows what is done, with the time; the line goes when it ends.

    Nothing is shown where ``progressbar`` is false, where nobody watches (a file, a pipe), where a
    notebook has no ipywidgets, or within another such line. TypeError where it is no bool.

    Examples
    --------
    >>> with at_work(progressbar=True):
    ...     now("counting")
    """
    require_flag("progressbar", progressbar)
    if not progressbar or _line.get() is not None:
        yield
        return
    from rich import get_console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from pymc_ext.variational.core.monitor import can_change

    console = get_console()
    if not ((console.is_terminal or console.is_jupyter) and can_change(console)):
        yield
        return
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as bar:
        token = _line.set((bar, bar.add_task("")))
        try:
            yield
        finally:
            _line.reset(token)


def now(text: str) -> None:
    """What the line says from here on; nothing without one."""
    line = _line.get()
    if line is not None:
        bar, task = line
        bar.update(task, description=text)


@contextmanager
def hidden() -> Iterator[None]:
    """Context without the line, for what shows a progress of its own."""
    line = _line.get()
    if line is None:
        yield
        return
    line[0].stop()
    try:
        yield
    finally:
        line[0].start()
