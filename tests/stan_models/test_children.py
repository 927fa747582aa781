"""What a step has started ends with it, also where Ctrl-C reaches Python alone."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

import pytest

from stan_models.toolchain.children import descendants
from stan_models.toolchain.progress import step

TREE = "sleep 60 & sleep 60 & wait"  # a shell and two children, as make and its compilers


def running(pids: set[int]) -> set[int]:
    states = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-p", ",".join(map(str, pids))], capture_output=True, text=True
    ).stdout
    rows = map(str.split, states.splitlines())
    return {int(pid) for pid, state in rows if not state.startswith("Z")}


def waited(condition, seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.fixture
def interrupts():
    """SIGINT raises, also in a job that was started in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("run", [subprocess.run, lambda command: subprocess.Popen(command).wait()])
def test_an_interrupt_of_python_alone_ends_what_a_step_has_started(interrupts, run) -> None:
    seen: set[int] = set()
    other = subprocess.Popen(["sleep", "60"])
    others = descendants()

    def interrupt() -> None:
        waited(lambda: len(descendants() - others) >= 3)
        seen.update(running(descendants() - others))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        with pytest.raises(KeyboardInterrupt), step("compiling"):
            thread.start()
            run(["sh", "-c", TREE])
        thread.join()
        assert len(seen) >= 3 and waited(lambda: not running(seen))
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def test_a_step_leaves_the_handler_as_it_was(interrupts) -> None:
    with step("compiling"):
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    failed: list[BaseException] = []

    def in_a_thread() -> None:
        try:
            with step("compiling"):
                pass
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=in_a_thread)
    thread.start()
    thread.join()
    assert not failed
