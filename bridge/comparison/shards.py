"""A comparison in parts, each run anywhere: which part, and one folder of all of them."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bridge.comparison.folder import RECORDS, ZOO_RECORDS
from bridge.comparison.records import Record, Records
from bridge.errors import RecordsError

__all__ = ["Shard", "merge"]

_Item = TypeVar("_Item")
FIELDS = ("settings", "versions")  # what the runs of one comparison share


@dataclass(frozen=True)
class Shard:
    """Part ``number`` of ``count``, from 1 on.

    Examples
    --------
    >>> Shard.parse("2/3").of(["a", "b", "c", "d", "e"])
    ['b', 'e']
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Of ``"2/3"``.

        Raises
        ------
        ValueError
            It is not of this form, or there is no such part.
        """
        found = re.fullmatch(r"(\d+)/(\d+)", text)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"a shard is i/n with 1 <= i <= n, as 2/3, got {text!r}")
        return cls(int(found[1]), int(found[2]))

    def of(self, items: Sequence[_Item]) -> list[_Item]:
        """Its items, every ``count``-th: neighbours in a list take about as long.

        Raises
        ------
        ValueError
            There are fewer items than parts.
        """
        if len(items) < self.count:
            raise ValueError(
                f"shard {self.number}/{self.count}: there are {len(items)} to share out, give at "
                "most as many parts"
            )
        return list(items[self.number - 1 :: self.count])


def merge(folders: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str]) -> list[Path]:
    """Put the records and draws of several comparisons, or of several zoos, into one folder.

    Merging again changes nothing. A run that failed in one folder and ended well in another is
    taken from the other.

    Parameters
    ----------
    folders
        What ``compare`` or ``sweep`` left, each of the same settings and versions.
    out
        The folder of all; may hold records of the same kind, and may be one of ``folders``.

    Returns
    -------
    list of pathlib.Path
        The files of records written.

    Raises
    ------
    RecordsError
        A folder has no records; settings or versions differ; or two folders have different results
        of one run. Nothing is written then.

    Examples
    --------
    >>> merge(["results/part1", "results/part2"], "results/all")  # doctest: +SKIP
    """
    target = Path(out)
    sources = [Path(folder) for folder in folders]
    for folder in sources:
        if not any((folder / name).is_file() for name in (RECORDS, ZOO_RECORDS)):
            raise RecordsError(
                f"no records in {folder}: expected {RECORDS} or {ZOO_RECORDS}, which `python -m "
                "bridge sweep --shard i/n` writes"
            )
    every = [target, *(folder for folder in sources if folder.resolve() != target.resolve())]
    planned = {
        name: _taken([f for f in every if (f / name).is_file()], name)
        for name in (RECORDS, ZOO_RECORDS)
    }
    written = []
    for name, taken in planned.items():
        if taken:
            records = Records(target / name)
            for folder, record in taken.values():
                if folder != target:
                    _copy_draws(record, folder, target)
                    records.add(record)
            written.append(target / name)
    return written


def _taken(folders: Sequence[Path], name: str) -> dict[tuple[object, ...], tuple[Path, Record]]:
    """By key, the record that is taken and the folder that has it."""
    taken: dict[tuple[object, ...], tuple[Path, Record]] = {}
    first: tuple[Path, Record] | None = None
    for folder in folders:
        for record in Records(folder / name).all():
            first = first or (folder, record)
            _require_alike(first, (folder, record))
            key = tuple(record[part] for part in ("case_name", "method", "seed"))
            before = taken.get(key)
            if before is None or _ended_better(record, before[1]):
                taken[key] = folder, record
            elif record != before[1] and not _ended_better(before[1], record):
                case, method, seed = key
                raise RecordsError(
                    f"{before[0]} and {folder} have different results of {method} on {case}, seed "
                    f"{seed}: merge only one of them"
                )
    return taken


def _require_alike(first: tuple[Path, Record], other: tuple[Path, Record]) -> None:
    for part in FIELDS:
        expected, got = (record.get(part) for _, record in (first, other))
        if expected != got:
            raise RecordsError(
                f"{first[0]} and {other[0]} are of different {part}, {_differences(expected, got)}:"
                " merge what was made alike"
            )


def _differences(expected: object, got: object) -> str:
    """What differs of two JSON objects."""
    try:
        one, two = json.loads(str(expected)), json.loads(str(got))
        differ = [name for name in {**one, **two} if one.get(name) != two.get(name)]
        return ", ".join(f"{name} {one.get(name)} and {two.get(name)}" for name in differ)
    except (
        ValueError,
        AttributeError,
    ):  # the zoo's settings are text, old records have no versions
        return f"{expected} and {got}"


def _ended_better(record: Record, other: Record) -> bool:
    """Whether the one ended well and the other failed."""
    return record.get("status") == "ok" and other.get("status") == "failed"


def _copy_draws(record: Record, source: Path, target: Path) -> None:
    """Before the record, so that none is without its draws; complete or not at all."""
    file = record.get("draws_file")
    if file is None:
        return
    to = target / str(file)
    to.parent.mkdir(parents=True, exist_ok=True)
    part = to.with_name(f"{to.name}.part")
    try:
        shutil.copyfile(source / str(file), part)
        os.replace(part, to)
    except FileNotFoundError as error:
        raise RecordsError(
            f"{source / str(file)}, the draws of a recorded run, is missing: make the run again"
        ) from error
    finally:
        part.unlink(missing_ok=True)
