"""``python -m stan_models setup | info``: prepare Stan, or say which Stan is used."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from stan_models.errors import StanError
from stan_models.toolchain import (
    CACHE_VARIABLE,
    Toolchain,
    cache_directory,
    find_toolchain,
    install_official,
    installed_cmdstan,
    present_toolchain,
    use_wheel,
)
from stan_models.toolchain.wheel import chosen


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit status is 1 where Stan cannot be prepared."""
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except (StanError, ImportError) as error:
        Console(stderr=True, soft_wrap=True).print(f"error: {error}", markup=False)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m stan_models", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    setup = commands.add_parser("setup", help="find Stan, or build it in the cache")
    source = setup.add_mutually_exclusive_group()
    source.add_argument("--official", action="store_true", help="install CmdStan from GitHub")
    source.add_argument("--wheel", type=Path, help="httpstan wheel on disk to build from")
    setup.set_defaults(run=_setup)
    info = commands.add_parser("info", help="say which Stan is used; builds nothing")
    info.set_defaults(run=_info)
    return parser


def _setup(options: argparse.Namespace) -> int:
    if options.official:
        install_official()
    if options.wheel:
        use_wheel(options.wheel)
        if (official := installed_cmdstan()) is not None:
            _say(f"note: the CmdStan at {official} goes first; unset CMDSTAN to use the wheel")
    _show(find_toolchain())
    return 0


def _info(options: argparse.Namespace) -> int:
    toolchain = present_toolchain()
    if toolchain is None:
        _say(
            f"no Stan yet: `python -m stan_models setup` builds one in {cache_directory()} "
            f"(another place: {CACHE_VARIABLE})"
        )
        return 1
    _show(toolchain)
    return 0


def _show(toolchain: Toolchain) -> None:
    table = Table(show_header=False, box=None)
    table.add_row("engine", toolchain.engine)
    table.add_row("Stan", toolchain.stan_version)
    table.add_row("directory", str(toolchain.path))
    table.add_row("cache", str(cache_directory()))
    Console(soft_wrap=True).print(table)
    wheel = chosen(cache_directory()) if toolchain.is_assembled else None
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if wheel is not None and wheel.python not in (None, here):
        _say(
            f"note: the cache was filled with the wheel of Python {wheel.python}, "
            f"{wheel.path.name}: it serves Python {here}, for which there may be one of a newer "
            f"Stan; for that give another {CACHE_VARIABLE}, or "
            "`python -m stan_models setup --wheel PATH`"
        )


def _say(message: str) -> None:
    Console(soft_wrap=True, highlight=False).print(message, markup=False)


if __name__ == "__main__":
    sys.exit(main())
