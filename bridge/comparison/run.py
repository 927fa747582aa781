"""One run of a comparison: fitted, judged, stored; a failure is a record with its reason."""

from __future__ import annotations

import logging
import os
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from pickle import PicklingError

from joblib.externals.loky.backend.reduction import dumps

from bridge.comparison.judge import judge
from bridge.comparison.problem import CaseProblem
from bridge.comparison.records import Record, plain
from bridge.comparison.settings import Settings, versions
from bridge.comparison.storage import store
from bridge.comparison.time_limit import can_limit, time_limit
from bridge.errors import BrokenMethodError, ChangedCaseError, DiskFullError
from bridge.methods.method import Fit, Method
from bridge.methods.table import find_methods
from posteriordb_cases import load_case

__all__ = ["Run", "Settings", "failed", "require_picklable", "run_one"]

_log = logging.getLogger(__name__)
_TURN = threading.Lock()  # two threads in one compiled PyTensor function end the process


@dataclass(frozen=True)
class Run:
    """One cell of a comparison.

    ``case_sha256`` is of what the case is made of (see `posteriordb_cases.Case.sha256`). ``given``
    is the method where the caller made it; a name is looked up where the run is made, so that our
    own methods need not be sent to other processes.
    """

    case_name: str
    method: str
    seed: int
    settings: Settings
    case_sha256: str
    given: Method | None = field(default=None, repr=False)

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (self.case_name, self.method, self.seed, self.settings.key())

    def is_in(self, done: Mapping[tuple, Record]) -> bool:
        """Whether it is on record, of the case as it is now; records without a digest count."""
        return self.key in done and done[self.key].get("case_sha256") in (None, self.case_sha256)

    @property
    def draws_file(self) -> str:
        return f"draws/{self.case_name}/{self.method}-{self.seed}.nc"


def require_picklable(method: Method) -> None:
    """Check that a method can be sent to another process, as joblib sends it.

    Raises
    ------
    BrokenMethodError
        It cannot; says what of it.
    """
    try:
        dumps(method)
    except (PicklingError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        raise BrokenMethodError(
            f"method {method.name!r} cannot be sent to the processes of a comparison: {error}; "
            "make its `run` a function of a module, or an instance of a class whose attributes can "
            "be pickled"
        ) from error


def run_one(run: Run, out: Path, run_limit: float | None = None) -> Record:
    """Fit, judge and store one run; a failure becomes a record with its reason."""
    logging.getLogger("pymc").setLevel(logging.WARNING)  # pm.fit announces the end of every run
    logging.getLogger("pytensor.tensor.blas").setLevel(logging.ERROR)  # that pip brings no BLAS
    with _TURN:
        start = time.perf_counter()
        record = _of(run) | _outcome(run, out, run_limit)
        return record | {"total_seconds": time.perf_counter() - start}


def failed(run: Run, reason: str, seconds: float) -> Record:
    """The record of a run that gave none."""
    return _of(run) | _failure(reason) | {"total_seconds": seconds}


def _of(run: Run) -> Record:
    return {
        "case_name": run.case_name,
        "method": run.method,
        "seed": run.seed,
        "settings": run.settings.key(),
        "case_sha256": run.case_sha256,
        "versions": versions(),
    }


def _failure(reason: str) -> Record:
    return {"status": "failed", "trusted": False, "reason": reason}


def _outcome(run: Run, out: Path, run_limit: float | None) -> Record:
    """Scores, or the reason why there are none."""
    try:
        with time_limit(run_limit if can_limit() else None):
            record = _fit_and_judge(run, out)
    except DiskFullError:  # says nothing about the method: the run is made when there is room
        raise
    except Exception as error:
        _log.debug("%s failed", run, exc_info=True)
        failure = _failure(f"{type(error).__name__}: {error}")
        return failure | {"traceback": traceback.format_exc()}
    if run_limit is not None and not can_limit():
        text = "time limit not enforced: this worker's runs are not in its main thread"
        record["notes"] = f"{record['notes']}; {text}" if record.get("notes") else text
    return record


def _fit_and_judge(run: Run, out: Path) -> Record:
    problem = _problem(run.case_name, run.settings.database, run.case_sha256)
    (method,) = find_methods([run.method]) if run.given is None else [run.given]
    record: Record = {
        "representation": _representation(problem, method),
        "objective": method.objective,
    }
    before = _cpu_seconds()
    fit = method.run(problem, run.settings.draws, run.seed)
    record["cpu_seconds"] = _cpu_seconds() - before
    if not isinstance(fit, Fit):
        raise TypeError(f"method {method.name!r} must return a bridge.Fit, got {fit!r:.100}")
    record |= judge(problem, fit, repetitions=run.settings.repetitions, seed=run.seed)
    plain(record)  # what cannot be recorded is this run's failure, not the comparison's
    store(fit, out / run.draws_file)
    return record | {"status": "ok", "draws_file": run.draws_file}


def _cpu_seconds() -> float:
    """CPU time of this process and of the programs it ran: what other load does not lengthen."""
    return sum(os.times()[:4])


def _representation(problem: CaseProblem, method: Method) -> str:
    """The form of the posterior the method works on, unless its run says otherwise."""
    form = method.representation
    return "stan in pymc" if form == "pymc" and not problem.uses_port else form


@lru_cache(maxsize=4)
def _problem(case_name: str, database: str | None, sha256: str) -> CaseProblem:
    case = load_case(case_name, database=database)
    if case.sha256 != sha256:
        raise ChangedCaseError(
            f"{case_name} has changed since this comparison began: give the same command again"
        )
    return CaseProblem(case)
