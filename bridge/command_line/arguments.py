"""What can be asked on the command line; imports the standard library alone, to be quick."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from math import nan
from pathlib import Path
from typing import NoReturn

DESCRIPTION = "Approximate posteriors of PyMC and Stan models, judged against the truth."
Adder = Callable[..., argparse.ArgumentParser]  # adds a command by its name
SCRIPT = "trusted-posteriors"  # as setup.cfg installs it
EMBEDDED_SCHOOLS = (
    "eight_schools-eight_schools_noncentered",
    "eight_schools-eight_schools_centered",
)


def parse(argv: Sequence[str] | None, program: str) -> argparse.Namespace:
    """What was asked for; ``program`` is what the user called. Exits where it cannot be read."""
    return _parser(program).parse_args(argv)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(prog=program, description=DESCRIPTION)
    parser.add_argument("--verbose", action="store_true", help="say what is being done")
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print it and exit")
    parser.add_argument(
        "--print-completion",
        choices=("bash", "zsh", "tcsh"),
        action=_PrintCompletion,
        help=f"what makes this shell complete the words of {SCRIPT}; needs shtab",
    )
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    for add in (
        _add_compare, _add_sweep, _add_merge, _add_calibrate, _add_report, _add_fit,
        _add_list_and_generate,
    ):  # fmt: skip
        add(commands.add_parser)
    return parser


class _Parser(argparse.ArgumentParser):
    """Says the near word where one is wrong, as Python 3.14's does."""

    def error(self, message: str) -> NoReturn:
        super().error(message + self._meant(message))

    def _meant(self, message: str) -> str:
        """What to write instead, as far as argparse's own message tells."""
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice:
            return _near(choice[1], [word.strip("'") for word in choice[2].split(", ")])
        if message.startswith("unrecognized arguments: "):
            wrong = [word for word in message.split() if word.startswith("--")]
            known = [o for p in _with_commands(self) for a in p._actions for o in a.option_strings]
            return "".join(_near(word, known) for word in wrong)
        if "required: program" in message:
            return "; write it first, as an option such as --methods takes all words after it"
        return ""


def _near(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # takes 10 ms, which --help need not

    near = get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class _PrintVersion(argparse.Action):
    """Print the version that is installed, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata  # takes 20 ms, which --help need not

        print(f"{SCRIPT} {metadata.version(SCRIPT)}")
        parser.exit()


class _PrintCompletion(argparse.Action):
    """Print a script for the shell, made by shtab, and exit."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        try:
            import shtab
        except ImportError:
            parser.error(
                "--print-completion needs shtab, which is not installed: pip install shtab"
            )
        own = _parser(SCRIPT)  # shells complete a command's words, and `python -m bridge` is none
        for place in _with_commands(own):
            for action in place._actions:
                if action.type is Path:
                    kind = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
                    action.complete = kind  # type: ignore[attr-defined]  # where shtab looks
        print(shtab.complete(own, str(values)))
        parser.exit()


def _with_commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser, and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


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
        "--shard", metavar="I/N", help="the I-th of N parts, for a job array; `merge` joins them"
    )
    command.add_argument(
        "--run-limit", type=_positive, metavar="S", help="seconds after which a run is given up"
    )
    _cluster_arguments(command)


def _add_merge(add_command: Adder) -> None:
    command = add_command("merge", help="the records of several sweeps in one folder")
    command.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="of the sweeps")
    command.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of all")


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
    command.add_argument("--simulations", type=_at_least(1), default=1_000, help="default 1000")
    _seed_argument(command, "of all random numbers (default 1)")
    command.add_argument(
        "--out", type=Path, default=Path("results/calibrate"),
        help="folder of one model and one method (default results/calibrate)",
    )  # fmt: skip
    command.add_argument("--jobs", type=_jobs, default=-1, help="processes (default: one a core)")
    command.add_argument("--retry-failed", action="store_true", help="run recorded failures again")
    _cluster_arguments(command)


def _add_report(add_command: Adder) -> None:
    command = add_command("report", help="one HTML page on the records of a sweep")
    command.add_argument("folder", type=Path, metavar="DIR", help="where records.sqlite is")
    command.add_argument("--out", type=Path, metavar="DIR", help="folder (default: DIR itself)")


