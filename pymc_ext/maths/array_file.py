"""Arrays in a file that is either the old one or the new one, never half of each."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError

import numpy as np
from numpy.typing import NDArray

# What one bit that is not as it was makes of reading one, with ValueError itself; RuntimeError is
# that of a file that looks encrypted, or compressed in a way of which there is no reader
DAMAGED = (EOFError, OSError, RuntimeError, TokenError, zipfile.BadZipFile, zlib.error)


def write_arrays(path: Path, arrays: Mapping[str, NDArray]) -> None:
    """Write ``arrays`` as .npz beside ``path`` and rename it into place when it is on disk.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    IsADirectoryError
        If ``path`` is a folder.
    """
    if path.is_dir():
        raise IsADirectoryError(f"cannot write {path}: it is a folder; name a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"cannot write {path}: create its folder {path.parent} first")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())  # as any other file, not for its owner alone
        os.replace(temporary, path)
    except BaseException:  # an interrupt too must not leave the temporary file behind
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Of this process, which can only be read by setting it."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


def read_arrays(path: Path) -> dict[str, NDArray]:
    """All arrays of such a file, none of which is unpickled.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no such file, or damaged.
    """
    with open(path, "rb") as stream:
        if not zipfile.is_zipfile(stream):
            raise ValueError("it is no complete .npz file")
        stream.seek(0)
        try:
            with np.load(stream, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except DAMAGED as error:
            raise ValueError(str(error)) from error
