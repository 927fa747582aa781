"""The cache directory: where it is, whether it can be written, and one builder at a time."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from stan_models.errors import ToolchainError
from stan_models.toolchain.progress import step

CACHE_VARIABLE = "STAN_MODELS_CACHE"


def cache_directory() -> Path:
    """``$STAN_MODELS_CACHE``, or the user's cache directory; not created, never with a space.

    Refused where every user may write: what is compiled into it is run.
    """
    given = os.environ.get(CACHE_VARIABLE)
    path = Path(given).expanduser().resolve() if given else user_cache_path("stan_models")
    if any(character.isspace() for character in str(path)):
        raise ToolchainError(
            f"cache directory '{path}' contains a space, which GNU make cannot handle; "
            f"set {CACHE_VARIABLE} to a directory without one"
        )
    if path.is_dir() and path.stat().st_mode & stat.S_IWOTH:
        raise ToolchainError(
            f"cache directory {path} can be written by every user of this machine, and the code in "
            f"it is run: `chmod o-w {path}`, or set {CACHE_VARIABLE} to another directory"
        )
    return path


def writable(directory: Path) -> Path:
    """Create ``directory`` and prove that files can be written there."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise ToolchainError(
            f"cache directory {directory} is not writable ({error.strerror}); "
            f"set {CACHE_VARIABLE} to a directory that is"
        ) from error
    return directory


@contextmanager
def only_builder(target: Path) -> Iterator[None]:
    """Hold the lock of ``target``, a directory of the cache; processes building it wait here.

    The operating system frees the lock of a process that dies.
    """
    writable(target.parent)
    lock = FileLock(target.parent / f"{target.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        with step(f"waiting for another process that builds {target.name}"):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def digest(*parts: object) -> str:
    """Hexadecimal SHA-256, cut to 20 digits, of JSON-serialisable ``parts``."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def file_digest(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that readers see the old file or the new one, never a part."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(temporary, path)
