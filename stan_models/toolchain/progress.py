"""Progress of long steps on standard error: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console

from stan_models.toolchain.children import ended_by_interrupts


@contextmanager
def step(message: str) -> Iterator[None]:
    """Say that ``message`` is being done, and when it is, how long it took; Ctrl-C ends it."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    start = time.perf_counter()
    spinner = console.status(message) if console.is_terminal else nullcontext()
    if not console.is_terminal:
        console.print(f"{message} ...", markup=False)
    with spinner, ended_by_interrupts():
        yield
    console.print(f"{message}: done in {time.perf_counter() - start:.0f} s", markup=False)
