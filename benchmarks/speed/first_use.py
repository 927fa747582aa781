"""What a newcomer waits for: the first ``make compare``, a later one, a cached Stan program.

    python -m benchmarks.speed.first_use [--results FOLDER]

Clones the committed state of this checkout into a temporary folder with an empty Stan cache and an
empty PyTensor cache, runs ``make compare`` twice there, and times a cached program's start in a
new process. Limits of issue 2: 12 minutes, 60 seconds, 1 second.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import record

ROOT = Path(__file__).resolve().parents[2]
LIMITS = {"first_compare": 720.0, "later_compare": 60.0, "cached_program": 1.0}
CACHED_PROGRAM = """
import time
from posteriordb_cases import load_case
from stan_models import StanProgram
case = load_case("eight_schools-eight_schools_noncentered")
start = time.perf_counter()
StanProgram(case.stan_code, name=case.model_name).density(case.data).dimension
print(time.perf_counter() - start)
"""


def measure() -> dict[str, float]:
    """Wall seconds of the three."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        environment = os.environ | {
            "STAN_MODELS_CACHE": f"{folder}/stan",
            "PYTENSOR_FLAGS": f"base_compiledir={folder}/pytensor",
        }
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        seconds = {}
        for name in ("first_compare", "later_compare"):
            start = time.perf_counter()
            subprocess.run(["make", "compare"], cwd=clone, env=environment, check=True)
            seconds[name] = time.perf_counter() - start
        python = str(clone / ".venv/bin/python")
        command = [python, "-c", CACHED_PROGRAM]
        out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        return seconds | {"cached_program": float(out.stdout)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/speed/results")
    arguments = parser.parse_args()
    seconds = measure()
    for name, value in seconds.items():
        print(f"{name:16s} {value:8.2f} s (limit {LIMITS[name]:.0f} s)")
    record.write(arguments.results / "first_use.json", seconds)
    return 0 if all(value <= LIMITS[name] for name, value in seconds.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
