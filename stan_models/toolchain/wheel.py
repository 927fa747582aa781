"""The httpstan wheel: real Stan (stanc, headers, libraries) from a package registry.

The wheel is fetched into the cache and unpacked there, never installed: the Python packages
that httpstan asks for stay out of the user's environment.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from stan_models.errors import ToolchainError
from stan_models.toolchain.cache import file_digest, only_builder, write_atomically
from stan_models.toolchain.known_wheels import KNOWN
from stan_models.toolchain.progress import step

REQUIREMENT = "httpstan>=4.13,<5"
OTHER_WAYS = (
    "give a wheel on disk (`python -m stan_models setup --wheel PATH`), "
    "install CmdStan (`python -m stan_models setup --official`), or point CMDSTAN at one"
)
UNPACKED = {"httpstan/include/": "include/", "httpstan/lib/": "lib/", "httpstan/stanc": "bin/stanc"}
SKIPPED = "httpstan/include/pybind11/"


@dataclass(frozen=True)
class Wheel:
    """A wheel in the cache with the SHA-256 of its bytes."""

    path: Path
    sha256: str

    @property
    def version(self) -> str:
        return self.path.name.split("-")[1]

    @property
    def python(self) -> str | None:
        """The Python it was made for, as ``"3.11"``; None where its name does not say.

        What is taken of it, Stan's C++, works for all; but not every Python has every version.
        """
        found = re.search(r"-cp(\d)(\d+)-", self.path.name)
        return None if found is None else f"{found[1]}.{found[2]}"


def obtain(cache: Path) -> Wheel:
    """The wheel chosen earlier, or the newest the registry has for this machine."""
    return chosen(cache) or adopt(cache, None)


def chosen(cache: Path) -> Wheel | None:
    """The wheel in the cache that builds use, if there is one."""
    pointer = cache / "wheels" / "chosen"
    if not pointer.exists():
        return None
    sha256, name = pointer.read_text().split()
    path = cache / "wheels" / name
    return Wheel(path, sha256) if path.exists() else None


def adopt(cache: Path, wheel: Path | None) -> Wheel:
    """Copy ``wheel`` into the cache (download it if None) and make builds use it."""
    with only_builder(cache / "wheels"):
        if wheel is None and (present := chosen(cache)):
            return present
        with tempfile.TemporaryDirectory(dir=cache, prefix="wheel-") as folder:
            found = _copy(wheel, Path(folder)) if wheel else _download(Path(folder))
            checked = Wheel(cache / "wheels" / found.name, _require_published(found))
            checked.path.parent.mkdir(exist_ok=True)
            found.replace(checked.path)
        write_atomically(cache / "wheels" / "chosen", f"{checked.sha256} {checked.path.name}\n")
        return checked


def _copy(wheel: Path, folder: Path) -> Path:
    wheel = wheel.expanduser()
    if not wheel.is_file():
        raise ToolchainError(f"no wheel at {wheel}; {OTHER_WAYS}")
    if not re.match(r"httpstan-[^-]+-.*\.whl$", wheel.name) or not _is_whole(wheel):
        raise ToolchainError(f"{wheel} is not a complete httpstan wheel; fetch it again")
    return Path(shutil.copy(wheel, folder))


def _require_published(wheel: Path) -> str:
    """Its SHA-256; ToolchainError where a wheel of this name was published with another."""
    sha256 = file_digest(wheel)
    published = KNOWN.get(wheel.name, sha256)
    if sha256 != published:
        raise ToolchainError(
            f"{wheel.name} has SHA-256 {sha256[:16]}…, and {published[:16]}… on the Python Package "
            "Index: it is not what was published; fetch it again, or give a wheel of your own "
            "build another version"
        )
    return sha256


def _is_whole(wheel: Path) -> bool:
    """Whether the archive can be read and holds stanc; a truncated file has no directory."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return "httpstan/stanc" in archive.namelist()
    except zipfile.BadZipFile:
        return False


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), REQUIREMENT]
    with step("fetching Stan (the httpstan wheel, about 45 MB)"):
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    found = sorted(folder.glob("httpstan-*.whl"))
    if answer.returncode or not found:
        reason = (answer.stderr or answer.stdout).strip().splitlines()[-1:] or ["no output"]
        raise ToolchainError(f"no httpstan wheel could be fetched: {reason[0]}; {OTHER_WAYS}")
    return found[-1]


def unpack(wheel: Wheel, directory: Path) -> None:
    """Unpack the C++ side of ``wheel`` as ``include/``, ``lib/`` and ``bin/stanc``."""
    with zipfile.ZipFile(wheel.path) as archive:
        places = {name: _place(name) for name in archive.namelist() if not name.endswith("/")}
        for name, place in places.items():
            if place is not None and ".." in Path(place).parts:
                raise ToolchainError(
                    f"{wheel.path.name} holds {name!r}, which leaves the folder it is unpacked "
                    "in: it is no httpstan wheel; fetch it again"
                )
        for name, place in places.items():
            if place is not None:
                _extract(archive, name, directory / place)
    (directory / "bin" / "stanc").chmod(0o755)  # zipfile drops the executable bit


def _place(name: str) -> str | None:
    if name.startswith(SKIPPED):
        return None
    for prefix, place in UNPACKED.items():
        if name.startswith(prefix):
            return place + name[len(prefix) :]
    return None


def _extract(archive: zipfile.ZipFile, name: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, target.open("wb") as file:
        shutil.copyfileobj(source, file)
