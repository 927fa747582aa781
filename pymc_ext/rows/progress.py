"""Where a pass over rows is, kept in a file, from which a killed one goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from os import PathLike
from pathlib import Path

import numpy as np

from pymc_ext.maths.array_file import read_arrays, write_arrays
from pymc_ext.maths.types import Array

SECONDS = 5.0  # between two writes: what a kill loses at most
MARK = "of"  # name of the entry that says what the file belongs to


class Progress:
    """Arrays in a file that is either the old one or the new one, at most every `SECONDS`.

    Parameters
    ----------
    path
        The file; None keeps nothing.
    of
        What the arrays belong to; a file of anything else is refused.

    Raises
    ------
    FileNotFoundError
        The folder is not there.
    ValueError
        The file is of other rows, another model or other options, or is no such file.
    """

    def __init__(self, path: str | PathLike[str] | None, of: str) -> None:
        self.path, self.of = None if path is None else Path(path), of
        self.found: dict[str, Array] = {}
        self._written = time.monotonic()
        if self.path is None:
            return
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"create the folder {self.path.parent} of the checkpoint first")
        if self.path.exists():
            self.found = self._read(self.path)

    def _read(self, path: Path) -> dict[str, Array]:
        try:
            arrays = read_arrays(path)
        except ValueError as error:
            raise ValueError(f"{path} is no checkpoint ({error}): give another name") from error
        if str(arrays.pop(MARK, "")) != self.of:
            raise ValueError(
                f"the checkpoint {path} is of other rows, another model or other options: delete "
                "it, or give another name"
            )
        return arrays

    def write(self, arrays: Mapping[str, Array], now: bool = False) -> None:
        """Keep ``arrays``, unless that was done less than `SECONDS` ago; always if ``now``."""
        if self.path is None or not (now or time.monotonic() - self._written >= SECONDS):
            return
        write_arrays(self.path, {**arrays, MARK: np.array(self.of)})
        self._written = time.monotonic()
