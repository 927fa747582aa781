"""The commands that need PyMC, ArviZ and joblib."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import joblib
import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bridge.comparison.cluster import cluster
from bridge.comparison.compare import compare
from bridge.comparison.folder import ZOO_RECORDS
from bridge.comparison.records import Record, Records
from bridge.comparison.shards import merge
from bridge.comparison.sweep import cases_with_reference, sweep
from bridge.errors import BridgeError
from bridge.reference.generate import generate
from bridge.report.files import write
from bridge.report.html_report import html_report
from bridge.report.stored import read_records
from bridge.report.summary import failure_lines
from bridge.report.terminal import LEGEND, rich_tables
from bridge.zoo import rates
from bridge.zoo.sweep import sweep_zoo
from posteriordb_cases import load_case
from posteriordb_cases.files import read_json
from posteriordb_cases.writer import refusal_path
from posteriordb_cases.zoo import ZOO
from stan_models.errors import StanError

COLUMNS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


def compare_command(arguments: argparse.Namespace, console: Console) -> int:
    """Judge methods against reference draws."""
    with joblib.parallel_config(n_jobs=arguments.jobs):
        return _run(arguments, console, compare, arguments.cases)


def sweep_command(arguments: argparse.Namespace, console: Console) -> int:
    """Every posterior with reference draws; or the zoo."""
    if arguments.zoo is not None:
        return _zoo(arguments, console)
    cases = cases_with_reference(arguments.database)
    options = {
        "budget": arguments.budget, "run_limit": arguments.run_limit, "shard": arguments.shard
    }  # fmt: skip
    with cluster(arguments.backend, arguments.jobs):
        return _run(arguments, console, sweep, cases, **options)


def _zoo(arguments: argparse.Namespace, console: Console) -> int:
    """False trust and false refusal of `bridge.fit`; 1 where anything wrong was trusted."""

    def said(record: Record) -> str:
        verdict = "trusted" if record["trusted"] else "not trusted"
        return f"{record['case_name']}, seed {record['seed']}: {verdict}"

    with _followed(console, said) as (on_record, _):
        with cluster(arguments.backend, arguments.jobs):
            frame = sweep_zoo(
                arguments.zoo or None,
                arguments.seeds,
                out=arguments.out,
                methods=arguments.methods,
                draws=arguments.draws,
                budget=arguments.budget,
                shard=arguments.shard,
                on_record=on_record,
            )
    return 0 if _print_rates(frame, console).false_trust == 0 else 1


def _print_rates(frame: pd.DataFrame, console: Console) -> rates.Rates:
    """How often verdicts on the zoo were wrong, a line a target and in all."""
    found = rates.rates(frame)
    table = Table(*rates.HEADINGS, box=None)
    for row in rates.rows(frame, list(ZOO)):
        table.add_row(*row)
    console.print(table, highlight=False)
    console.print(rates.LEGEND, highlight=False)
    console.print(str(found), highlight=False)
    return found


def merge_command(arguments: argparse.Namespace, console: Console) -> int:
    """The records of several sweeps in one folder, with its tables."""
    for path in merge(arguments.folders, arguments.out):
        if path.name == ZOO_RECORDS:
            frame = Records(path).frame()
            _print_rates(frame.rename(columns={"case_name": "target"}), console)
            continue
        frame = read_records(arguments.out)
        files = write(frame, arguments.out)
        _print_results(frame, console)
        cases = frame["case_name"].nunique()
        console.print(
            f"{len(frame)} runs on {cases} posteriors, {len(files)} tables and figures in "
            f"{arguments.out}"
        )
    return 0


@contextmanager
def _followed(
    console: Console, said: Callable[[Record], str]
) -> Iterator[tuple[Callable[[Record, int, int], None], Callable[[str, int], None]]]:
    """A bar that each record moves on; and what fills it, with other words beside it."""
    with Progress(*COLUMNS, console=console, transient=True) as progress:
        task = progress.add_task("preparing", total=None)

        def on_record(record: Record, done: int, total: int) -> None:
            progress.update(task, description=said(record), completed=done, total=total)

        def say(text: str, total: int) -> None:
            progress.update(task, description=text, completed=total, total=total)

        yield on_record, say


def _run(
    arguments: argparse.Namespace,
    console: Console,
    runner: Callable[..., pd.DataFrame],
    cases: Sequence[str],
    **options: float | str | None,
) -> int:
    def said(record: Record) -> str:
        return f"{record['method']} on {record['case_name']}: {record['status']}"

    with _followed(console, said) as (on_record, say):
        frame = runner(
            cases,
            arguments.methods,
            arguments.seeds,
            out=arguments.out,
            database=arguments.database,
            draws=arguments.draws,
            retry_failed=arguments.retry_failed,
            isolate=arguments.isolate,
            on_record=on_record,
            **options,
        )
        if frame.empty:
            raise ValueError("no run was started within the budget: give more seconds")
        say("writing tables and figures", len(frame))
        paths = write(frame, arguments.out)
    _print_results(frame, console)
    console.print(f"{len(paths)} files in {arguments.out}: {', '.join(p.name for p in paths)}")
    return 0 if (frame["status"] == "ok").any() else 1


def _print_results(frame: pd.DataFrame, wide: Console) -> None:
    for table in rich_tables(frame):
        wide.print(table)
    wide.print(LEGEND, highlight=False)
    for line in failure_lines(frame):
        wide.print(line, highlight=False, markup=False)


def calibrate_command(arguments: argparse.Namespace, console: Console) -> int:
    """Simulation-based calibration; 1 where fits that are trusted, or all, are not calibrated."""
    from bridge.calibration.calibrate import calibrate
    from bridge.calibration.files import read_data, read_functions, read_model

    def said(record: Record) -> str:
        verdict = "trusted" if record["trusted"] else "not trusted"
        return f"simulation {record['seed']}: {record['status']}, {verdict}"

    model = read_model(arguments.model)
    functions = {} if arguments.simulate is None else read_functions(arguments.simulate)
    data = None if arguments.data is None else read_data(arguments.data)
    with _followed(console, said) as (on_record, _), cluster(arguments.backend, arguments.jobs):
        found = calibrate(
            model,
            arguments.method,
            arguments.simulations,
            data=data,
            out=arguments.out,
            random_seed=arguments.seed,
            retry_failed=arguments.retry_failed,
            budget=arguments.budget,
            on_record=on_record,
            prior=functions.get("prior"),
            simulator=functions.get("simulator"),
        )
    console.print(str(found), highlight=False, markup=False)
    names = [path.name for path in found.write(arguments.out)]
    console.print(f"{', '.join(names)} in {arguments.out}", highlight=False)
    return 0 if found.calibrated(fits="trusted") else 1


def report_command(arguments: argparse.Namespace, console: Console) -> int:
    """One HTML page on the records of a sweep."""
    with console.status("writing the report ..."):
        paths = html_report(arguments.folder, arguments.out)
    console.print(f"{paths[0]} and {len(paths) - 1} tables and figures written", highlight=False)
    return 0


def generate_command(arguments: argparse.Namespace, console: Console) -> int:
    """Make reference draws of cases, one after the other; 1 where some are refused.

    What is there, or was refused before, is left as it is: a command that was stopped goes on.
    """
    settled = True
    for name in arguments.names:
        with console.status(f"sampling {name} ..."):
            admitted, said = _generated(name, arguments)
        settled &= admitted
        console.print(f"{name}: {said}", highlight=False, markup=False)
    return 0 if settled else 1


def _generated(name: str, arguments: argparse.Namespace) -> tuple[bool, str]:
    """Whether there are reference draws of a case, and how they came about."""
    case = load_case(name, arguments.database)
    refused = refusal_path(case.database, case.reference_name or case.name)
    if not arguments.overwrite and case.reference_fault is None:
        return True, "has reference draws (--overwrite makes them again)"
    try:
        before = read_json(refused) if refused.is_file() else {}
        tried = bool(before) and not case.changes_since(before.get("made_of"))
        if tried and not (arguments.overwrite or arguments.retry_refused):
            why = before["refused"]
            return False, f"was refused before (--retry-refused tries again): {why}"
        path = generate(
            name,
            database=arguments.database,
            random_seed=arguments.seed,
            timeout=arguments.timeout,
        )
    except (BridgeError, StanError, ValueError, FileNotFoundError) as error:  # no end of others
        kept = "; the draws that were there stay" if case.has_reference else ""
        return False, f"refused: {error}{kept}"
    info = load_case(name, arguments.database).reference_info
    assert info is not None
    found = info["diagnostics"]
    ess = (*found["effective_sample_size_bulk"], *found["effective_sample_size_tail"])
    return True, (
        f"{found['ndraws']:,} draws in {info['inference']['seconds']:,} s, R-hat at most "
        f"{max(found['r_hat']):.4f}, ESS at least {min(ess):,.0f}, no divergences: {path}"
    )
