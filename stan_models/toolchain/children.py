"""Ctrl-C ends compilers too: those that a step has started, however deep."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["descendants", "ended_by_interrupts"]


@contextmanager
def ended_by_interrupts() -> Iterator[None]:
    """Within it SIGINT ends the processes that were started within it, and then goes its way.

    A terminal sends it to all of them; a notebook or `kill` to Python alone, whose `make` would
    leave compilers behind. Before it is raised, as ``subprocess.run`` kills `make` on its way, and
    whose the compilers were is not known any more.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    others = descendants()

    def end(number: int, frame: FrameType | None) -> None:
        for process in descendants() - others:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGTERM)
        before(number, frame)

    signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def descendants() -> set[int]:
    """The ids of this process's children, their children, and so on; none without `ps`."""
    try:
        listed = subprocess.run(
            ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return set()
    parents = {int(pid): int(parent) for pid, parent in map(str.split, listed.splitlines())}
    found, last = set[int](), {os.getpid()}
    while last:
        last = {pid for pid, parent in parents.items() if parent in last} - found
        found |= last
    return found
