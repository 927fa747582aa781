"""What each family says to each kind of model: ran, or refused with the sentence; with seconds.

    .venv/bin/python -m benchmarks.speed.model_kinds [--kinds PATTERN ...] [--again]
    .venv/bin/python -m benchmarks.speed.model_kinds --page   # docs/model_kinds.md from the results

Each kind is one new process, so that no model finds what another has compiled in memory; PyTensor's
cache of C code is as the machine has it. Families run with their defaults, flows for 500 steps
without a polish; seconds are wall time, compilation included. A run is

``ran``
    with k̂ of its weights and whether these serve (``usable``); of `bridge.fit` the method that it
    took and whether it is trusted.
``refused``
    by a sentence of ours, which is kept.
``fault``
    an error from elsewhere, such as one of PyTensor's: to be mended.

Results are kept as they come in ``results/model_kinds_5.json`` or ``_6.json``, after the major
version of PyMC that made them; the page has a table of each.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import logging
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import record

ROOT = Path(__file__).resolve().parents[2]
MAJORS = (5, 6)  # of PyMC, each with a file of its own
PAGE = ROOT / "docs/model_kinds.md"
OURS = tuple(str(ROOT / package) for package in ("pymc_ext", "bridge", "stan_models"))
METHODS = ("laplace", "mixed-eig", "batch-match", "hierarchical", "bernstein", "bridge.fit")
STEPS, DRAWS, SEED = 500, 100, 1
LIMIT = 900.0  # seconds of one kind's process
ANSWER = "ANSWER "  # begins the line with the runs of a child


def family(name: str, model: Any) -> dict[str, Any]:
    """One family's fit: k̂ of its weights, and whether they serve."""
    import pymc_ext as px

    if name == "bernstein":
        inference = px.BernsteinVI(polish=None, model=model, random_seed=SEED)
        px.fit(inference, n=STEPS, draws=DRAWS, progressbar=False)
    else:
        from pymc_ext.variational.names import family as named

        inference = named(name, model=model, random_seed=SEED)
        px.fit(inference, draws=DRAWS, progressbar=False)
    result = inference.approx.result
    return {"khat": result.khat, "usable": result.usable}


def answer(model: Any) -> dict[str, Any]:
    """`bridge.fit`: what it took, and whether it is trusted."""
    import bridge

    advice = bridge.fit(model, random_seed=SEED, progressbar=False)
    return {"taken": advice.method, "trusted": advice.trusted, "doubts": list(advice.doubts)}


def attempted(run: Callable[[Any], dict[str, Any]], make: Callable[[], Any]) -> dict[str, Any]:
    """One run on a model of its own: what it found, or what it was refused with."""
    model, begin = make(), time.perf_counter()
    try:
        found = {"state": "ran", **run(model)}
    except Exception as error:  # whatever it is, it is what the table is about
        where = traceback.extract_tb(error.__traceback__)[-1].filename
        state = "refused" if where.startswith(OURS) else "fault"
        found = {"state": state, "error": type(error).__name__, "sentence": str(error)}
    return found | {"seconds": round(time.perf_counter() - begin, 1)}


def child(kind: str) -> None:
    """All runs of one kind; the last line of the output has them."""
    from functools import partial

    from benchmarks.speed.model_kinds_models import KINDS

    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    runs = {}
    for name in METHODS:
        run = answer if name == "bridge.fit" else partial(family, name)
        runs[name] = attempted(run, KINDS[kind])
    print(ANSWER + json.dumps({"title": KINDS[kind].__doc__, "runs": runs}))


def measured(kind: str) -> dict[str, Any]:
    """The runs of one kind, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed.model_kinds", "--child", kind]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(ANSWER)]
    if not lines:
        raise RuntimeError(f"{kind}: no answer; {ended.stderr.strip()[-2000:]}")
    return json.loads(lines[-1].removeprefix(ANSWER))


def results_file(major: int) -> Path:
    """Where the runs with this major version of PyMC are kept."""
    return ROOT / f"benchmarks/speed/results/model_kinds_{major}.json"


def stored_results() -> list[dict[str, Any]]:
    """Results and environment of each version that has any."""
    files = [file for file in map(results_file, MAJORS) if file.is_file()]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


# ---------------------------------------------------------------- the page

HEAD = """# Which models the families take

