"""What can go wrong between a Stan program and its draws, as exceptions."""

from __future__ import annotations


class StanError(RuntimeError):
    """Base of every error raised by this package about Stan itself."""


class ToolchainError(StanError):
    """CmdStan, the compiler, or the cache directory is missing or unusable."""


class StanCompileError(StanError):
    """The Stan program is not valid, or its C++ did not compile; carries stanc's message."""


class StanDataError(StanError, ValueError):
    """The data do not fit the program's data block; carries Stan's message with the field."""


class StanRunError(StanError):
    """A Stan method failed, was killed, or gave draws that cannot be used."""
