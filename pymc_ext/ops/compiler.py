"""PyTensor 2 where there is no C++ compiler: its numba backend instead of Python."""

from __future__ import annotations

import logging
import os

import pytensor
from pytensor.compile.mode import get_default_mode

from pymc_ext.pytensor_versions import NumbaLinker

_log = logging.getLogger(__name__)
FLAGS = "cxx=,linker=numba"


def backend_asked_for() -> bool:
    """Whether the user set PyTensor's mode or linker, here or where this process started from."""
    config = pytensor.config
    ours = os.environ.get("PYTENSOR_FLAGS", "").endswith(FLAGS)
    return config.mode != "Mode" or config.linker != ("numba" if ours else "auto")


def use_numba_without_compiler() -> None:
    """Make numba the default where nothing can compile C and no mode or linker was asked for.

    PyTensor 2 would run every Op in Python, tens of times slower; PyTensor 3 takes numba anyway.
    Processes started from here inherit the choice through ``PYTENSOR_FLAGS``: it is said once.
    """
    config = pytensor.config
    if config.cxx or backend_asked_for():
        return
    if isinstance(get_default_mode().linker, NumbaLinker):
        return
    config.linker = "numba"
    given = os.environ.get("PYTENSOR_FLAGS")
    os.environ["PYTENSOR_FLAGS"] = f"{given},{FLAGS}" if given else FLAGS
    _log.warning(
        "no C++ compiler: PyTensor compiles with numba instead, which takes longer to start "
        "(PYTENSOR_FLAGS=linker=vm for plain Python)"
    )


use_numba_without_compiler()
