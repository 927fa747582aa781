"""Runs in processes that end with the one that wants them, and in ones of their own.

python -m bridge.comparison.processes ANSWER     # one run, asked for on stdin: not by hand
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from joblib.externals.loky.backend.reduction import dumps

from bridge.comparison.records import Record
from bridge.comparison.run import Run, failed, run_one
from bridge.errors import DiskFullError

__all__ = ["run_for"]

LOOK = 1.0  # seconds between looks whether the parent is there
# Seconds for what runs to end by itself after its parent, as Stan's programs are ended on Ctrl-C;
# and after its limit, which compiled code may not hear.
GRACE = 5.0
_watched = threading.Event()


def run_for(caller: int, run: Run, out: Path, run_limit: float | None, isolate: bool) -> Record:
    """:func:`run_one` for the process ``caller``, in one of its own if ``isolate``."""
    end_with(caller)
    return isolated(run, out, run_limit) if isolate else run_one(run, out, run_limit)


def end_with(parent: int) -> None:
    """Have this process end soon after ``parent``, where that is its parent: workers of a pool that
    was killed would wait for minutes, and finish what they do."""
    if os.getppid() != parent or _watched.is_set():
        return
    _watched.set()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(GRACE)
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


def isolated(run: Run, out: Path, run_limit: float | None) -> Record:
    """The run in a process of its own; what ends that one, a signal or a limit that compiled code
    did not hear, is the reason of a failed run."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "record"
        try:
            status = subprocess.run(
                [sys.executable, "-m", __name__, str(answer)],
                input=dumps((os.getpid(), run, out, run_limit)),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                timeout=None if run_limit is None else run_limit + GRACE,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            reason = f"TimeoutError: killed {GRACE:g} s after the limit of {run_limit:g} s a run"
            return failed(run, reason, time.perf_counter() - begin)
        if answer.is_file():
            made = pickle.loads(answer.read_bytes())
            if isinstance(made, DiskFullError):
                raise made
            return made
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"
    return failed(run, f"the run ended its process {how}", time.perf_counter() - begin)


def main() -> None:
    """Make the run that stdin asks for, and leave its record in a file."""
    caller, run, out, run_limit = pickle.loads(sys.stdin.buffer.read())
    end_with(caller)
    made: Record | DiskFullError
    try:
        made = run_one(run, out, run_limit)
    except DiskFullError as error:
        made = error
    answer = Path(sys.argv[1])
    part = answer.with_suffix(".part")
    part.write_bytes(dumps(made))
    part.replace(answer)


if __name__ == "__main__":
    main()
