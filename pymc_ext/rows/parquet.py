"""Rows of Parquet files, read a block at a time (extra ``parquet``)."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pymc_ext.options import require_count
from pymc_ext.rows.protocol import Block

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyarrow.parquet import ParquetFile

BLOCK = 1 << 16  # rows of a block: 10 MB of 20 columns
GROUPS_OF_SAMPLE = 16  # row groups, evenly spread, whose first rows are the sample


class ParquetRows:
    """Named arrays from columns of Parquet files, a block of rows at a time.

    No more than a row group is in memory. Columns are checked when this is made; their numbers as
    they are read: the first that is missing, NaN or infinite ends the pass.

    Parameters
    ----------
    path
        A file, a folder (all its ``*.parquet``, by name), or a sequence of files.
    columns
        Columns by the name of the array they make: ``"clicked"`` makes an array (n,), ``["age",
        "visits"]`` one (n, 2), in this order. Names are those of the model's ``pm.Data``.
    block
        Rows of a block, at most.

    Raises
    ------
    ImportError
        pyarrow is not installed.
    FileNotFoundError
        There is no such file, or no Parquet file in the folder.
    ValueError
        A file is no Parquet file, lacks a column or has one that holds no numbers; there are no
        rows; from reading, a row group is damaged or a number missing, NaN or infinite.

    Examples
    --------
    >>> columns = {"X": ["age", "visits"], "y": "clicked"}
    >>> rows = px.ParquetRows("clicks.parquet", columns)  # doctest: +SKIP
    >>> len(rows), rows.shapes  # doctest: +SKIP
    (10000000, {'X': (2,), 'y': ()})
    """

    def __init__(
        self,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        columns: Mapping[str, str | Sequence[str]],
        *,
        block: int = BLOCK,
    ) -> None:
        if find_spec("pyarrow") is None:
            raise ImportError("Parquet needs pyarrow: pip install 'trusted-posteriors[parquet]'")
        require_count("block", block)
        self.columns = {
            name: wanted if isinstance(wanted, str) else tuple(wanted)
            for name, wanted in columns.items()
        }
        if not self._flat:
            raise ValueError("columns must name at least one column, got none")
        self.block, self.paths = int(block), _files(path)
        self._starts = [0]  # of the files, in rows
        for file in self.paths:
            opened = _opened(file)
            _check_columns(file, opened, self._flat)
            self._starts.append(self._starts[-1] + opened.metadata.num_rows)
        if len(self) == 0:
            raise ValueError(f"{self.paths[0]} has no rows")

    @property
    def _flat(self) -> list[str]:
        """Every column once."""
        parts = ([c] if isinstance(c, str) else c for c in self.columns.values())
        return list(dict.fromkeys(column for part in parts for column in part))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shape of one row of each array: () or (p,)."""
        return {n: () if isinstance(c, str) else (len(c),) for n, c in self.columns.items()}

    @cached_property
    def fingerprint(self) -> str:
        """Another one where the files (name, size, time of change) or the columns are others."""
        files = [(p.name, p.stat().st_size, p.stat().st_mtime_ns) for p in self.paths]
        return hashlib.sha256(repr((files, self.columns)).encode()).hexdigest()

    def __len__(self) -> int:
        """Number of rows."""
        return self._starts[-1]

    def blocks(self, begin: int = 0) -> Iterator[Block]:
        """Arrays (n,) or (n, p) by name, of at most ``block`` rows each, from row ``begin`` on.

        Raises
        ------
        ValueError
            A row group is damaged; a number is missing, NaN or infinite.
        """
        for path, row in zip(self.paths, self._starts[:-1], strict=True):
            file = _opened(path)
            for group in range(file.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if row + size > begin:
                    yield from self._of_group(path, file, group, max(begin - row, 0))
                row += size

    def sample(self, size: int) -> Block:
        """The first rows of row groups that are evenly spread, about ``size`` together.

        Raises
        ------
        ValueError
            As :meth:`blocks`.
        """
        groups = [
            (path, group) for path in self.paths for group in range(_opened(path).num_row_groups)
        ]
        chosen = np.unique(np.linspace(0, len(groups) - 1, GROUPS_OF_SAMPLE).round().astype(int))
        each, found = -(-size // len(chosen)), []
        for path, group in (groups[i] for i in chosen):
            had = 0
            for block in self._of_group(path, _opened(path), group, 0):
                found.append({name: array[: each - had] for name, array in block.items()})
                had += len(next(iter(found[-1].values())))
                if had == each:
                    break
        return {name: np.concatenate([block[name] for block in found]) for name in self.columns}

    def _of_group(self, path: Path, file: ParquetFile, group: int, skip: int) -> Iterator[Block]:
        import pyarrow

        try:
            batches = file.iter_batches(self.block, row_groups=[group], columns=self._flat)
            for batch in batches:
                if skip < batch.num_rows:
                    yield self._arrays(path, group, batch.slice(skip))
                skip = max(skip - batch.num_rows, 0)
        except (OSError, pyarrow.ArrowException) as error:
            raise ValueError(
                f"row group {group} of {path} cannot be read ({_first_line(error)}): the file is "
                "damaged; copy or write it again, or write it without that group"
            ) from error

    def _arrays(self, path: Path, group: int, batch: RecordBatch) -> Block:
        by_column = {}
        for column in self._flat:
            values = batch.column(column)
            numbers = values.cast("float64").to_numpy(zero_copy_only=False)  # missing: NaN
            bad = ~np.isfinite(numbers)
            if bad.any():
                raise ValueError(
                    f"column {column!r} of {path} has {bad.sum()} numbers that are missing, NaN or "
                    f"infinite in a block of row group {group}: drop or impute these rows"
                )
            by_column[column] = numbers
        return {
            name: by_column[columns]
            if isinstance(columns, str)
            else np.column_stack([by_column[column] for column in columns])
            for name, columns in self.columns.items()
        }


def _files(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    if not isinstance(path, str | PathLike):
        return [file for one in path for file in _files(one)]
    path = Path(path)
    if not path.is_dir():
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        return [path]
    files = sorted(path.glob("*.parquet"))
    if not files:
        raise FileNotFoundError(f"there is no *.parquet in the folder {path}")
    return files


def _opened(path: Path) -> ParquetFile:
    """A file with its footer read. Sums of pages are checked where it has them."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path, page_checksum_verification=True, pre_buffer=False)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"{path} is no readable Parquet file ({_first_line(error)})") from error


def _check_columns(path: Path, file: ParquetFile, wanted: Sequence[str]) -> None:
    import pyarrow.types as kinds

    schema = file.schema_arrow
    missing = [column for column in wanted if column not in schema.names]
    if missing:
        like = [n for m in missing for n in difflib.get_close_matches(m, schema.names, n=1)]
        shown = like or schema.names[:20]
        raise ValueError(f"{path} has no columns {missing}; it has {'...' if like else ''}{shown}")
    for column in wanted:
        kind = schema.field(column).type
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
            raise ValueError(
                f"column {column!r} of {path} holds {kind}: expected numbers; write its categories "
                "as columns of 0 and 1, or as integers where they are labels"
            )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
