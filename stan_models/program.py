"""A Stan program: checked by stanc, compiled once, cached, run through cmdstanpy."""

from __future__ import annotations

import re
import shutil
import tempfile
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from stan_models.density import Data, StanDensity
from stan_models.errors import StanCompileError
from stan_models.library import build_beside, build_with_bridgestan, library_of
from stan_models.stanc import run_stanc
from stan_models.toolchain import Toolchain, cache_directory, find_toolchain, import_cmdstanpy
from stan_models.toolchain.cache import digest, only_builder
from stan_models.toolchain.progress import step

if TYPE_CHECKING:
    import cmdstanpy

UNNAMED = "program"  # what source text without a name is called
INCLUDE = re.compile(r"^\s*#include\b", re.M)


class StanProgram:
    """A Stan program given as source text or as the path of a ``.stan`` file.

    Nothing is compiled before the executable is asked for; the executable is cached under the
    hash of the source, the toolchain and its flags, so that a second process starts at once.
    ``#include`` lines of a file are resolved beside it, and the hash covers what they include.

    Parameters
    ----------
    source
        Stan source, or the path of a file ending in ``.stan``.
    name
        Name used in messages, file names and results: letters, digits and ``_``. The default is
        the file's stem, or ``program`` for source text.

    Raises
    ------
    TypeError
        ``source`` is neither text nor a path, or ``name`` no text.
    ValueError
        It is empty, or its file does not end in ``.stan`` or is no text.
    FileNotFoundError
        There is no such file.

    Examples
    --------
    >>> program = StanProgram("parameters { real x; } model { x ~ normal(0, 1); }")
    >>> program.density({}).log_density([[0.0]])
    array([-0.91893853])
    """

    def __init__(self, source: str | PathLike[str], name: str | None = None) -> None:
        if not isinstance(source, str | PathLike):
            raise TypeError(
                "a Stan program must be its source text or the path of a .stan file, got "
                f"{type(source).__name__}: give one of these"
            )
        if not isinstance(name, str | None):
            raise TypeError(f"name must be a text, such as 'schools', or None, got {name!r}")
        self.path = _as_path(source)
        self.name = _valid_name(name or (self.path.stem if self.path else UNNAMED))
        self._text = _read(self.path) if self.path else str(source)
        if not self._text.strip():
            raise ValueError(
                f"Stan program {self.name!r} is empty: give its source or a .stan path"
            )
        if self.path is None and "{" not in self._text and "#include" not in self._text:
            raise ValueError(
                "a Stan program must be its source text, which has a block such as `model { ... }`,"
                f" or the path of a .stan file, got {self._text!r:.60}: give one of these"
            )

    def __repr__(self) -> str:
        return f"StanProgram(name={self.name!r}, path={str(self.path) if self.path else None!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return _from_text, (self._text, self.name, self.path)

    @cached_property
    def toolchain(self) -> Toolchain:
        """The Stan this program is compiled with; found, or built, on first use."""
        toolchain = find_toolchain()
        toolchain.activate()
        return toolchain

    @cached_property
    def source(self) -> str:
        """The source text, with the files it includes in place of its ``#include`` lines."""
        return _inline_includes(self) if INCLUDE.search(self._text) else self._text

    @property
    def directory(self) -> Path:
        """Where the compiled program is cached."""
        key = digest(self.source, self.toolchain.key, self.name)
        return cache_directory() / "programs" / f"{self.name}-{key}"

    def compile(self) -> Path:
        """Path of the executable; compiles on the first call, safely beside other processes.

        Raises
        ------
        StanCompileError
            The program is not valid Stan; the message is stanc's, with the line.
        ToolchainError
            There is no compiler, no Stan, or no cache that can be written.
        """
        directory = self.directory
        executable = directory / (self.name + _suffix())
        if not executable.exists():
            with only_builder(directory):
                if not executable.exists():
                    self._build(directory)
        return executable

    @property
    def cmdstan_model(self) -> cmdstanpy.CmdStanModel:
        """An unmodified `cmdstanpy.CmdStanModel` of this program."""
        executable = self.compile()
        cmdstan = import_cmdstanpy()
        self.toolchain.activate()
        stan_file = self.directory / f"{self.name}.stan"
        with cmdstan.disable_logging():
            return cmdstan.CmdStanModel(stan_file=stan_file, exe_file=executable)

    def library(self) -> Path:
        """Path of the C library with the log density; see `StanDensity`."""
        stan_file = self.compile().with_suffix(".stan")
        if self.toolchain.is_assembled:
            return library_of(stan_file)
        return build_with_bridgestan(stan_file)

    def density(self, data: Data = None) -> StanDensity:
        """The program's log density given ``data``: a mapping, a JSON file's path, or None."""
        return StanDensity(self, data)

    def _build(self, directory: Path) -> None:
        """Compile in a directory beside the final one and rename it when it is complete."""
        for stale in directory.parent.glob(f".{directory.name}-*"):  # left by a killed process
            shutil.rmtree(stale, ignore_errors=True)
        work = Path(tempfile.mkdtemp(dir=directory.parent, prefix=f".{directory.name}-"))
        work.chmod(0o755)  # a cache may be shared; mkdtemp makes it the owner's alone
        try:
            stan_file = work / f"{self.name}.stan"
            stan_file.write_text(self.source)
            self._check(stan_file)
            named = "the Stan program" if self.name == UNNAMED else f"Stan program {self.name}"
            with step(f"compiling {named}"):
                _compile(stan_file)
                if self.toolchain.is_assembled:
                    build_beside(self.toolchain, stan_file)
            _drop_intermediate(stan_file)
            shutil.rmtree(directory, ignore_errors=True)
            work.rename(directory)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _check(self, stan_file: Path) -> None:
        run_stanc(self, ["--o", str(stan_file.with_suffix(".hpp"))], stan_file)


