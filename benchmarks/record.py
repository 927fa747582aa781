"""Results of a benchmark as small JSON: what was measured, on what, with what, when."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "pymc", "pytensor", "arviz", "scikit-learn")


def cpu_model() -> str:
    """Name of the processor as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def environment(*more_packages: str) -> dict[str, Any]:
    """Machine, versions and date."""
    versions = {name: metadata.version(name) for name in (*PACKAGES, *more_packages)}
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores",
        "threads": os.environ.get("OMP_NUM_THREADS", "all"),
        "load_average": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": versions,
    }


def write(path: Path, results: Any, *more_packages: str) -> None:
    """Write ``path`` with the results and the `environment`, ``more_packages`` included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"environment": environment(*more_packages), "results": results}
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def kept(path: Path, key: str | None = None) -> dict[str, Any]:
    """The results in ``path``, or their entry ``key``; empty before the first `write`."""
    if not path.is_file():
        return {}
    results = json.loads(path.read_text(encoding="utf-8"))["results"]
    return results if key is None else results[key]


class Runs:
    """Runs of a benchmark, each kept as it ends, so that none is made twice.

    Parameters
    ----------
    path
        File of the results.
    entry
        Their entry that holds the runs by key.
    others
        The other entries.
    """

    def __init__(self, path: Path, entry: str, **others: Any) -> None:
        self.path, self.entry, self.others = path, entry, others
        self.made = kept(path, entry)

    def __call__(self, key: str, make: Callable[..., Any], *arguments: Any) -> Any:
        """The run of that key; ``make(*arguments)`` where it is missing."""
        if key not in self.made:
            self.made[key] = make(*arguments)
            write(self.path, {**self.others, self.entry: self.made})
        return self.made[key]
