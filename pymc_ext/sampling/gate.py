"""What holds a sampler that runs in a thread of its own until more draws are wanted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from pymc_ext.maths.types import Array

PATIENCE = 1.0  # seconds between looks whether nutpie has given up; no result depends on it


class Gate:
    """Where a chain waits after each draw until further ones are allowed.

    The statistics of a draw are there once the next one is made, which hence waits here.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self.points: list[Array] = []
        self.allowed = 0
        self.closed = False
        self.error: Exception | None = None

    def pass_through(self, point: Array) -> None:
        """In nutpie's thread: keep the draw, and wait."""
        with self._turn:
            self.points.append(np.array(point, dtype=float))
            self._turn.notify_all()
            while len(self.points) > self.allowed and not self.closed:
                self._turn.wait()

    def advance(self, draws: int, require_alive: Callable[[], None]) -> None:
        """In ours: allow so many more, and wait until they are made."""
        with self._turn:
            self.allowed += draws
            self._turn.notify_all()
            while len(self.points) <= self.allowed:
                if self.error is not None:
                    raise self.error
                if not self._turn.wait(PATIENCE):
                    require_alive()

    def stop(self) -> None:
        """Allow no more than what is complete once nutpie's thread is here again.

        It is waited for: until then it evaluates the density, which others are about to.
        """
        with self._turn:
            self.allowed = min(self.allowed, len(self.points))
            self._turn.notify_all()

    def fail(self, error: Exception) -> None:
        """Keep what the density raised, for :meth:`advance`."""
        with self._turn:
            self.error = self.error or error
            self._turn.notify_all()

    def close(self) -> None:
        """Let the chain run out."""
        with self._turn:
            self.closed = True
            self._turn.notify_all()
