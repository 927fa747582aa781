"""The compiled program as a C library that the bridgestan client loads."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

from stan_models.errors import StanCompileError, ToolchainError
from stan_models.toolchain import Toolchain
from stan_models.toolchain.cache import only_builder
from stan_models.toolchain.compiler import make_command
from stan_models.toolchain.progress import step


def import_bridgestan() -> ModuleType:
    """bridgestan, or one sentence that says how to get it."""
    try:
        import bridgestan
    except ImportError as error:
        raise ImportError(
            "log densities of Stan programs need bridgestan: pip install 'trusted-posteriors[stan]'"
        ) from error
    return bridgestan


def library_of(stan_file: Path) -> Path:
    return stan_file.with_name(f"{stan_file.stem}_model.so")


def build_beside(toolchain: Toolchain, stan_file: Path) -> None:
    """With the assembled toolchain: link the library from the executable's object file."""
    command = [make_command(), str(library_of(stan_file))]
    answer = subprocess.run(
        command, cwd=toolchain.path, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise StanCompileError(
            f"linking the log density of {stan_file.stem!r} failed:\n{answer.stderr.strip()}"
        )


def build_with_bridgestan(stan_file: Path) -> Path:
    """With an official CmdStan: bridgestan's own sources compile the library, once."""
    library = library_of(stan_file)
    if not library.exists():
        with only_builder(library):
            if not library.exists():
                _compile(stan_file, library)
    return library


def _compile(stan_file: Path, library: Path) -> None:
    _require_sources()
    compile_model = import_bridgestan().compile_model
    with tempfile.TemporaryDirectory(dir=library.parent, prefix=".bridgestan-") as folder:
        copy = Path(shutil.copy(stan_file, folder))
        try:
            with step(f"compiling the log density of {stan_file.stem} with bridgestan"):
                built = compile_model(copy, make_args=["STAN_THREADS=True"])
        except (RuntimeError, ValueError, OSError) as error:
            raise StanCompileError(
                f"bridgestan could not compile {stan_file.stem!r}: {error}"
            ) from error
        os.replace(built, library)


def _require_sources() -> None:
    """bridgestan would fetch its sources from GitHub on its own; we only use what is there."""
    from bridgestan.compile import CURRENT_BRIDGESTAN

    given = os.environ.get("BRIDGESTAN")
    place = Path(given) if given else Path(CURRENT_BRIDGESTAN)
    if not (place / "Makefile").exists():
        raise ToolchainError(
            f"the log density with an official CmdStan needs bridgestan's sources, not found at "
            f"{place}: set BRIDGESTAN to them, run `python -c 'import bridgestan.compile as c; "
            "c.get_bridgestan_path()'` where GitHub can be reached, or unset CMDSTAN to use the "
            "Stan that this package assembles"
        )
