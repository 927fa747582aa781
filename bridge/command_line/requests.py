"""What is wrong with a request, said before anything heavy is imported.

The same functions refuse it later, with the same words; here they only come first. A database on
GitHub is not asked.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile


def require_possible(arguments: argparse.Namespace) -> None:
    """Raise what names the program, data, method, case or folder that cannot be used."""
    if hasattr(arguments, "seed"):
        from pymc_ext.seeds import check_seed

        check_seed(arguments.seed, name="--seed")
    check = CHECK_OF.get(arguments.command)
    if check is not None:
        check(arguments)


def _fit(arguments: argparse.Namespace) -> None:
    from pymc_ext.options import require_memory
    from stan_models import StanProgram
    from stan_models.density import as_json

    StanProgram(arguments.program)
    as_json(arguments.data)
    require_memory("--draws", arguments.draws, 1)  # a parameter, of which there may be more
    by_name(arguments.posterior_predictive, "--posterior-predictive")
    prior_names(arguments.prior)
    _approximations(arguments.methods)
    _require_writable("--out", arguments.out, ".nc", arguments.overwrite)
    if arguments.save_density is not None:
        _require_writable("--save-density", arguments.save_density, ".npz", arguments.overwrite)


def _require_writable(option: str, out: Path, suffix: str, overwrite: bool) -> None:
    """Before hours are spent on what cannot be kept."""
    if out.suffix != suffix or not out.absolute().parent.is_dir() or out.is_dir():
        raise ValueError(f"{option} must name a {suffix} file in an existing folder, got {out}")
    if out.exists() and not overwrite:
        raise ValueError(f"{out} exists: give --overwrite, or another file with {option}")
    try:
        with TemporaryFile(dir=out.absolute().parent):
            pass
        if out.exists():
            out.open("ab").close()
    except OSError as error:
        raise ValueError(
            f"{option} cannot be written, got {out}: {error.strerror}; "
            "give a file in another folder"
        ) from error


def prior_names(words: list[str]) -> dict[str, str] | bool:
    """``mu=mu_prior`` as a mapping; False without any. Raises ValueError for names alone."""
    found = by_name(words, "--prior")
    if isinstance(found, dict):
        return found
    if found:
        raise ValueError(f"--prior must be PARAMETER=NAME, such as mu=mu_prior, got {words}")
    return False


def by_name(words: list[str], option: str) -> dict[str, str] | list[str]:
    """``y=y_rep`` as a mapping; names alone as they are.

    Raises
    ------
    ValueError
        Some are one, and some the other; or a name stands twice before "=".
    """
    pairs = [word.partition("=") for word in words]
    with_sign = [bool(sign) for _, sign, _ in pairs]
    if not any(with_sign):
        return words
    found = {new: name for new, _, name in pairs}
    if not all(with_sign) or len(found) < len(words) or not all(map(all, pairs)):
        raise ValueError(
            f"{option} must be names, or each a DATA=NAME with its own DATA, got {' '.join(words)}"
        )
    return found


def _compare(arguments: argparse.Namespace) -> None:
    _folder(arguments.out)
    _methods(arguments.methods)
    _draws(arguments.draws)
    _cases(arguments.cases, arguments.database)


def _sweep(arguments: argparse.Namespace) -> None:
    _folder(arguments.out)
    _draws(arguments.draws)
    if arguments.shard is not None:
        from bridge.comparison.shards import parse_shard

        parse_shard(arguments.shard)
    if arguments.zoo is None:
        _methods(arguments.methods)
        _cases([], arguments.database)
        return
    if arguments.isolate:
        raise ValueError("--isolate is of posteriors, not of --zoo: leave it out")
    _approximations(arguments.methods)
    if arguments.zoo:
        from bridge.zoo.targets import find_targets

        find_targets(arguments.zoo)


def _calibrate(arguments: argparse.Namespace) -> None:
    from bridge.calibration.files import model_file, read_data, require_file

    _folder(arguments.out)
    model = model_file(arguments.model)
    if arguments.simulate is not None:
        require_file(arguments.simulate)
    if arguments.data is not None:
        read_data(arguments.data)
    if arguments.method != "answer":
        _methods([arguments.method])
    if model.suffix == ".stan" and arguments.simulate is None:
        raise ValueError(
            "a .stan file does not say how to draw from its prior, or data: give --simulate FILE, "
            "with prior(rng) and simulator(parameters, rng)"
        )


def _report(arguments: argparse.Namespace) -> None:
    from bridge.comparison.folder import records_file

    records_file(arguments.folder)
    _folder(arguments.out)


def _list(arguments: argparse.Namespace) -> None:
    _cases([], arguments.database)


def _generate(arguments: argparse.Namespace) -> None:
    from posteriordb_cases.database import require_folder

    require_folder(arguments.database)
    _cases(arguments.names, arguments.database)


def _cases(names: Sequence[str], database: str | None) -> None:
    from posteriordb_cases import load_case, resolve_database
    from posteriordb_cases.database import is_github

    if is_github(database):
        return
    resolve_database(database)
    for name in names:
        load_case(name, database=database)


def _draws(count: int) -> None:
    from bridge.comparison.settings import Settings

    Settings(draws=count)


def _folder(out: Path | None) -> None:
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"--out must name a folder, got the file {out}")


def _methods(names: Sequence[str] | None) -> None:
    if names:
        from bridge.methods.table import find_methods

        find_methods(names)


def _approximations(names: Sequence[str] | None) -> None:
    if names:
        from bridge.methods.table import find_approximations

        find_approximations(names)


CHECK_OF = {
    "fit": _fit,
    "compare": _compare,
    "sweep": _sweep,
    "calibrate": _calibrate,
    "report": _report,
    "list": _list,
    "generate": _generate,
}
