"""After each iteration of a deterministic fit: loss history, callbacks, progress bar."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import numpy as np
from rich import get_console
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pymc_ext.maths.types import Array
from pymc_ext.options import require_flag
from pymc_ext.variational.core.posterior import Posterior

Callback = Callable[..., object]  # callback(approx, losses, i), as PyMC's own loop calls it
STOPPED = "stopped by a callback"
UNFINISHED = "unfinished"  # how the reason of a fit begins that was ended before its time
NOTHING_YET = "interrupted before there was any approximation: nothing is kept"


class FitStopped(Exception):
    """The steps are used up, or a callback or the user ended the fit; the message says which."""


def nothing_yet(stop: BaseException) -> BaseException:
    """What ends a fit that has no q yet: ``stop``, Ctrl-C in words."""
    if isinstance(stop, KeyboardInterrupt):
        return KeyboardInterrupt(NOTHING_YET)
    return stop


@contextmanager
def kept_nothing() -> Iterator[None]:
    """Context in which there is no q yet, so that Ctrl-C says that nothing is kept, unless it has
    words already."""
    try:
        yield
    except KeyboardInterrupt as stop:
        raise (stop if stop.args else nothing_yet(stop)) from None


def unfinished(stop: BaseException) -> str:
    """Why a fit ended that ``stop`` ended before its time."""
    return f"{UNFINISHED}: {str(stop) or type(stop).__name__}"


def ended_by_interrupt(stop_reason: str) -> bool:
    """Whether a fit that says so was ended by Ctrl-C."""
    return stop_reason == unfinished(KeyboardInterrupt())


def can_change(console: Console) -> bool:
    """Whether a line that changes can be shown: in a notebook without ipywidgets rich would warn at
    every change."""
    return not console.is_jupyter or find_spec("ipywidgets") is not None


class Monitor:
    """Collects losses and runs the user's callbacks, as PyMC's own loop does.

    Parameters
    ----------
    approx
        The approximation given to the callbacks; its parameters are current when they run.
    callbacks
        Called as ``callback(approx, losses, i)``; StopIteration ends the fit.
    first
        Number of iterations done before this run, so that ``i`` continues.
    total
        Upper bound on the iterations, for the bar.
    progressbar
        Whether to show the bar, where one can be shown.
    show
        Puts a q into ``approx``; called before the callbacks.
    """

    def __init__(
        self,
        approx: object,
        callbacks: Sequence[Callback],
        first: int,
        total: int,
        progressbar: bool,
        show: Callable[[Posterior], None] = lambda q: None,
    ) -> None:
        require_flag("progressbar", progressbar)
        self.approx, self.callbacks, self.first, self.show = approx, callbacks, first, show
        self.stopped = False  # by a callback: what comes after it stops at once
        self._losses: list[float] = []
        self._kept: Array | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("iteration {task.completed}, loss {task.fields[loss]}"),
            TimeElapsedColumn(),
            disable=not (progressbar and can_change(get_console())),
        )
        self._task = self._progress.add_task("Fitting", total=total, loss="")

    @classmethod
    def silent(cls) -> Monitor:
        """One that nobody watches."""
        return cls(None, (), 0, 0, False)

    def __enter__(self) -> Monitor:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def losses(self) -> Array:
        """−objective after each iteration of this run, (iterations,)."""
        return np.asarray(self._losses, dtype=float)

    @property
    def history(self) -> Array:
        """What the loss history shows, (T,): the losses given to :meth:`keep`, else all."""
        return self.losses if self._kept is None else self._kept

    def keep(self, losses: Array) -> None:
        """Show only ``losses`` (T,): of a search in parts, the one comparable trace that won."""
        self._kept = np.asarray(losses, dtype=float)

    def block(self, losses: Array, q: Callable[[], Posterior]) -> None:
        """Record several iterations at once, their ``losses`` (T,), then run the callbacks once."""
        self._losses.extend(map(float, losses))
        self._progress.update(self._task, completed=len(self._losses), loss=f"{losses[-1]:,.5g}")
        self._call_back(q)

    def __call__(self, loss: float, q: Callable[[], Posterior] | None = None) -> None:
        """Record one iteration, after which q is ``q()``; StopIteration if a callback raises it."""
        if self.stopped:
            raise StopIteration
        self._losses.append(float(loss))
        self._progress.update(self._task, advance=1, loss=f"{loss:,.5g}")
        self._call_back(q)

    def _call_back(self, q: Callable[[], Posterior] | None) -> None:
        if self.callbacks and q is not None:
            self.show(q())
        try:
            for callback in self.callbacks:
                callback(self.approx, self.losses, self.first + len(self._losses))
        except StopIteration:
            self.stopped = True
            raise
