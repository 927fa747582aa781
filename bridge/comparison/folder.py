"""Where a comparison keeps its records."""

from __future__ import annotations

import os
from pathlib import Path

from bridge.errors import RecordsError

__all__ = ["RECORDS", "ZOO_RECORDS", "records_file"]

RECORDS, ZOO_RECORDS = "records.sqlite", "zoo.sqlite"


def records_file(folder: str | os.PathLike[str]) -> Path:
    """The file of the records that a comparison or sweep left in ``folder``.

    Raises
    ------
    RecordsError
        There is none.
    """
    path = Path(folder) / RECORDS
    if not path.is_file():
        raise RecordsError(
            f"no records in {folder}: expected the file {RECORDS}, which "
            f"`python -m bridge sweep --out {folder}` writes"
        )
    return path
