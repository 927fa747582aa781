"""The records of a comparison: one row a run, committed as it ends, so that a sweep can resume."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from bridge.errors import DiskFullError, RecordsError

Record = dict[str, object]  # columns of one run: text, numbers, truth values, or None
_KEY = ("case_name", "method", "seed", "settings")


class Records:
    """SQLite table of run records, keyed by case, method, seed and settings.

    Parameters
    ----------
    path
        The database file; made with its folder when absent.

    Raises
    ------
    RecordsError
        The file is there and is not a record database, or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._connection() as connection:
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS runs (case_name TEXT, method TEXT, seed INTEGER, "
                    "settings TEXT, record TEXT NOT NULL, PRIMARY KEY "
                    "(case_name, method, seed, settings))"
                )
        except (sqlite3.Error, OSError) as error:
            raise RecordsError(
                f"cannot keep records in {self.path}: {error}; give another folder with --out, "
                "or remove the file if it is not a record database"
            ) from error

    def add(self, record: Record) -> None:
        """Commit one record; a record of the same key is replaced.

        Raises
        ------
        DiskFullError
            The records of before stay as they were.
        """
        clean = plain(record)
        row = (*(clean[name] for name in _KEY), json.dumps(clean, allow_nan=False))
        try:
            with self._connection() as connection:
                connection.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", row)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            raise DiskFullError(
                f"no room for a record in {self.path}: make room and give the same command again, "
                "it goes on where it stopped"
            ) from error

    def by_key(self, *, status: str | None = None) -> dict[tuple, Record]:
        """The records by (case_name, method, seed, settings), those of one status if given."""
        chosen = (r for r in self.all() if status is None or r["status"] == status)
        return {tuple(record[name] for name in _KEY): record for record in chosen}

    def all(self) -> list[Record]:
        """All records, in the order of their keys."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT record FROM runs ORDER BY case_name, method, seed, settings"
            ).fetchall()
        return [json.loads(row[0]) for row in rows]

    def frame(self) -> pd.DataFrame:
        """The same, one row each."""
        return pd.DataFrame(self.all())

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=60)) as connection, connection:
            yield connection


def plain(record: Record) -> Record:
    """The record as JSON has it: NumPy scalars unwrapped, infinities by name, NaN as None.

    Raises
    ------
    TypeError
        A value is neither text nor a number, a truth value or None.
    """
    return {name: _plain(name, value) for name, value in record.items()}


def _plain(name: str, value: object) -> object:
    if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"column {name!r} of a record must be text, a number, a truth value or None, got "
        f"{type(value).__name__}: a method puts it into `Fit.info`"
    )
