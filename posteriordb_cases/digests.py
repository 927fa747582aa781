"""What results are of: digests of a program and its data, as a name stays when these change."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from posteriordb_cases.files import Json, read_zipped_json

_STRING_OR_COMMENT = re.compile(r'"[^"\n]*"|/\*.*?\*/|//[^\n]*', re.DOTALL)


def of_program(code: str) -> str:
    """SHA-256 of a Stan program without its comments and blanks.

    Examples
    --------
    >>> of_program("real x;  // a comment") == of_program("real  x;")
    True
    """
    bare = _STRING_OR_COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else " ", code)
    return _sha256("".join(bare.split()).encode())


def of_data(archive: Path) -> str:
    """SHA-256 of the data in a zipped JSON file, however they are laid out there."""
    return of_json(read_zipped_json(archive))


def of_json(content: Json) -> str:
    """SHA-256 of what a JSON file holds, in whatever order."""
    return _sha256(json.dumps(content, sort_keys=True).encode())


def of_file(path: Path | None) -> str:
    """SHA-256 of a file; a text that is no digest where there is none."""
    return _sha256(path.read_bytes()) if path is not None and path.is_file() else "none"


def of_all(*digests: str) -> str:
    """SHA-256 of several digests in their order."""
    return _sha256(" ".join(digests).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