def _add_fit(add_command: Adder) -> None:
    command = add_command("fit", help="the first approximation of a posterior to trust")
    command.add_argument("program", type=Path, help="a .stan file")
    command.add_argument("data", nargs="?", type=Path, help="its data, a JSON file")
    command.add_argument(
        "--methods", nargs="+", metavar="METHOD", help="in this order (default hierarchical)"
    )
    command.add_argument("--khat", type=_positive, help="good enough below (default 0.7)")
    command.add_argument(
        "--draws", type=_at_least(4), default=4_000, help="to write (default 4000)"
    )
    command.add_argument("--ess", type=_positive, default=400, help="effective draws wanted (400)")
    command.add_argument(
        "--effort",
        type=_positive,
        help="gradients that approximations may take in vain, in NUTS's (default: no bound)",
    )
    command.add_argument(
        "--want",
        choices=("draws", "density"),
        default="draws",
        help="density: a flow is tried before NUTS",
    )
    command.add_argument(
        "--posterior-predictive",
        nargs="+",
        metavar="NAME",
        default=[],
        help="generated quantities that are predictions of the data: a group of that name has "
        "them; as DATA=NAME by the names of what they predict, which is observed",
    )
    command.add_argument(
        "--observed-data",
        nargs="+",
        metavar="NAME",
        default=[],
        help="data that are observed: a group of that name has them, constant_data the others",
    )
    command.add_argument(
        "--log-likelihood", action="store_true", help="an error unless the program has log_lik"
    )
    command.add_argument(
        "--log-prior", action="store_true", help="a group of that name has what lprior generates"
    )
    command.add_argument(
        "--prior",
        nargs="+",
        metavar="PARAMETER=NAME",
        default=[],
        help="generated quantities that are draws of the prior: a group of that name has them",
    )
    _seed_argument(command, "of all random numbers (default 1)")
    command.add_argument(
        "--out", type=Path, default=Path("posterior.nc"), help="NetCDF file (default posterior.nc)"
    )
    command.add_argument(
        "--save-density",
        type=Path,
        metavar="FILE",
        help="keep the normalised q as well, for px.load; with --want density chains are the last "
        "that is tried",
    )
    command.add_argument("--overwrite", action="store_true", help="replace files that exist")


def _add_list_and_generate(add_command: Adder) -> None:
    command = add_command("list", help="cases and methods")
    _database_argument(command)

    command = add_command("generate", help="make reference draws of cases with Stan NUTS")
    command.add_argument("names", nargs="+", metavar="NAME", help="a case of the database")
    _seed_argument(command, "of Stan's sampler (default 1)")
    _database_argument(command)
    command.add_argument(
        "--timeout",
        type=_positive,
        metavar="SECONDS",
        help="give up a run of Stan where a chain takes longer",
    )
    command.add_argument(
        "--retry-refused", action="store_true", help="try again what was refused before"
    )
    command.add_argument(
        "--overwrite", action="store_true", help="make draws again that are there, all of them"
    )


def _comparison_arguments(
    command: argparse.ArgumentParser, methods: str, seeds: int, out: str
) -> None:
    command.add_argument("--methods", nargs="+", metavar="METHOD", help=f"default: {methods}")
    command.add_argument(
        "--seeds", type=_at_least(1), default=seeds, help=f"seeds 1..N (default {seeds})"
    )
    command.add_argument(
        "--draws", type=_at_least(1), default=20_000, help="draws of each approximation"
    )
    command.add_argument("--out", type=Path, default=Path(out), help=f"folder (default {out})")
    command.add_argument("--jobs", type=_jobs, default=-1, help="processes (default: one a core)")
    command.add_argument("--retry-failed", action="store_true", help="run recorded failures again")
    command.add_argument(
        "--isolate", action="store_true",
        help="a process for each run: what ends it, as a crash, is the record of a failed run",
    )  # fmt: skip
    _database_argument(command)


def _cluster_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--budget",
        type=_positive,
        metavar="S",
        help="seconds after which no further run is started",
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


def _seed_argument(command: argparse.ArgumentParser, what: str) -> None:
    command.add_argument("--seed", type=_at_least(0), default=1, help=what)
    command.add_argument(  # as Python has it
        "--random-seed", dest="seed", type=_at_least(0), default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )  # fmt: skip


def _at_least(fewest: int) -> Callable[[str], int]:
    """Reads an integer, and names the option where it is none or smaller."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[+-]?\d+", text) or int(text) < fewest:
            raise argparse.ArgumentTypeError(f"must be an integer >= {fewest}, got {text}")
        return int(text)

    return read


def _jobs(text: str) -> int:
    """Reads a number of processes, joblib's negative ones included: -1 is one a core."""
    if not re.fullmatch(r"[+-]?\d+", text) or int(text) == 0:
        raise argparse.ArgumentTypeError(
            f"must be an integer >= 1, or -1 for all cores, got {text}"
        )
    return int(text)


def _positive(text: str) -> float:
    """Reads a number, and names the option where it is none or not above zero."""
    try:
        number = float(text)
    except ValueError:
        number = nan
    if not number > 0:
        raise argparse.ArgumentTypeError(f"must be a positive number, got {text}")
    return number
