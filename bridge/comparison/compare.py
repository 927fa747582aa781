"""Cases × methods × seeds, each run judged against the truth, under joblib, resumable."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from bridge.errors import DiskFullError, UnreliableReferenceError
from bridge.judge import judge
from bridge.methods import METHODS, find_methods
from bridge.problem import Problem
from bridge.records import Records
from bridge.storage import store
from bridge.time_limit import can_limit, time_limit
from posteriordb_cases import Case, load_case

_log = logging.getLogger(__name__)
_TURN = threading.Lock()  # two threads in one compiled PyTensor function end the process


@dataclass(frozen=True)
class Settings:
    """What a run depends on besides case, method and seed."""

    draws: int = 20_000
    repetitions: int = 5
    database: str | None = None

    def __post_init__(self) -> None:
        if self.repetitions < 1 or self.draws < 200 * self.repetitions:
            raise ValueError(
                "need repetitions >= 1 and at least 200 draws for each k̂, got "
                f"draws={self.draws}, repetitions={self.repetitions}"
            )

    def key(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


@dataclass(frozen=True)
class Run:
    """One cell of a comparison."""

    case_name: str
    method: str
    seed: int
    settings: Settings

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (self.case_name, self.method, self.seed, self.settings.key())

    @property
    def draws_file(self) -> str:
        return f"draws/{self.case_name}/{self.method}-{self.seed}.nc"


def compare(
    cases: Sequence[str] | str,
    methods: Sequence[str] | None = None,
    seeds: int | Sequence[int] = 3,
    *,
    out: str | os.PathLike[str],
    database: str | os.PathLike[str] | None = None,
    draws: int = 20_000,
    repetitions: int = 5,
    retry_failed: bool = False,
    budget: float | None = None,
    run_limit: float | None = None,
    on_record: Callable[[dict[str, Any], int, int], None] | None = None,
) -> pd.DataFrame:
    """Run methods on cases and judge each run against the cases' reference draws.

    Each finished run is committed to ``out/records.sqlite`` before the next is awaited, and its
    draws are stored in ``out/draws``; a comparison that was interrupted goes on where it stopped.
    Runs go through :class:`joblib.Parallel`, so ``joblib.parallel_config(n_jobs=…, backend=…)``
    around the call says where. Threads of one process take turns, as PyTensor's functions need:
    only processes make it faster.

    Parameters
    ----------
    cases
        Names of posteriors in the database.
    methods
        Names from ``python -m bridge list``; those it marks as default for None.
    seeds
        How many (seeds 1..n), or which.
    out
        Folder of the results.
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
    on_record
        Called as ``on_record(record, done, total)`` after each run, for progress.

    Returns
    -------
    pandas.DataFrame
        One row a run: ``status`` is "ok" or "failed" (then ``reason`` says why), and the columns of
        :func:`bridge.judge.judge`; ``cpu_seconds`` is the fit's CPU time, that of programs it ran
        included, which other load on the machine does not lengthen.

    Raises
    ------
    UnknownMethodError, ValueError
        No such method or case, with the near names.
    UnreliableReferenceError
        The reference draws of a case failed checks of posteriordb's.
    DiskFullError
        What was done by then is on record.

    Examples
    --------
    >>> frame = compare("eight_schools_noncentered", ["pymc-advi"], seeds=1, out="results")
    ... # doctest: +SKIP
    """
    names = [cases] if isinstance(cases, str) else cases
    case_names = _unique(_admitted(load_case(name, database=database)) for name in names)
    chosen = _unique(method.name for method in find_methods(methods))
    seed_list = _unique(range(1, seeds + 1) if isinstance(seeds, int) else seeds)
    if not (case_names and chosen and seed_list):
        raise ValueError(
            f"expected at least one case, method and seed, got {case_names}, {chosen}, {seed_list}"
        )
    where = None if database is None else os.fspath(database)
    settings = Settings(draws=draws, repetitions=repetitions, database=where)
    out = Path(out)
    records = Records(out / "records.sqlite")
    runs = [Run(c, m, s, settings) for c in case_names for m in chosen for s in seed_list]
    done = records.keys(status="ok" if retry_failed else None)
    pending = [run for run in runs if run.key not in done]
    if len(pending) < len(runs):
        _log.info("%d of %d runs are on record in %s", len(runs) - len(pending), len(runs), out)
    tasks = (delayed(run_one)(run, out, run_limit) for run in _until(pending, budget))
    for number, record in enumerate(_finished(tasks), start=len(runs) - len(pending) + 1):
        records.add(record)
        if on_record is not None:
            on_record(record, number, len(runs))
    return _rows_of(runs, records.frame())


def _rows_of(runs: Sequence[Run], frame: pd.DataFrame) -> pd.DataFrame:
    """The records of these runs, in their order."""
    columns = ["case_name", "method", "seed", "settings"]
    if frame.empty:  # the budget was used up before the first run
        return pd.DataFrame(columns=[*columns, "status"])
    at = {key: i for i, key in enumerate(frame[columns].itertuples(index=False, name=None))}
    return frame.iloc[[at[run.key] for run in runs if run.key in at]].reset_index(drop=True)


def _unique(values: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def _admitted(case: Case) -> str:
    """The name of a case, if its reference draws are fit to judge by."""
    if case.failed_checks:
        raise UnreliableReferenceError(
            f"the reference draws of {case.name} failed the admission checks "
            f"{', '.join(case.failed_checks)}: nothing can be judged by them; make others with "
            f"`python -m bridge generate {case.name}`"
        )
    return case.name


def _finished(tasks: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Results of joblib's ``tasks`` as they end, or a round at a time where it cannot say more."""
    backend, _ = get_active_backend()
    if backend.supports_return_generator:
        yield from Parallel(return_as="generator_unordered", pre_dispatch="n_jobs")(tasks)
        return
    while batch := list(islice(tasks, effective_n_jobs())):  # ray, which answers when all is done
        yield from Parallel()(batch)


