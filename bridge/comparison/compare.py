"""Cases × methods × seeds, each run judged against the truth, under joblib, resumable."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pandas as pd
from joblib import delayed

from bridge.comparison.cluster import finished, within
from bridge.comparison.folder import RECORDS
from bridge.comparison.processes import run_for
from bridge.comparison.records import Record, Records
from bridge.comparison.run import Run, Settings, require_picklable
from bridge.errors import UnreliableReferenceError
from bridge.methods.method import Method
from bridge.methods.table import METHODS, find_methods
from posteriordb_cases import Case, load_case
from pymc_ext.options import require_flag, require_integer, require_number, require_path
from pymc_ext.seeds import check_seed

__all__ = ["compare"]

_log = logging.getLogger(__name__)
_T = TypeVar("_T", bound=Hashable)


def compare(
    cases: Sequence[str] | str,
    methods: Sequence[str | Method] | str | Method | None = None,
    seeds: int | Sequence[int] = 3,
    *,
    out: str | os.PathLike[str],
    database: str | os.PathLike[str] | None = None,
    draws: int = 20_000,
    repetitions: int = 5,
    retry_failed: bool = False,
    budget: float | None = None,
    run_limit: float | None = None,
    isolate: bool = False,
    on_record: Callable[[Record, int, int], None] | None = None,
) -> pd.DataFrame:
    """Run methods on cases and judge each run against the cases' reference draws.

    Each finished run is committed to ``out/records.sqlite`` before the next is awaited, and its
    draws are stored in ``out/draws``; a comparison that was interrupted goes on where it stopped.
    A case whose program, data, port or reference draws have changed since is run again.
    Runs go through :class:`joblib.Parallel`, so ``joblib.parallel_config(n_jobs=…, backend=…)``
    around the call says where. Threads of one process take turns, as PyTensor's functions need:
    only processes make it faster.

    Parameters
    ----------
    cases
        Names of posteriors in the database.
    methods
        Names from ``python -m bridge list``, or methods of your own (:class:`bridge.Method`), which
        records call by their name; those it marks as default for None.
    seeds
        How many (seeds 1..n), or which.
    out
        Folder of the records and draws. Tables and figures, as the command leaves them there, are
        written by ``python -m bridge report OUT``, or `bridge.report.files.write` of what is
        returned.
    database
        A posteriordb: its folder, "github", or None for ``POSTERIORDB_PATH``, else the embedded
        one.
    draws
        Draws from each approximation.
    repetitions
        Batches the draws are cut into for the spread of k̂.
    retry_failed
        Run again what is recorded as failed.
    budget
        Seconds after which no further run is given to joblib; those it has, at most its number of
        jobs, are finished, the rest are left for the next call. None is no limit.
    run_limit
        Seconds after which a run is stopped and recorded as failed. Enforced in the main thread of
        a process, as in joblib's own workers but not in Dask's; where it cannot be, the record's
        ``notes`` say so.
    isolate
        Whether each run has a process of its own, which costs the seconds of imports: one that ends
        it by a signal, or does not hear its limit, is then recorded as failed with that reason.
        Else it ends a worker, and the comparison with it.
    on_record
        Called as ``on_record(record, done, total)`` after each run, for progress.

    Returns
    -------
    pandas.DataFrame
        One row a run: ``status`` is "ok" or "failed" (then ``reason`` says why), and the columns of
        :func:`bridge.comparison.judge.judge`; ``cpu_seconds`` is the fit's CPU time, that of
        programs it ran included, which other load on the machine does not lengthen.

    Raises
    ------
    UnknownMethodError, ValueError
        No such method or case, with the near names; two methods of one name; a number is out of
        range.
    TypeError
        An argument is something else than it should be.
    BrokenMethodError
        A method of an installed package cannot be loaded, or a given one not be pickled.
    UnreliableReferenceError
        A case has no reference draws, or they failed checks of posteriordb's, or were made before
        its program or data changed.
    DiskFullError
        What was done by then is on record.

    Examples
    --------
    >>> frame = compare("eight_schools_noncentered", ["pymc-advi"], seeds=1, out="results")
    ... # doctest: +SKIP
    """
    require_flag("retry_failed", retry_failed)
    require_flag("isolate", isolate)
    if on_record is not None and not callable(on_record):
        raise TypeError(f"on_record must be a function of three, or None, got {on_record!r}")
    _check(out, database, draws, repetitions, budget, run_limit)
    where = None if database is None else os.fspath(database)
    settings = Settings(draws=int(draws), repetitions=int(repetitions), database=where)
    runs = _runs(case_names(cases), methods, seeds, settings)
    out = Path(out)
    records = Records(out / RECORDS)
    done = records.by_key(status="ok" if retry_failed else None)
    pending = [run for run in runs if not run.is_in(done)]
    for name in _unique(run.case_name for run in pending if run.key in done):
        _log.warning("%s has changed since it was recorded in %s: it is run again", name, out)
    if len(pending) < len(runs):
        _log.info("%d of %d runs are on record in %s", len(runs) - len(pending), len(runs), out)
    tasks = (
        delayed(run_for)(os.getpid(), run, out, run_limit, isolate)
        for run in within(pending, budget)
    )
    for number, record in enumerate(finished(tasks), start=len(runs) - len(pending) + 1):
        records.add(record)
        if on_record is not None:
            on_record(record, number, len(runs))
    return _rows_of(runs, records.frame(), records.by_key())


def _check(
    out: object,
    database: object,
    draws: int,
    repetitions: int,
    budget: float | None,
    run_limit: float | None,
) -> None:
    require_path("out", out)
    if database is not None:
        require_path("database", database)
    require_integer("draws", draws)
    require_integer("repetitions", repetitions)
    if budget is not None:
        require_number("budget", budget)
    if run_limit is not None:
        require_number("run_limit", run_limit)
        if not run_limit > 0:
            raise ValueError(f"run_limit must be a positive number, got {run_limit!r}")


def case_names(cases: Sequence[str] | str) -> list[str]:
    """Those given, one or several; TypeError for what is no name."""
    names = [cases] if isinstance(cases, str) or not isinstance(cases, Iterable) else list(cases)
    if not all(isinstance(name, str) for name in names):
        raise TypeError(
            "cases must be the name of a posterior or a sequence of names, got "
            f"{cases!r}: `python -m bridge list` shows them; a model of your own is for "
            "bridge.fit, or becomes a case of a database of yours (docs/extending.md, A case)"
        )
    return names


def _runs(
    cases: Sequence[str],
    methods: Sequence[str | Method] | str | Method | None,
    seeds: int | Sequence[int],
    settings: Settings,
) -> list[Run]:
    """Every case × method × seed; what is wrong with one of them is said before any run."""
    named = (_admitted(load_case(name, database=settings.database)) for name in cases)
    admitted = {case.name: case for case in named}
    chosen = find_methods(methods)
    given = [method for method in chosen if METHODS.get(method.name) is not method]
    for method in given:
        require_picklable(method)
    numbers = _unique(_seeds(seeds))
    if not (admitted and chosen and numbers):
        raise ValueError(
            f"expected at least one case, method and seed, got {list(admitted)}, "
            f"{[method.name for method in chosen]}, {numbers}"
        )
    return [
        Run(
            case.name, method.name, seed, settings, case.sha256, method if method in given else None
        )
        for case in admitted.values()
        for method in chosen
        for seed in numbers
    ]


def _seeds(seeds: int | Sequence[int]) -> Sequence[int]:
    """1..n, or those that were given; TypeError or ValueError where they are no seeds."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return range(1, seeds + 1)
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be how many (1..n) or a sequence of integers, got {seeds!r}")
    for seed in seeds:
        check_seed(seed, name="each of seeds")
    return seeds


def _rows_of(
    runs: Sequence[Run], frame: pd.DataFrame, done: Mapping[tuple, Record]
) -> pd.DataFrame:
    """The records of these runs, in their order; ``frame`` has those of ``done`` in its own."""
    place = {key: i for i, key in enumerate(done)}
    rows = [place[run.key] for run in runs if run.is_in(done)]
    if not rows:  # the budget was used up before the first run
        return pd.DataFrame(columns=["case_name", "method", "seed", "settings", "status"])
    return frame.iloc[rows].reset_index(drop=True)


def _unique(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))


def _admitted(case: Case) -> Case:
    """The case, if its reference draws are fit to judge by."""
    if case.reference_fault is not None:
        raise UnreliableReferenceError(
            f"{case.name}: {case.reference_fault}, nothing can be judged by them; make "
            f"{'some' if not case.has_reference else 'others'} with `python -m bridge generate "
            f"{case.name} --database {case.database}`"
        )
    return case
