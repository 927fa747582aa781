"""Progress of long steps on standard error: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console


@contextmanager
def step(message: str) -> Iterator[None]:
    """Say that ``message`` is being done, and when it is, how long it took."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    start = time.perf_counter()
    spinner = console.status(message) if console.is_terminal else nullcontext()
    if not console.is_terminal:
        console.print(f"{message} ...", markup=False)
    with spinner:
        yield
    console.print(f"{message}: done in {time.perf_counter() - start:.0f} s", markup=False)