def _until(pending: Sequence[Run], budget: float | None) -> Iterator[Run]:
    """The runs, until ``budget`` seconds have passed."""
    begin = time.monotonic()
    for number, run in enumerate(pending):
        if budget is not None and time.monotonic() - begin > budget:
            _log.info("budget of %g s used up: %d runs left", budget, len(pending) - number)
            return
        yield run


def run_one(run: Run, out: Path, run_limit: float | None = None) -> dict[str, Any]:
    """Fit, judge and store one run; a failure becomes a record with its reason."""
    record: dict[str, Any] = {
        "case_name": run.case_name,
        "method": run.method,
        "seed": run.seed,
        "settings": run.settings.key(),
    }
    logging.getLogger("pymc").setLevel(logging.WARNING)  # pm.fit announces the end of every run
    logging.getLogger("pytensor.tensor.blas").setLevel(logging.ERROR)  # that pip brings no BLAS
    with _TURN:
        start = time.perf_counter()
        record |= _outcome(run, out, run_limit)
        return record | {"total_seconds": time.perf_counter() - start}


def _outcome(run: Run, out: Path, run_limit: float | None) -> dict[str, Any]:
    """Scores, or the reason why there are none."""
    try:
        with time_limit(run_limit if can_limit() else None):
            record = _fit_and_judge(run, out)
    except DiskFullError:  # says nothing about the method: the run is made when there is room
        raise
    except Exception as error:
        _log.debug("%s failed", run, exc_info=True)
        reason = f"{type(error).__name__}: {error}"
        return {"status": "failed", "reason": reason, "traceback": traceback.format_exc()}
    if run_limit is not None and not can_limit():
        text = "time limit not enforced: this worker's runs are not in its main thread"
        record["notes"] = "; ".join(filter(None, [record.get("notes"), text]))
    return record


def _fit_and_judge(run: Run, out: Path) -> dict[str, Any]:
    problem = _problem(run.case_name, run.settings.database)
    record: dict[str, Any] = {"representation": _representation(problem, run.method)}
    before = _cpu_seconds()
    fit = METHODS[run.method].run(problem, run.settings.draws, run.seed)
    record["cpu_seconds"] = _cpu_seconds() - before
    record |= judge(problem, fit, repetitions=run.settings.repetitions)
    store(fit, out / run.draws_file)
    return record | {"status": "ok", "draws_file": run.draws_file}


def _cpu_seconds() -> float:
    """CPU time of this process and of the programs it ran: what other load does not lengthen."""
    return sum(os.times()[:4])


def _representation(problem: Problem, method: str) -> str:
    """The form of the posterior the method works on."""
    form = METHODS[method].representation
    return "stan in pymc" if form == "pymc" and not problem.uses_port else form


@lru_cache(maxsize=4)
def _problem(case_name: str, database: str | None) -> Problem:
    return Problem(load_case(case_name, database=database))
