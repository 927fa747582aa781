"""The command line: ``python -m bridge compare | sweep | calibrate | report | fit | list | …``."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.logging import RichHandler
from rich.table import Table

from bridge.advice import LADDER, fit
from bridge.errors import BridgeError
from bridge.measures.limits import KHAT_USABLE
from bridge.methods.named_draws import NamedDraws
from stan_models.errors import StanError

Runner = Callable[[argparse.Namespace, Console], int]
Adder = Callable[..., argparse.ArgumentParser]  # adds a command by its name
NOT_TRUSTED = 3  # exit status of `fit` where even the draws of NUTS are not to be trusted
MOST_ROWS = 40  # of a summary on the terminal
EMBEDDED_SCHOOLS = (
    "eight_schools-eight_schools_noncentered",
    "eight_schools-eight_schools_centered",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (2 for a wrong request, 1 if every run failed)."""
    arguments = _parser().parse_args(argv)
    console = Console()
    if console.width < 120:  # tables are cut in narrower terminals, and lost in pipes
        console = Console(width=120)
    logging.basicConfig(
        level=logging.INFO if arguments.verbose else logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=console, show_path=False)],
    )
    logging.getLogger("bridge").setLevel(logging.INFO)
    logging.getLogger("pytensor.tensor.blas").setLevel(logging.ERROR)
    logging.getLogger("distributed").setLevel(logging.WARNING)
    # PyTensor installed by pip says at each import, in every process, that it has no BLAS
    os.environ["PYTHONWARNINGS"] = "ignore:PyTensor could not link to a BLAS:UserWarning"
    warnings.filterwarnings("ignore", "PyTensor could not link to a BLAS", UserWarning)
    try:
        return arguments.run(arguments, console)
    except (BridgeError, StanError, LookupError, ValueError, OSError) as error:
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130


def _message(error: Exception) -> str:
    """The message itself: str() of a KeyError would be its repr."""
    return str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bridge", description=__doc__)
    parser.add_argument("--verbose", action="store_true", help="say what is being done")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in (
        _add_compare, _add_sweep, _add_calibrate, _add_report, _add_fit, _add_list_and_generate
    ):  # fmt: skip
        add(commands.add_parser)
    return parser


def _add_compare(add_command: Adder) -> None:
    command = add_command("compare", help="judge methods against reference draws")
    command.add_argument(
        "cases",
        nargs="*",
        metavar="NAME",
        default=list(EMBEDDED_SCHOOLS),
        help="posteriors of the database (default: both eight schools)",
    )
    _comparison_arguments(command, "those that `list` marks", 3, "results/compare")
    command.set_defaults(run=_later("compare_command"))


def _add_sweep(add_command: Adder) -> None:
    command = add_command("sweep", help="every posterior with reference draws, or the zoo")
    _comparison_arguments(command, "all that work on any posterior", 5, "results/sweep")
    command.add_argument(
        "--zoo",
        nargs="*",
        metavar="TARGET",
        help="instead: how often the verdict of `fit` is wrong, on targets with known truth "
        "(default: all)",
    )
    command.add_argument(
        "--run-limit", type=float, metavar="S", help="seconds after which a run is given up"
    )
    _cluster_arguments(command)
    command.set_defaults(run=_later("sweep_command"))


def _add_calibrate(add_command: Adder) -> None:
    command = add_command(
        "calibrate", help="fit data simulated from known parameters: are posteriors right?"
    )
    command.add_argument(
        "model",
        metavar="FILE[:NAME]",
        help="a Python file and the name in it of a pm.Model, or of a function that makes one "
        "(default: model); or a .stan file",
    )
    command.add_argument(
        "--simulate",
        type=Path,
        metavar="FILE",
        help="a Python file with prior(rng) and simulator(parameters, rng), either or both; a "
        ".stan file needs them",
    )
    command.add_argument(
        "--data", type=Path, metavar="FILE", help="real data, JSON: posterior calibration"
    )
    command.add_argument(
        "--method", default="answer", metavar="METHOD", help="default: all that `fit` does"
    )
    command.add_argument("--simulations", type=int, default=1_000, help="default 1000")
    command.add_argument("--seed", type=int, default=1, help="of all random numbers (default 1)")
    command.add_argument(
        "--out", type=Path, default=Path("results/calibrate"),
        help="folder of one model and one method (default results/calibrate)",
    )  # fmt: skip
    command.add_argument("--jobs", type=int, default=-1, help="processes (default: one a core)")
    command.add_argument("--retry-failed", action="store_true", help="run recorded failures again")
    _cluster_arguments(command)
    command.set_defaults(run=_later("calibrate_command"))


def _add_report(add_command: Adder) -> None:
    command = add_command("report", help="one HTML page on the records of a sweep")
    command.add_argument("folder", type=Path, metavar="DIR", help="where records.sqlite is")
    command.add_argument("--out", type=Path, metavar="DIR", help="folder (default: DIR itself)")
    command.set_defaults(run=_later("report_command"))


