"""A run in a process of its own, whose seconds and memory nothing else has touched."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

P, R = ParamSpec("P"), TypeVar("R")


def in_a_process(function: Callable[P, R], *arguments: P.args, **options: P.kwargs) -> R:
    """``function(*arguments)`` in a fresh process."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *arguments, **options).result()


def cpu_seconds() -> float:
    """Of this process and of the compilers that it ran."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def peak_mb() -> int:
    """The most memory that this process had."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)  # Linux: kB


class Stopwatch:
    """CPU and wall seconds since it was made, and peak memory."""

    def __init__(self) -> None:
        self.cpu, self.wall = cpu_seconds(), time.perf_counter()

    def read(self) -> dict[str, float]:
        """What has been spent."""
        return {
            "cpu_s": round(cpu_seconds() - self.cpu, 2),
            "wall_s": round(time.perf_counter() - self.wall, 2),
            "peak_mb": peak_mb(),
        }
