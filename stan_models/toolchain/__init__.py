"""Finds an installed CmdStan or assembles one; see ``driver/README.md`` for what is assembled.

`find_toolchain` gives the Stan to use: `$CMDSTAN`, ``~/.cmdstan``, or one assembled in the cache
from the sources in an httpstan wheel (`wheel` gets them, `assemble` builds); `present_toolchain`
the same if nothing has to be built. `use_wheel` takes a wheel from disk, `install_official` fetches
CmdStan. `cache` has the directory, its locks and keys, `compiler` says which compiler is missing.

To add a source of Stan: a function that leaves a CmdStan directory in the cache and returns a
`Toolchain`, whose ``key`` changes with all that changes its output; a branch in `find_toolchain`
and in `present_toolchain`; a test in ``tests/stan_models/test_toolchain.py``.

>>> from stan_models.toolchain import find_toolchain
>>> find_toolchain().stan_version.split(".")[0]
'2'
"""

from stan_models.toolchain.cache import CACHE_VARIABLE, cache_directory
from stan_models.toolchain.locate import (
    Toolchain,
    find_toolchain,
    import_cmdstanpy,
    install_official,
    installed_cmdstan,
    present_toolchain,
    use_wheel,
)

__all__ = [
    "CACHE_VARIABLE",
    "Toolchain",
    "cache_directory",
    "find_toolchain",
    "import_cmdstanpy",
    "install_official",
    "installed_cmdstan",
    "present_toolchain",
    "use_wheel",
]
