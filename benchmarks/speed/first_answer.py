"""What a user waits for: from the start of a process to draws that are judged, in one table.

    .venv/bin/python -m benchmarks.speed.first_answer [--rows PATTERN ...] [--repeat 3]
    .venv313/bin/python -m benchmarks.speed.first_answer

Each row is one new process, timed from outside: wall seconds, and CPU seconds of the process and
its children. ``cold`` begins with empty caches of compiled code (PyTensor's and numba's, any other
below XDG_CACHE_HOME); ``other`` with what the same method left there for another model (the other
Stan program, or a regression with groups), as a user's next model does; ``warm`` is the same again.
Stan programs are compiled before. An answer is
1,000 draws with k̂ and the ELBO (families), or 4 chains of 1,000 with R-hat and effective sample
size (samplers). `import s` are the wall seconds within import statements, `functions` the PyTensor
functions compiled in the process itself. A row ``later`` is the wait in a process that has fitted
a flow to another model before: that of the whole second fit less that of compiling the second
model's log density and gradient, both measured after the same first fit. Rows not chosen keep
their numbers in the results, ``first_answer_<PyMC's major version>.json``.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks import record

ROOT = Path(__file__).resolve().parents[2]
CHILD, ANSWER = "benchmarks.speed.first_answer_child", "ANSWER "
CACHES = ("cold", "other", "warm")
STAN = ("eight-schools", "logistic")
FAMILIES = ("laplace", "mixed-eig", "bernstein-3000", "bernstein")
SAMPLERS = ("nuts-first-1-core", "nuts-first", "nuts-1-core", "nuts", "nuts-nutpie")
ROWS = (
    "stan/-/import",
    *(
        f"stan/{model}/{method}"
        for model in STAN
        for method in ("nuts", "bridge-laplace", "bridge")
    ),
    "pymc/-/import",
    *(
        f"pymc/{model}/{method}"
        for model in ("eight-schools", "logistic", "poisson")
        for method in ("density", *SAMPLERS, *FAMILIES)
    ),
    "later/eight-schools+logistic/bernstein-3000",
)
TOTALS = ("wall_s", "cpu_s", "import_s", "first_draw_s", "first_kept_draw_s")  # medians of runs
COLUMNS = {
    "wall_s": ("wall s", ".2f"),
    "cpu_s": ("cpu s", ".2f"),
    "import_s": ("import s", ".2f"),
    "first_draw_s": ("1st draw", ".2f"),
    "compiled_functions": ("functions", "d"),
    "khat": ("k̂", ".2f"),
    "rhat": ("R-hat", ".3f"),
    "ess": ("ESS", ".0f"),
    "elbo": ("ELBO", ".2f"),
}


def chosen(patterns: Iterable[str] | None) -> list[str]:
    """The rows that match one of the patterns, in the table's order; all where there are none.

    Raises
    ------
    ValueError
        A pattern matches no row.
    """
    patterns = ["*"] if patterns is None else list(patterns)
    for pattern in patterns:
        if not fnmatch.filter(ROWS, pattern):
            raise ValueError(f"no row matches {pattern!r}; there are {', '.join(ROWS)}")
    return [row for row in ROWS if any(fnmatch.fnmatchcase(row, p) for p in patterns)]


def surroundings(caches: Path) -> dict[str, str]:
    """Environment of a child whose compiled code lies in ``caches``; Stan's stays where it is."""
    home = os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    flags = [os.environ.get("PYTENSOR_FLAGS", ""), f"base_compiledir={caches}/pytensor"]
    return {
        "STAN_MODELS_CACHE": f"{home}/stan_models",
        "MPLCONFIGDIR": f"{home}/matplotlib",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "PYTENSOR_FLAGS": ",".join(filter(None, flags)),
        "NUMBA_CACHE_DIR": f"{caches}/numba",
        "XDG_CACHE_HOME": f"{caches}/xdg",
    }


