"""Write posteriordb's reference draws and their info, whole or not at all."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from posteriordb_cases.draws import flatten
from posteriordb_cases.files import Json, read_json

_EPOCH = (1980, 1, 1, 0, 0, 0)  # zip's earliest time: equal content gives equal bytes
_INFO_KEYS = (
    "name",
    "inference",
    "diagnostics",
    "checks_made",
    "comments",
    "added_by",
    "added_date",
    "versions",
)


def write_reference_draws(
    database: Path,
    draws: Mapping[str, np.ndarray],
    info: Mapping[str, Json],
    *,
    digits: int = 8,
) -> Path:
    """Write reference draws and their info into a database, replacing earlier ones.

    A posterior of that name that names no reference is its own from then on, and the record of a
    refusal goes. All files are complete under temporary names before any takes its place.

    Parameters
    ----------
    database
        Folder of the database, as ``resolve_database`` returns it.
    draws
        Variable name to array of shape (chain, draw, *shape), constrained space.
    info
        posteriordb's fields of an ``.info.json``: name, inference, diagnostics, checks_made,
        comments, added_by, added_date, versions. ``name`` names the files.
    digits
        Significant digits kept of every draw.

    Returns
    -------
    Path
        The zip archive with the draws.

    Raises
    ------
    ValueError
        If a field of ``info`` is missing or a draw is not finite.
    """
    missing = [key for key in _INFO_KEYS if key not in info]
    if missing:
        raise ValueError(f"info lacks {', '.join(missing)}; expected {', '.join(_INFO_KEYS)}")
    name = info["name"]
    folder = database / "reference_posteriors" / "draws"
    draws_path = folder / "draws" / f"{name}.json.zip"
    info_path = folder / "info" / f"{name}.info.json"
    archive = zipped_json(_chains(draws, digits), f"{name}.json")
    text = json.dumps(info, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with contextlib.ExitStack() as files:
        for path, content in {draws_path: archive, info_path: text.encode()}.items():
            files.enter_context(_staged(path, content))
        posterior = database / "posteriors" / f"{name}.json"
        if (named := _naming(posterior, str(name))) is not None:
            files.enter_context(_staged(posterior, named))
        # all are on disk here; leaving the block moves them into place
    refusal_path(database, str(name)).unlink(missing_ok=True)
    return draws_path


def _naming(posterior: Path, name: str) -> bytes | None:
    """The file of a posterior with ``name`` as its reference; None where it has one, or is none."""
    content = read_json(posterior) if posterior.is_file() else {"reference_posterior_name": name}
    if content.get("reference_posterior_name") is not None:
        return None
    text = posterior.read_text(encoding="utf-8")
    null = re.compile(r'("reference_posterior_name"\s*:\s*)null')
    if len(null.findall(text)) == 1:  # all else stays as its author has written it
        return null.sub(lambda found: found[1] + json.dumps(name), text).encode()
    content = content | {"reference_posterior_name": name}
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def refusal_path(database: Path, name: str) -> Path:
    """Where it is recorded that draws were not admitted."""
    return database / "reference_posteriors" / "draws" / "info" / f"{name}.refused.json"


def write_refusal(database: Path, info: Mapping[str, Json]) -> Path:
    """Record that draws were not admitted: fields as of `write_reference_draws`, and ``refused``,
    why."""
    path = refusal_path(database, str(info["name"]))
    text = json.dumps(info, indent=2, ensure_ascii=False) + "\n"  # NaN: of a chain that stood still
    with _staged(path, text.encode()):
        pass
    return path


def zipped_json(content: Json, inner_name: str) -> bytes:
    """Return a zip archive of one JSON file; equal content gives equal bytes."""
    entry = zipfile.ZipInfo(inner_name, date_time=_EPOCH)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    text = json.dumps(content, separators=(",", ":"), allow_nan=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(entry, text, compresslevel=9)
    return buffer.getvalue()


def _chains(draws: Mapping[str, np.ndarray], digits: int) -> list[dict[str, Sequence[float]]]:
    flat = flatten(draws)
    for name, values in flat.items():
        if not np.isfinite(values).all():
            raise ValueError(f"{np.sum(~np.isfinite(values))} draws of {name} are not finite")
    n_chains = len(next(iter(flat.values())))
    return [
        {name: [float(f"{x:.{digits}g}") for x in values[chain]] for name, values in flat.items()}
        for chain in range(n_chains)
    ]


@contextlib.contextmanager
def _staged(path: Path, content: bytes) -> Iterator[None]:
    """Write ``content`` beside ``path``; move it there when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)  # mkstemp's 0600 would hide the file from other users
        yield
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