def _add_fit(add_command: Adder) -> None:
    command = add_command("fit", help="the first approximation of a posterior to trust")
    command.add_argument("program", type=Path, help="a .stan file")
    command.add_argument("data", nargs="?", type=Path, help="its data, a JSON file")
    command.add_argument(
        "--methods", nargs="+", metavar="METHOD", default=list(LADDER), help="in this order"
    )
    command.add_argument(
        "--khat",
        type=float,
        default=KHAT_USABLE,
        help=f"good enough below (default {KHAT_USABLE:g})",
    )
    command.add_argument("--draws", type=int, default=4_000, help="to write (default 4000)")
    command.add_argument("--ess", type=float, default=400, help="effective draws wanted (400)")
    command.add_argument(
        "--effort",
        type=float,
        help="gradients that approximations may take in vain, in NUTS's (default 1)",
    )
    command.add_argument(
        "--want",
        choices=("draws", "density"),
        default="draws",
        help="density: a flow is tried before NUTS",
    )
    command.add_argument("--seed", type=int, default=1, help="of all random numbers (default 1)")
    command.add_argument(
        "--out", type=Path, default=Path("posterior.nc"), help="NetCDF file (default posterior.nc)"
    )
    command.add_argument("--overwrite", action="store_true", help="replace the file --out")
    command.set_defaults(run=_fit)


def _add_list_and_generate(add_command: Adder) -> None:
    command = add_command("list", help="cases and methods")
    _database_argument(command)
    command.set_defaults(run=_later("list_command"))

    command = add_command("generate", help="make reference draws of a case with Stan NUTS")
    command.add_argument("name", help="a case of the database")
    command.add_argument("--seed", type=int, default=1, help="of Stan's sampler (default 1)")
    _database_argument(command)
    command.set_defaults(run=_later("generate_command"))


def _comparison_arguments(
    command: argparse.ArgumentParser, methods: str, seeds: int, out: str
) -> None:
    command.add_argument("--methods", nargs="+", metavar="METHOD", help=f"default: {methods}")
    command.add_argument("--seeds", type=int, default=seeds, help=f"seeds 1..N (default {seeds})")
    command.add_argument("--draws", type=int, default=20_000, help="draws of each approximation")
    command.add_argument("--out", type=Path, default=Path(out), help=f"folder (default {out})")
    command.add_argument("--jobs", type=int, default=-1, help="processes (default: one a core)")
    command.add_argument("--retry-failed", action="store_true", help="run recorded failures again")
    _database_argument(command)


def _cluster_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--budget", type=float, metavar="S", help="seconds after which no further run is started"
    )
    command.add_argument(
        "--backend",
        default="loky",
        help="joblib's: loky (processes here), or dask or ray for the cluster you are connected to",
    )


def _database_argument(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--database",
        metavar="PATH",
        help="a posteriordb (its root or its posterior_database folder), or 'github'; "
        "default $POSTERIORDB_PATH, else the embedded cases",
    )


def _later(name: str) -> Runner:
    """A command of `bridge.commands`, which imports all that comparisons need."""

    def run(arguments: argparse.Namespace, console: Console) -> int:
        from bridge import commands

        return getattr(commands, name)(arguments, console)

    return run


def _fit(arguments: argparse.Namespace, console: Console) -> int:
    if arguments.out.suffix != ".nc" or not arguments.out.absolute().parent.is_dir():
        raise ValueError(f"--out must name a .nc file in an existing folder, got {arguments.out}")
    if arguments.out.exists() and not arguments.overwrite:
        raise ValueError(f"{arguments.out} exists: give --overwrite, or another file with --out")
    with console.status("fitting ..."):
        advice = fit(
            arguments.program,
            arguments.data,
            methods=arguments.methods,
            khat=arguments.khat,
            draws=arguments.draws,
            ess=arguments.ess,
            effort=arguments.effort,
            want=arguments.want,
            random_seed=arguments.seed,
            progressbar=False,
        )
    console.print(advice.reasons, highlight=False, markup=False)
    if isinstance(advice.draws, NamedDraws):
        _print_summary(advice.draws, console)
        replace(advice.draws, attributes=advice.attributes).to_netcdf(arguments.out)
    else:
        import arviz as az

        summary = az.summary(advice.idata, kind="stats")
        console.print(summary.to_string(max_rows=MOST_ROWS), highlight=False, markup=False)
        advice.idata.to_netcdf(arguments.out)
    console.print(f"draws written to {arguments.out}")
    return 0 if advice.trusted else NOT_TRUSTED


def _print_summary(draws: NamedDraws, console: Console) -> None:
    table = Table("", "mean", "sd", "5%", "95%", box=None)
    rows = draws.summary()
    for name, *numbers in rows[:MOST_ROWS]:
        table.add_row(name, *(f"{x:.4g}" for x in numbers))
    console.print(table, highlight=False)
    if len(rows) > MOST_ROWS:
        console.print(f"... and {len(rows) - MOST_ROWS} more in the file", highlight=False)


if __name__ == "__main__":
    sys.exit(main())