def run(row: str, caches: Path, folder: Path, limit: float | None = None) -> dict[str, Any]:
    """One process: what it found, and the seconds it took; ``error`` where it failed."""
    command = [sys.executable, "-m", CHILD, row, str(folder)]
    before, start, clock = children_seconds(), time.perf_counter(), time.time()
    try:
        ended = subprocess.run(
            command, env=surroundings(caches), capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {limit:.0f} s"}
    found = answer(ended.stdout, ended.stderr)
    for name in ("first_draw", "first_kept_draw"):  # times of day, as the child saw them
        if name in found:
            found[f"{name}_s"] = found.pop(name) - clock
    found["wall_s"] = time.perf_counter() - start
    found["cpu_s"] = children_seconds() - before
    return found | {"load_average": os.getloadavg()[0]}


def children_seconds() -> float:
    """CPU seconds of all children that ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def answer(out: str, errors: str) -> dict[str, Any]:
    """The last line of a child's output as data; else ``error``, the last line of its errors."""
    lines = [line for line in out.splitlines() if line.startswith(ANSWER)]
    if lines:
        return json.loads(lines[-1].removeprefix(ANSWER))
    return {"error": (errors.strip().splitlines() or ["no output"])[-1]}


def assembled(row: str, cache: str, runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One row of the table from its runs: medians of seconds, the rest from the last run."""
    _, model, method = row.split("/")
    fixed = {"row": row, "model": model, "method": method, "cache": cache}
    failed = [run for run in runs if "error" in run]
    if failed:
        return fixed | failed[0]
    medians = {
        name: round(statistics.median(run[name] for run in runs), 3)
        for name in TOTALS
        if name in runs[0]
    }
    walls = {"wall_s_of_runs": [round(run["wall_s"], 3) for run in runs]} if len(runs) > 1 else {}
    return fixed | runs[-1] | medians | walls


def difference(flow: dict[str, Any], density: dict[str, Any]) -> dict[str, Any]:
    """The run of a row ``later``: a flow's second fit less the second model's compilation."""
    for run_ in (flow, density):
        if "error" in run_:
            return run_
    found = {name: value for name, value in flow.items() if name in ("khat", "elbo")}
    return found | {
        "wall_s": flow["second_wall_s"] - density["second_wall_s"],
        "cpu_s": flow["second_cpu_s"] - density["second_cpu_s"],
        "import_s": flow["second_import_s"],
        "compiled_functions": flow["second_functions"],
        "flow": {"wall_s": flow["second_wall_s"], "cpu_s": flow["second_cpu_s"]},
        "density": {"wall_s": density["second_wall_s"], "cpu_s": density["second_cpu_s"]},
    }


class Bench:
    """Runs rows in a folder of its own; compiled code always lies at one path, as its keys ask.

    Parameters
    ----------
    folder
        For Stan programs, caches and what children write; kept, later calls find caches filled.
    limit
        Seconds of one process.
    """

    def __init__(self, folder: Path, limit: float | None = None) -> None:
        self.folder, self.limit = folder, limit
        folder.mkdir(parents=True, exist_ok=True)
        self.caches, self.kept = folder / "caches", folder / "kept"

    def run(self, row: str) -> dict[str, Any]:
        return run(row, self.caches, self.folder, self.limit)

    def prepare(self, rows: Iterable[str]) -> None:
        """Compile bytecode and the Stan programs of these rows, in a child."""
        models = {row.split("/")[1] for row in rows if row.startswith("stan/")} - {"-"}
        done = self.run(f"prepare/{'+'.join(sorted(models))}/-")
        if "error" in done:
            raise SystemExit(f"nothing measured, the preparation failed: {done['error']}")

    def start_from(self, row: str) -> None:
        """Fill the caches with what a first run of ``row`` leaves."""
        if not self._left_by(row).exists():
            self.first(row)
        shutil.rmtree(self.caches, ignore_errors=True)
        shutil.copytree(self._left_by(row), self.caches)

    def first(self, row: str) -> dict[str, Any]:
        """A run on empty caches; what it leaves in them is kept."""
        shutil.rmtree(self.caches, ignore_errors=True)
        found = self.run(row)
        self.caches.mkdir(exist_ok=True)  # a run may leave nothing
        shutil.copytree(self.caches, self._left_by(row), dirs_exist_ok=True)
        return found

    def _left_by(self, row: str) -> Path:
        return self.kept / row.replace("/", "_")

    def measured(self, row: str, cache: str) -> dict[str, Any]:
        """One run, or for a row ``later`` the difference of two."""
        if row.startswith("later/"):
            second = f"{row.rpartition('/')[0]}/density"
            return difference(*(self.once(r, cache) for r in (row, second)))
        return self.once(row, cache)

    def once(self, row: str, cache: str) -> dict[str, Any]:
        if cache == "cold":
            return self.first(row)
        self.start_from((cache == "other" and donor(row)) or row)
        return self.run(row)


def donor(row: str) -> str | None:
    """The row whose compiled code this one finds in ``other``; None where it has no such state."""
    group, model, method = row.split("/")
    if model == "-" or group == "later":
        return None
    others = STAN if group == "stan" else ("regression",)
    return next(f"{group}/{other}/{method}" for other in others if other != model)


def table(rows: Iterable[dict[str, Any]]) -> str:
    """Readable lines, one a row."""
    lines = [f"{'row':48}{'cache':6}" + "".join(f"{name:>10}" for name, _ in COLUMNS.values())]
    for row in rows:
        line = f"{row['row']:48}{row['cache']:6}"
        if "error" in row:
            lines.append(f"{line}  {row['error'][:88]}")
            continue
        cells = ((row.get(name), form) for name, (_, form) in COLUMNS.items())
        taken = f"  {row['taken']}" if "taken" in row else ""
        lines.append(line + "".join(f"{told(*cell):>10}" for cell in cells) + taken)
    return "\n".join(lines)


def told(value: Any, form: str) -> str:
    return "–" if value is None else format(value, form)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", metavar="PATTERN", help="as 'stan/*'; default all")
    parser.add_argument("--repeat", type=int, default=1, help="processes of each row (default 1)")
    parser.add_argument("--caches", nargs="+", choices=CACHES, default=list(CACHES))
    parser.add_argument("--limit", type=float, default=1200.0, help="seconds of one process")
    parser.add_argument("--results", type=Path, help="JSON file to add to")
    parser.add_argument("--folder", type=Path, help="keep caches there between calls")
    parser.add_argument("--list", action="store_true", help="name the rows, measure nothing")
    arguments = parser.parse_args(argv)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # waiting BLAS threads count as CPU time
    rows = chosen(arguments.rows)
    if arguments.list:
        print("\n".join(rows))
        return 0
    major = metadata.version("pymc").split(".")[0]
    path = arguments.results or ROOT / f"benchmarks/speed/results/first_answer_{major}.json"
    stored: Any = record.kept(path).get("rows", [])
    kept: dict[tuple[str, str], Any] = {(r["row"], r["cache"]): r for r in stored}
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = Bench(folder.absolute(), arguments.limit)
        bench.prepare(rows)
        for row in rows:
            for cache in states(row, arguments.caches):
                runs = [bench.measured(row, cache) for _ in range(arguments.repeat)]
                kept[row, cache] = assembled(row, cache, runs)
                print(table([kept[row, cache]]).partition("\n")[2], flush=True)
                record.write(path, {"rows": in_order(kept.values())}, "numba")
    print("\n" + table(in_order(kept.values())))
    return 0


def states(row: str, wanted: Iterable[str]) -> list[str]:
    """The states of the caches that are wanted and that the row has, cold first."""
    return [c for c in CACHES if c in wanted and (c != "other" or donor(row))]


def in_order(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (ROWS.index(row["row"]), CACHES.index(row["cache"])))


if __name__ == "__main__":
    sys.exit(main())
