"""``python -m bridge compare | sweep | merge | calibrate | report | fit | list | generate``."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.command_line.arguments import parse
from bridge.errors import BridgeError
from stan_models.errors import StanError

if TYPE_CHECKING:
    from rich.console import Console

ROOMS = {"fit": "fit", "list": "listing"}  # the other commands are in `comparisons`
KEEPS_RECORDS = (
    "compare",
    "sweep",
    "calibrate",
    "generate",
)  # so that it goes on where it was stopped


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status: 2 for a wrong request, 1 if every run failed, 3
    where `fit` has no answer to trust."""
    arguments = parse(argv, _program())
    try:
        from bridge.command_line.requests import require_possible

        require_possible(arguments)
        console = _console(arguments.verbose)
        room = import_module(f"bridge.command_line.{ROOMS.get(arguments.command, 'comparisons')}")
        return getattr(room, f"{arguments.command}_command")(arguments, console)
    except (BridgeError, StanError, LookupError, ValueError, OSError) as error:
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        goes_on = "; the same command goes on where this one stopped"
        said = str(stop) or "interrupted"
        kept = arguments.command in KEEPS_RECORDS and not getattr(arguments, "overwrite", False)
        print(f"{said}{goes_on * kept}", file=sys.stderr)
        return 130


def _program() -> str:
    """What the user called: the script, or one of the packages."""
    called = Path(sys.argv[0])
    if called.stem == "trusted-posteriors":
        return called.stem
    package = "trusted_posteriors" if called.parent.name == "trusted_posteriors" else "bridge"
    return f"python -m {package}"


def _console(verbose: bool) -> Console:
    """Where results are printed; what is logged goes to stderr, but PyTensor's remarks on BLAS."""
    from rich.console import Console
    from rich.logging import RichHandler

    console = Console()
    if console.width < 120:  # tables are cut in narrower terminals, and lost in pipes
        console = Console(width=120)
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(message)s",
        handlers=[
            RichHandler(
                console=Console(stderr=True, width=console.width),
                show_time=False,
                show_level=False,
                show_path=False,
            )
        ],
    )
    logging.getLogger("bridge").setLevel(logging.INFO)
    logging.getLogger("pytensor.tensor.blas").setLevel(logging.ERROR)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    # PyTensor installed by pip says at each import, in every process, that it has no BLAS
    os.environ["PYTHONWARNINGS"] = "ignore:PyTensor could not link to a BLAS:UserWarning"
    warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS", UserWarning)
    return console


def _message(error: Exception) -> str:
    """The message itself: str() of a KeyError would be its repr."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


if __name__ == "__main__":
    sys.exit(main())