def _compile(stan_file: Path) -> None:
    cmdstan = import_cmdstanpy()
    try:
        with cmdstan.disable_logging():
            cmdstan.CmdStanModel(stan_file=stan_file)
    except ValueError as error:
        raise StanCompileError(
            f"the C++ of Stan program {stan_file.stem!r} did not compile; if it was killed, "
            f"there was too little memory. The compiler said:\n{_last_lines(str(error))}"
        ) from error


def _drop_intermediate(stan_file: Path) -> None:
    for suffix in (".hpp", ".o"):
        stan_file.with_suffix(suffix).unlink(missing_ok=True)


def _inline_includes(program: StanProgram) -> str:
    if program.path is None:
        raise ValueError(
            f"Stan program {program.name!r} has #include lines but was given as text: "
            "give the path of its .stan file, beside which the included files are looked up"
        )
    folder = program.path.parent.resolve()
    arguments = [f"--include-paths={folder}", "--auto-format", "--canonicalize=includes"]
    return run_stanc(program, arguments, program.path)


def _as_path(source: str | PathLike[str]) -> Path | None:
    """The path, if ``source`` is one: a path object or a single line ending in ``.stan``."""
    if isinstance(source, str) and ("\n" in source or not source.strip().endswith(".stan")):
        return None
    path = Path(source).expanduser()
    if path.suffix != ".stan":
        raise ValueError(f"a Stan program's file must end in .stan, got {path}")
    if not path.is_file():
        raise FileNotFoundError(f"no Stan program at {path}; give the source text or its path")
    return path


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no Stan program, as it is not text: {error}") from error


def _from_text(text: str, name: str, path: Path | None) -> StanProgram:
    program = StanProgram(text, name)
    program.path = path
    return program


def _valid_name(name: str) -> str:
    cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
    return cleaned if not cleaned[0].isdigit() else f"_{cleaned}"


def _suffix() -> str:
    return import_cmdstanpy().utils.EXTENSION


def _last_lines(text: str, count: int = 15) -> str:
    return "\n".join(text.strip().splitlines()[-count:])
