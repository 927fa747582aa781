"""A CmdStan directory for the unmodified cmdstanpy, built from the httpstan wheel and our driver.

The directory is ``<cache>/toolchains/<key>``, where the key hashes the wheel, the driver's
sources, the flags and the compiler. It is built in place, under a lock, because the libraries'
run path is absolute; a record written last marks it complete, and one without is built anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path

from stan_models.errors import ToolchainError
from stan_models.toolchain import wheel as wheels
from stan_models.toolchain.cache import digest, file_digest, only_builder, write_atomically
from stan_models.toolchain.compiler import make_command, require_compiler
from stan_models.toolchain.progress import step

RECORD = "toolchain.json"
BYTES_PER_JOB = 3 * 2**30  # peak of the compiler on the driver, measured


def driver_directory() -> Path:
    return Path(str(resources.files("stan_models.toolchain") / "driver"))


def driver_sources() -> list[Path]:
    files = driver_directory().iterdir()
    return sorted(f for f in files if f.suffix in {".cpp", ".hpp", ".in"})


def toolchain_key(wheel: wheels.Wheel, compiler: str) -> str:
    sources = {file.name: file_digest(file) for file in driver_sources()}
    return digest(wheel.sha256, sources, compiler, os.environ.get("CXXFLAGS"))


def assembled(cache: Path) -> Path:
    """The assembled CmdStan of this wheel, driver and compiler; built on the first call."""
    compiler = require_compiler()
    wheel = wheels.obtain(cache)
    key = toolchain_key(wheel, compiler)
    directory = _place(cache, key)
    if not (directory / RECORD).exists():
        with only_builder(directory):
            if not (directory / RECORD).exists():
                _build(directory, wheel, key, compiler)
    return directory


def complete(cache: Path) -> Path | None:
    """The assembled CmdStan if it is built already."""
    wheel = wheels.chosen(cache)
    if wheel is None:
        return None
    directory = _place(cache, toolchain_key(wheel, require_compiler()))
    return directory if (directory / RECORD).exists() else None


def _place(cache: Path, key: str) -> Path:
    return cache / "toolchains" / key


def _build(directory: Path, wheel: wheels.Wheel, key: str, compiler: str) -> None:
    shutil.rmtree(directory, ignore_errors=True)  # what an interrupted build left
    directory.mkdir()
    with step("unpacking Stan"):
        wheels.unpack(wheel, directory)
    version = _stan_version(directory)
    _install_driver(directory, version)
    with step("compiling Stan's driver and precompiled header (once, about 2 minutes)"):
        _make(directory)
    record = {
        "engine": f"assembled from httpstan {wheel.version}",
        "stan_version": version,
        "key": key,
        "compiler": compiler,
        "wheel": wheel.path.name,
        "wheel_sha256": wheel.sha256,
    }
    write_atomically(directory / RECORD, json.dumps(record, indent=2) + "\n")


def _stan_version(directory: Path) -> str:
    """Version of the unpacked stanc, which also proves that it runs on this machine."""
    stanc = directory / "bin" / "stanc"
    try:
        answer = subprocess.run([stanc, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ToolchainError(
            f"the wheel's stanc does not run here ({error}): the wheel is for another platform; "
            f"{wheels.OTHER_WAYS}"
        ) from error
    found = re.search(r"v(\d+\.\d+\.\d+)", answer.stdout)
    if found is None:
        raise ToolchainError(f"stanc --version said {answer.stdout!r}, expected a version v2.x.y")
    return found[1]


def _install_driver(directory: Path, version: str) -> None:
    (directory / "driver").mkdir()
    for source in driver_sources():
        shutil.copy(source, directory / "driver")
    makefile = (directory / "driver" / "makefile.in").read_text()
    (directory / "makefile").write_text(makefile.replace("@CMDSTAN_VERSION@", version))
    if not (directory / "Makefile").exists():  # the name bridgestan.compile_model looks for
        (directory / "Makefile").symlink_to("makefile")


def _make(directory: Path) -> None:
    command = [make_command(), f"-j{_jobs()}", "build"]
    answer = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if answer.returncode:
        log = directory / "build.log"
        log.write_text(answer.stdout + answer.stderr)
        killed = "Killed" in answer.stderr or "Terminated" in answer.stderr
        reason = "it was killed, which means too little memory (3 GB is needed)" if killed else ""
        last = "\n".join(answer.stderr.strip().splitlines()[-5:])
        raise ToolchainError(f"building Stan's driver failed; {reason or last}\nfull log: {log}")


def _jobs() -> int:
    """Two compilers at once where there are two cores and memory for both."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 1
    return max(1, min(2, os.cpu_count() or 1, memory // BYTES_PER_JOB))
