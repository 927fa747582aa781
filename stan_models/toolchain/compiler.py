"""The C++ compiler and make: found or asked for in one sentence."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess

from stan_models.errors import ToolchainError

INSTALL = {
    "Linux": "`apt-get install g++ make` (Debian, Ubuntu) or `dnf install gcc-c++ make` (Fedora)",
    "Darwin": "`xcode-select --install`",
    "Windows": "`python -m cmdstanpy.install_cxx_toolchain`",
}


def compiler_command() -> list[str]:
    """The compiler that GNU make will call: ``$CXX``, else ``g++``."""
    return shlex.split(os.environ.get("CXX", "")) or ["g++"]


def make_command() -> str:
    return os.environ.get("MAKE", "mingw32-make" if platform.system() == "Windows" else "make")


def require_compiler() -> str:
    """Return what identifies the compiler (version, target); raise `ToolchainError` without one."""
    compiler, make = compiler_command(), make_command()
    missing = [tool for tool in (compiler[0], make) if shutil.which(tool) is None]
    if missing:
        hint = INSTALL.get(platform.system(), "your system's package of a C++17 compiler and make")
        raise ToolchainError(
            f"compiling Stan programs needs {' and '.join(missing)}, not found; install: {hint}"
        )
    answer = subprocess.run([*compiler, "--version"], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ToolchainError(
            f"`{shlex.join(compiler)} --version` failed: {answer.stderr.strip()}; "
            "set CXX to a working C++17 compiler"
        )
    return f"{answer.stdout.splitlines()[0]} on {platform.machine()}"
