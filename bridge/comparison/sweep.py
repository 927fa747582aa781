"""Every posterior with reference draws × every method × seeds, here or on a cluster."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import joblib
import pandas as pd

from bridge.compare import compare
from bridge.errors import BridgeError
from bridge.methods import METHODS
from posteriordb_cases import list_cases, load_case

_log = logging.getLogger(__name__)


def cases_with_reference(database: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the posteriors of a database that have reference draws which passed all checks.

    Raises
    ------
    ValueError
        The database has none.
    """
    names = []
    for name in list_cases(database):
        case = load_case(name, database=database)
        if case.has_reference and case.failed_checks:
            _log.warning("%s left out: its reference draws failed %s", name,
                         ", ".join(case.failed_checks))  # fmt: skip
        elif case.has_reference:
            names.append(name)
    if not names:
        raise ValueError(
            f"no posterior of the database {database or 'given by POSTERIORDB_PATH'} has "
            "reference draws: there is nothing to judge by; `python -m bridge generate NAME` "
            "makes some"
        )
    return names


def sweep(
    cases: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 5,
    *,
    database: str | os.PathLike[str] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """Compare all methods on all posteriors of a database; resumes where it was stopped.

    Parameters
    ----------
    cases
        Posteriors; None for all that have reference draws.
    methods
        Names; None for all that work on any posterior.
    seeds
        How many (seeds 1..n), or which.
    database, options
        As :func:`bridge.compare`, ``out`` included; ``budget`` and ``run_limit`` bound the time.

    Returns
    -------
    pandas.DataFrame
        One row a run that is on record, as :func:`bridge.compare`.

    Examples
    --------
    >>> with joblib.parallel_config(n_jobs=2):
    ...     frame = sweep(methods=["laplace"], seeds=1, out="results")  # doctest: +SKIP
    """
    chosen = [m.name for m in METHODS.values() if m.general] if methods is None else methods
    names = cases_with_reference(database) if cases is None else cases
    return compare(names, chosen, seeds, database=database, **options)


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


def _require(package: str, module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise BridgeError(f"this backend needs {package}: pip install '{package}'") from error
