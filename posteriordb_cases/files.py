"""Read posteriordb's files: JSON, and one JSON file in a zip archive; name the file that is bad."""

from __future__ import annotations

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

Json = Any  # what the json module gives for a file: its caller knows the form


def read_json(path: Path) -> Json:
    """Return the content of a JSON file; ``ValueError`` names a file that is not JSON."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError
        raise ValueError(f"{path} is not valid JSON ({error}): restore the file") from error


def read_zipped_json(path: Path) -> Json:
    """Return the JSON content of a zip archive that holds one file.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If the archive or the JSON in it is corrupt or cut short, or holds another number of files.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError(f"expected one file in the archive, got {len(names)}")
            return json.loads(archive.read(names[0]))
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as error:
        raise ValueError(
            f"{path} is corrupt or cut short ({error}): restore or download it again"
        ) from error