{kinds} kinds of models as PyMC's users write them, each on some 80 rows of simulated data, and what
each family says to them with its defaults (flows with {steps} steps, no polish). The page is made
by `python -m benchmarks.speed.model_kinds --page` from
`benchmarks/speed/results/model_kinds_5.json` and `_6.json`; the models are in
`benchmarks/speed/model_kinds_models.py`.

Seconds are of the clock, compilation included; the first column has PyTensor's start, too, and what
it compiles the others find. **Bold**: importance weights of the fit serve (k̂ < 0.7, or weights that
hardly differ); of `bridge.fit`: trusted. A number in plain type is a fit whose draws are not the
posterior's, and which says so, or one on `pm.Minibatch` data, which cannot be judged. A letter is a
refusal, whose sentence is below.
"""


def page(stored: Sequence[dict[str, Any]]) -> str:
    """As Markdown: of each file of results a table, refusals as notes below all."""
    letters: dict[str, str] = {}
    parts = [HEAD.format(kinds=len(stored[0]["results"]), steps=STEPS).rstrip()]
    for each in stored:
        parts += [_title(each["environment"]), _table(each["results"], letters)]
    notes = [f"- **{letter}**: {sentence}" for sentence, letter in letters.items()]
    parts += ["## What refusals say", "\n".join(notes)]
    for each in stored:
        pymc = each["environment"]["versions"]["pymc"]
        parts += [f"## Where `bridge.fit` went on to something else, PyMC {pymc}"]
        parts += ["\n".join(_went_on(each["results"]))]
    return "\n\n".join(parts) + "\n"


def _title(environment: dict[str, Any]) -> str:
    versions, machine = environment["versions"], environment["machine"]
    where = f"{environment['date']}, Python {environment['python']}, {machine}, beside other jobs."
    return f"## PyMC {versions['pymc']}\n\n{where}"


def _table(results: dict[str, Any], letters: dict[str, str]) -> str:
    names = [name if name == "bridge.fit" else f'"{name}"' for name in METHODS]
    rows = ["| model | " + " | ".join(f"`{name}`" for name in names) + " |"]
    rows += ["|---" * (len(METHODS) + 1) + "|"]
    for entry in results.values():
        cells = [_cell(entry["runs"][name], letters) for name in METHODS]
        rows.append(f"| {entry['title']} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def _went_on(results: dict[str, Any]) -> list[str]:
    return [
        f"- {entry['title']}: {run['taken']}"
        + (f", not trusted: {run['doubts'][0]}" if not run["trusted"] else "")
        for entry in results.values()
        if (run := entry["runs"]["bridge.fit"])["state"] == "ran" and run["taken"] != "hierarchical"
    ]


def _cell(run: dict[str, Any], letters: dict[str, str]) -> str:
    if run["state"] != "ran":
        sentence = run["sentence"].replace("\n", " ")
        return letters.setdefault(sentence, chr(ord("a") + len(letters)))
    good = run.get("usable") or run.get("trusted")
    return f"**{run['seconds']:.0f}**" if good else f"{run['seconds']:.0f}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", metavar="PATTERN", default=["*"])
    parser.add_argument("--again", action="store_true", help="run kinds that have results, too")
    parser.add_argument("--page", action="store_true", help="write the page, run nothing")
    parser.add_argument("--child", metavar="KIND", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.child:
        child(arguments.child)
        return 0
    file = results_file(int(version("pymc").split(".")[0]))
    results = record.kept(file)
    if not arguments.page:
        from benchmarks.speed.model_kinds_models import KINDS

        for name in KINDS:
            wanted = any(fnmatch.fnmatchcase(name, p) for p in arguments.kinds)
            if wanted and (arguments.again or name not in results):
                results[name] = measured(name)
                ordered = {kind: results[kind] for kind in KINDS if kind in results}
                record.write(file, ordered, "nutpie")
                print(name, *(f"{k}={r['state']}" for k, r in results[name]["runs"].items()))
    PAGE.write_text(page(stored_results()), encoding="utf-8")
    faults = [
        n for n, e in results.items() if any(r["state"] == "fault" for r in e["runs"].values())
    ]
    if faults:
        print(f"faults, which are to be mended: {', '.join(faults)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
