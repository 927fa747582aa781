"""Which Stan is used: a CmdStan the user installed, else the one assembled from a wheel."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from stan_models.errors import ToolchainError
from stan_models.toolchain.assemble import RECORD, assembled, complete
from stan_models.toolchain.cache import cache_directory, digest, file_digest, writable
from stan_models.toolchain.compiler import require_compiler
from stan_models.toolchain.wheel import adopt


@dataclass(frozen=True)
class Toolchain:
    """A CmdStan directory that cmdstanpy can use.

    ``engine`` is "CmdStan official" or "assembled from httpstan x", ``stan_version`` "2.x.y",
    and ``key`` changes whenever programs have to be compiled anew.
    """

    path: Path
    engine: str
    stan_version: str
    key: str

    @property
    def is_assembled(self) -> bool:
        return (self.path / RECORD).exists()

    @property
    def stanc(self) -> Path:
        return self.path / "bin" / ("stanc.exe" if os.name == "nt" else "stanc")

    def activate(self) -> None:
        """Make cmdstanpy use this directory: it reads the environment variable CMDSTAN."""
        import_cmdstanpy().set_cmdstan_path(str(self.path))


def import_cmdstanpy() -> ModuleType:
    """cmdstanpy, or one sentence that says how to get it."""
    try:
        import cmdstanpy
    except ImportError as error:
        raise ImportError(
            "the Stan side needs cmdstanpy and bridgestan: pip install 'trusted-posteriors[stan]'"
            + _compiler_too()
        ) from error
    return cmdstanpy


def _compiler_too() -> str:
    """What else is missing, so that one message says all of it."""
    try:
        require_compiler()
    except ToolchainError as error:
        return f"; {error}"
    return ""


def find_toolchain() -> Toolchain:
    """The Stan to use: `$CMDSTAN` or ``~/.cmdstan`` if there is one, else assembled in the cache.

    The first call on a machine without CmdStan fetches and builds one, which takes minutes.

    Raises
    ------
    ToolchainError
        No compiler, no wheel to be had, a cache that cannot be written, or a `$CMDSTAN` that is
        not a CmdStan directory.
    """
    official = installed_cmdstan()
    if official is not None:
        return _official(official)
    return _recorded(assembled(cache_directory()))


def _recorded(path: Path) -> Toolchain:
    record = json.loads((path / RECORD).read_text())
    return Toolchain(path, record["engine"], record["stan_version"], record["key"])


def present_toolchain() -> Toolchain | None:
    """The Stan that `find_toolchain` would use if nothing had to be built; None otherwise."""
    official = installed_cmdstan()
    if official is not None:
        return _official(official)
    path = complete(cache_directory())
    return None if path is None else _recorded(path)


def installed_cmdstan() -> Path | None:
    """The user's own CmdStan; None without one or where CMDSTAN names one that we assembled."""
    given = os.environ.get("CMDSTAN")
    try:
        path = Path(import_cmdstanpy().cmdstan_path())
    except ValueError as error:
        if given and not _in_cache(Path(given)):
            raise ToolchainError(
                f"CMDSTAN={given} is not a CmdStan directory; unset it or correct it"
            ) from error
        os.environ.pop("CMDSTAN", None)
        return None
    return None if (path / RECORD).exists() else path


def _in_cache(path: Path) -> bool:
    return path.resolve().is_relative_to(cache_directory() / "toolchains")


def _official(path: Path) -> Toolchain:
    compiler = require_compiler()
    text = (path / "makefile").read_text()
    marker = "CMDSTAN_VERSION :="
    stan_version = text.partition(marker)[2].splitlines()[0].strip() if marker in text else ""
    if not stan_version:
        raise ToolchainError(f"{path}/makefile names no CMDSTAN_VERSION; reinstall CmdStan")
    local = path / "make" / "local"
    options = file_digest(local) if local.exists() else None
    key = digest(str(path), stan_version, options, compiler)
    return Toolchain(path, "CmdStan official", stan_version, key)


def use_wheel(wheel: Path) -> None:
    """Copy an httpstan wheel on disk into the cache and assemble Stan from it from now on."""
    adopt(writable(cache_directory()), wheel)


def install_official() -> None:
    """Install CmdStan itself with cmdstanpy (needs GitHub); it is preferred from then on."""
    require_compiler()
    if not import_cmdstanpy().install_cmdstan():
        raise ToolchainError(
            "cmdstanpy could not install CmdStan: its message above says why; where GitHub is out "
            "of reach, `python -m stan_models setup` assembles one from a package registry"
        )
