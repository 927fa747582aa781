"""A comparison in parts, each run anywhere: which part, and one folder of all of them."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from bridge.comparison.folder import RECORDS, ZOO_RECORDS
from bridge.comparison.records import Record, Records
from bridge.errors import RecordsError
from pymc_ext.options import require_path

__all__ = ["merge", "missing_shards", "note_shards", "parse_shard", "part_of", "shards_in"]

_log = logging.getLogger(__name__)
_Item = TypeVar("_Item")
FIELDS = ("settings", "versions")  # what the runs of one comparison share
SHARDS = "shards.txt"  # in a folder, the parts that were run to their end there, one a line


def parse_shard(text: str) -> tuple[int, int]:
    """Which part, from 1 on, and of how many: of ``"2/3"``.

    Raises
    ------
    ValueError
        It is not of this form, or there is no such part.
    TypeError
        It is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"a shard is a text i/n with 1 <= i <= n, as '2/3', got {text!r}")
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(f"a shard is i/n with 1 <= i <= n, as 2/3, got {text!r}")
    return int(found[1]), int(found[2])


def part_of(items: Sequence[_Item], shard: str | None) -> list[_Item]:
    """Every n-th of them, as neighbours in a list take about as long; all where ``shard`` is None.

    Raises
    ------
    ValueError, TypeError
        As :func:`parse_shard`, or there are fewer items than parts.

    Examples
    --------
    >>> part_of(["a", "b", "c", "d", "e"], "2/3")
    ['b', 'e']
    """
    if shard is None:
        return list(items)
    number, count = parse_shard(shard)
    if len(items) < count:
        raise ValueError(
            f"shard {shard}: there are {len(items)} to share out, give at most as many parts"
        )
    return list(items[number - 1 :: count])


def note_shards(folder: str | os.PathLike[str], shards: Iterable[str]) -> None:
    """Remember that these parts, as ``"2/8"``, were run to their end in the folder."""
    path = Path(folder) / SHARDS
    known = sorted({*shards_in(folder), *shards}, key=parse_shard)
    if known:
        path.write_text("\n".join(known) + "\n", encoding="utf-8")


def shards_in(folder: str | os.PathLike[str]) -> list[str]:
    """The parts that :func:`note_shards` noted in the folder; none in one of a whole sweep."""
    path = Path(folder) / SHARDS
    return path.read_text(encoding="utf-8").split() if path.is_file() else []


def missing_shards(shards: Collection[str]) -> list[str]:
    """The parts that are not among these; none where they are parts of different numbers.

    Examples
    --------
    >>> missing_shards(["1/3", "3/3"])
    ['2/3']
    """
    found = {parse_shard(shard) for shard in shards}
    counts = {count for _, count in found}
    if len(counts) != 1:
        return []
    (count,) = counts
    return [f"{i}/{count}" for i in range(1, count + 1) if (i, count) not in found]


def merge(
    folders: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
    out: str | os.PathLike[str],
) -> list[Path]:
    """Put the records and draws of several comparisons, or of several zoos, into one folder.

    Merging again changes nothing. A run that failed in one folder and ended well in another is
    taken from the other. Where the folders are parts of one sweep, the parts that are not among
    them are named in a warning of the log.

    Parameters
    ----------
    folders
        What ``compare`` or ``sweep`` left, each of the same settings and versions; one, or several.
    out
        The folder of all; may hold records of the same kind, and may be one of ``folders``.

    Returns
    -------
    list of pathlib.Path
        The files of records written.

    Raises
    ------
    RecordsError
        A folder has no records; settings, versions or what a case is made of differ; two folders
        have different results of one run; or the draws of a run are missing. Nothing is written
        then.
    TypeError
        Something is no name of a folder.
    ValueError
        No folder is given.

    Examples
    --------
    >>> merge(["results/part1", "results/part2"], "results/all")  # doctest: +SKIP
    """
    require_path("out", out)
    target, sources = Path(out), _folders(folders)
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
    for taken in planned.values():
        _require_draws(taken.values())
    written = []
    for name, taken in planned.items():
        if taken:
            records = Records(target / name)
            for folder, record in taken.values():
                if folder != target:
                    _copy_draws(record, folder, target)
                    records.add(record)
            written.append(target / name)
    _note_all(every, target)
    return written


def _folders(folders: object) -> list[Path]:
    """Those named, one or several."""
    names = [folders]
    if isinstance(folders, Iterable) and not isinstance(folders, str | os.PathLike):
        names = list(folders)
    if not names:
        raise ValueError("folders must name at least one folder of a comparison, got none")
    for name in names:
        require_path("each of folders", name)
    return [Path(str(name)) for name in names]


def _note_all(folders: Sequence[Path], target: Path) -> None:
    """Write down which parts the folder of all has, and say which it has not."""
    there = [shard for folder in folders for shard in shards_in(folder)]
    note_shards(target, there)
    missing = missing_shards(there)
    if missing:
        _log.warning(
            "%s lacks shard %s of the sweep: run `python -m bridge sweep --shard %s`, merge again",
            target, ", ".join(missing), missing[0],
        )  # fmt: skip


def _taken(folders: Sequence[Path], name: str) -> dict[tuple[object, ...], tuple[Path, Record]]:
    """By key, the record that is taken and the folder that has it."""
    taken: dict[tuple[object, ...], tuple[Path, Record]] = {}
    first: tuple[Path, Record] | None = None
    cases: dict[object, tuple[Path, object]] = {}
    for folder in folders:
        for record in Records(folder / name).all():
            first = first or (folder, record)
            _require_alike(first, (folder, record))
            _require_same_case(cases, (folder, record))
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


def _require_same_case(cases: dict[object, tuple[Path, object]], one: tuple[Path, Record]) -> None:
    """``cases`` has what was seen before, by name; records without a digest count."""
    folder, record = one
    if (sha := record.get("case_sha256")) is None:
        return
    before, expected = cases.setdefault(record["case_name"], (folder, sha))
    if sha != expected:
        raise RecordsError(
            f"{record['case_name']} is another posterior in {folder} than in {before}: its "
            "program, data, port or reference draws have changed in between; make one of them again"
        )


def _differences(expected: object, got: object) -> str:
    """What differs of two JSON objects."""
    try:
        one, two = dict(json.loads(str(expected))), dict(json.loads(str(got)))
    except ValueError:  # the zoo's settings are text, old records have no versions
        return f"{expected} and {got}"
    differ = [name for name in {**one, **two} if one.get(name) != two.get(name)]
    return ", ".join(f"{name} {one.get(name)} and {two.get(name)}" for name in differ)


def _ended_better(record: Record, other: Record) -> bool:
    """Whether the one ended well and the other failed."""
    return record.get("status") == "ok" and other.get("status") == "failed"


def _require_draws(taken: Iterable[tuple[Path, Record]]) -> None:
    for folder, record in taken:
        file = record.get("draws_file")
        if file is not None and not (folder / str(file)).is_file():
            raise RecordsError(
                f"{folder / str(file)}, the draws of a recorded run, is missing: make the run again"
            )


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
    finally:
        part.unlink(missing_ok=True)
