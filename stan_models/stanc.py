"""Stan's compiler front end ``stanc``: the one place that runs it, and what it is run on."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from stan_models.errors import StanCompileError
from stan_models.toolchain import Toolchain


class Source(Protocol):
    """A Stan program as text, before it is compiled; a `StanProgram` is one.

    ``name`` goes into messages, ``path`` is the file it was given as, if any, and ``source`` the
    text with every include in its place.
    """

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> Path | None: ...
    @property
    def source(self) -> str: ...
    @property
    def toolchain(self) -> Toolchain: ...
    def __hash__(self) -> int: ...


def run_stanc(program: Source, options: Sequence[str], file: Path | None = None) -> str:
    """What stanc prints for ``program``.

    Parameters
    ----------
    program
        Named in messages; it says which stanc runs.
    options
        Of stanc's command line.
    file
        The file stanc reads; None: one made of ``program.source``.

    Raises
    ------
    StanCompileError
        The program is not valid; the message is stanc's own, with the line.
    """
    if file is None:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / f"{program.name}.stan"
            copy.write_text(program.source)
            return run_stanc(program, options, copy)
    shown = program.path.name if program.path else f"{program.name}.stan"
    command = [str(program.toolchain.stanc), f"--filename-in-msg={shown}", *options, str(file)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise StanCompileError(
            f"Stan program {program.name!r} is not valid:\n{answer.stderr.strip()}"
        )
    return answer.stdout
