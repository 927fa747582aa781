"""Finds an installed CmdStan or assembles one; see ``driver/README.md`` for what is assembled."""

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
