"""The arrays of a matching state in a file of its format."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from numpy.typing import NDArray

from pymc_ext.maths.array_file import read_arrays


def read_state(path: Path, names: Sequence[str], version: int) -> dict[str, NDArray]:
    """Read the arrays ``names`` of a file of that format version.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is not such a file, or damaged.
    """
    try:
        arrays = read_arrays(path)
        if int(arrays["format"]) != version:
            raise ValueError(f"format must be {version}, got {int(arrays['format'])}")
        return {name: arrays[name] for name in names}
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is not a readable matching state: {error}") from error
