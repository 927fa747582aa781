"""Where runs go: processes here, or the cluster of Dask or Ray; and what comes back of them."""

from __future__ import annotations

import importlib
import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from types import ModuleType
from typing import TypeVar

import joblib
from joblib.externals.loky.process_executor import TerminatedWorkerError
from joblib.parallel import get_active_backend

from bridge.comparison.records import Record
from bridge.errors import BridgeError

__all__ = ["cluster", "finished", "within"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
ENDED = (
    "a run ended its worker process, as code that crashes does, or more memory than there is; what "
    "was done before is on record, and the same call goes on: with isolate=True (--isolate) of "
    "compare and sweep each run has a process of its own, and how it ended is its record"
)


@contextmanager
def cluster(backend: str, jobs: int) -> Iterator[None]:
    """Runs go to joblib's ``backend``: "loky", or "dask" or "ray".

    Dask: the address of the scheduler in ``DASK_SCHEDULER_ADDRESS``, else a local cluster of
    ``jobs`` single-threaded worker processes for as long as the block lasts. Ray: the cluster you
    are connected to, or the one at ``RAY_ADDRESS``, else a local one of ``jobs`` CPUs for as long
    as the block lasts; runs then go out a round at a time, as Ray answers when all of them are
    done.

    Raises
    ------
    BridgeError
        The backend is unknown, or its package is not installed.
    """
    if backend == "loky":
        with joblib.parallel_config(n_jobs=jobs):
            yield
    elif backend == "dask":
        with _dask(jobs), joblib.parallel_config(backend="dask"):
            yield
    elif backend == "ray":
        with _ray(jobs), joblib.parallel_config(backend="ray", n_jobs=jobs):
            yield
    else:
        raise BridgeError(f"backend must be loky, dask or ray, got {backend!r}")


def finished(tasks: Iterator[object]) -> Iterator[Record]:
    """Results of joblib's ``tasks`` as they end, or a round at a time where it cannot say more."""
    backend, _ = get_active_backend()
    if backend.supports_return_generator:
        parallel = joblib.Parallel(return_as="generator_unordered", pre_dispatch="n_jobs")
        try:
            yield from parallel(tasks)
        except TerminatedWorkerError as error:
            raise BridgeError(ENDED) from error
        return
    while batch := list(islice(tasks, joblib.effective_n_jobs())):  # ray answers when all is done
        yield from joblib.Parallel()(batch)


def within(pending: Sequence[_T], budget: float | None) -> Iterator[_T]:
    """The runs, until ``budget`` seconds have passed."""
    begin = time.monotonic()
    for number, run in enumerate(pending):
        if budget is not None and time.monotonic() - begin > budget:
            _log.info("budget of %g s used up: %d runs left", budget, len(pending) - number)
            return
        yield run


@contextmanager
def _dask(jobs: int) -> Iterator[None]:
    distributed = _require("dask[distributed]", "distributed")
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    if address:
        with distributed.Client(address):
            yield
        return
    workers = joblib.cpu_count() if jobs < 1 else jobs
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as local,
        distributed.Client(local),
    ):
        yield


@contextmanager
def _ray(jobs: int) -> Iterator[None]:
    ray = _require("ray", "ray")
    _require("ray", "ray.util.joblib").register_ray()
    if ray.is_initialized():
        yield
        return
    found = os.environ.get("RAY_ADDRESS")
    options = {} if found or jobs < 1 else {"num_cpus": jobs, "include_dashboard": False}
    ray.init(log_to_driver=False, **options)
    try:
        yield
    finally:
        ray.shutdown()


def _require(package: str, module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BridgeError(f"this backend needs {package}: pip install '{package}'") from error
