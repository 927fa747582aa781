"""Parts of a batch in threads: which rows, how many threads, what a failure does."""

import subprocess
import sys
import threading

import joblib
import pytest

from stan_models.threads import in_threads, thread_count


@pytest.mark.parametrize(("rows", "parts"), [(10, 3), (3, 3), (7, 2)])
def test_every_row_is_in_one_part_and_parts_run_at_once(rows, parts):
    seen, together = [], threading.Barrier(parts, timeout=30)

    def call(first, last):
        together.wait()  # breaks where one part waits for another
        seen.extend(range(first, last))

    in_threads(call, rows, parts)
    assert sorted(seen) == list(range(rows))


def test_a_failure_is_raised_once_all_have_ended():
    ended = []

    def call(first, last):
        if first == 0:
            raise ValueError("the first part")
        ended.append(first)

    with pytest.raises(ValueError, match="the first part"):
        in_threads(call, 6, 3)
    assert sorted(ended) == [2, 4]


FORK = """
import os
from stan_models.threads import in_threads
in_threads(lambda first, last: None, 4, 2)
child = os.fork()
in_threads(lambda first, last: None, 4, 2)
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_a_forked_process_has_threads_of_its_own():
    """In a process of its own: beside JAX, or from Python 3.12 on, a fork warns of threads."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], timeout=60, check=True)


@pytest.mark.parametrize(
    ("stan", "openmp", "count"),
    [
        ("2", "5", 2),
        ("-1", "1", joblib.cpu_count()),
        (None, "3", 3),
        (None, None, joblib.cpu_count()),
    ],
)
def test_the_number_of_threads_is_stans_else_the_share_of_a_worker(
    monkeypatch, stan, openmp, count
):
    for name, value in (("STAN_NUM_THREADS", stan), ("OMP_NUM_THREADS", openmp)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert thread_count() == count


@pytest.mark.parametrize("wrong", ["0", "two", "-2", ""])
def test_a_wrong_number_is_named(monkeypatch, wrong):
    monkeypatch.setenv("STAN_NUM_THREADS", wrong)
    with pytest.raises(ValueError, match=f"STAN_NUM_THREADS must be .* got '{wrong}'"):
        thread_count()
