"""What graphs cost that NumPy runs, from which `pymc_ext.pytensor_modes` has its constants.

    python -m benchmarks.speed.by_numpy [--kinds PATTERN ...] [--out FILE]

Of each kind of model of `benchmarks.speed.model_kinds` the log density with its score of 5,000
draws in calls of 32, and of one draw a call, in CPU seconds, the least of three: by bare calls of
NumPy's functions, and by PyTensor's own Python code of the same graph; beside that what the rule
predicts. Kinds that are loops, have no score, or need a compiler are left out. Run it with
OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Callable, Mapping
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pytensor.tensor as pt

from benchmarks.record import write
from benchmarks.speed.model_kinds_models import KINDS
from pymc_ext.density import PyMCDensity
from pymc_ext.numpy_linker import bare_function
from pymc_ext.over_draws import has_scan
from pymc_ext.pytensor_modes import DRAWS, DRAWS_A_CALL, numpy_mode, predicted_seconds

RESULTS = Path(__file__).parent / "results" / "by_numpy.json"
CALLS, TIMES = 30, 3
Numbers = dict[str, float]


def measured(density: PyMCDensity) -> Numbers | None:
    """One kind; None where NumPy does not run it."""
    if has_scan([density.logp]):
        return None
    rows = pt.matrix("rows", shape=(None, density.dimension))
    lp = density.logp_of_rows(rows)
    outputs = [lp, pt.grad(lp.sum(), rows)]
    bare = density.compile([rows], outputs, mode=numpy_mode())
    seconds = predicted_seconds(bare)
    if seconds is None:
        return None
    theta = 0.3 * np.random.default_rng(1).normal(size=(DRAWS_A_CALL, density.dimension))
    nodes = bare.maker.fgraph.apply_nodes
    found = {
        "operations": len(nodes),
        "bare": sum(bare_function(node.op, node) is not None for node in nodes),
        "predicted_s": seconds,
    }
    for name, f in {
        "numpy": bare,
        "perform": density.compile([rows], outputs, mode=numpy_mode("py")),
    }.items():
        found[f"{name}_s"] = DRAWS / DRAWS_A_CALL * least_seconds(lambda f=f: f(theta))
        found[f"{name}_call_us"] = 1e6 * least_seconds(lambda f=f: f(theta[:1]))
    return found


def least_seconds(call: Callable[[], object]) -> float:
    """CPU seconds of a call, after one that counts for nothing."""
    call()
    taken = []
    for _ in range(TIMES):
        begin = time.process_time()
        for _ in range(CALLS):
            call()
        taken.append((time.process_time() - begin) / CALLS)
    return min(taken)


def report(made: Mapping[str, Numbers]) -> None:
    """A line a kind, and the ratios."""
    print(f"{'kind':26}{'operations':>11}{'bare':>6}{'predicted s':>12}{'NumPy s':>9}"
          f"{'one draw, µs':>13}{'by perform':>11}")  # fmt: skip
    for kind, n in made.items():
        print(
            f"{kind:26}{n['operations']:11.0f}{n['bare']:6.0f}{n['predicted_s']:12.2f}"
            f"{n['numpy_s']:9.2f}{n['numpy_call_us']:13.0f}{n['perform_call_us']:11.0f}"
        )
    ratios = [n["perform_call_us"] / n["numpy_call_us"] for n in made.values()]
    print(f"one draw by perform takes {np.median(ratios):.1f} times as long in median, "
          f"{min(ratios):.1f} to {max(ratios):.1f}")  # fmt: skip


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", default=["*"], metavar="PATTERN")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.getLogger("pytensor").setLevel(logging.ERROR)
    made = {}
    for kind, make in KINDS.items():
        if any(fnmatch(kind, pattern) for pattern in arguments.kinds):
            try:
                found = measured(PyMCDensity(make()))
            except NotImplementedError:  # no score
                continue
            made |= {} if found is None else {kind: found}
    report(made)
    write(arguments.out, made)


if __name__ == "__main__":
    main()
