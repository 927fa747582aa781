"""Find the folder of a posteriordb database and the posterior a name or alias stands for."""

from __future__ import annotations

import contextlib
import difflib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path
from posteriordb import PosteriorDatabase

from posteriordb_cases.files import read_json

if TYPE_CHECKING:
    from posteriordb import PosteriorDatabaseGithub

EMBEDDED = Path(__file__).resolve().parent / "database"
ENVIRONMENT_VARIABLE = "POSTERIORDB_PATH"
FEW = 10  # cases of a database that are all named where none is like the one asked for
GITHUB = "github"
GITHUB_REPOSITORY = "stan-dev/posteriordb"
_REQUIRED_FOLDERS = ("posteriors", "models/info", "data/info")


def resolve_database(database: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of a database that lies on this machine.

    Parameters
    ----------
    database
        A posteriordb clone or its ``posterior_database`` folder. None takes the environment
        variable ``POSTERIORDB_PATH`` if set, else the database inside this package.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    ValueError
        If the folder is not a posteriordb database; says which parts are missing.

    Examples
    --------
    >>> resolve_database().name
    'database'
    """
    requested, source = _requested(database)
    root = Path(requested).expanduser()
    if not root.is_dir():
        raise FileNotFoundError(
            f"no folder {str(root)!r} ({source}): give the path of a posteriordb clone or of its "
            "posterior_database folder"
        )
    nested = root / "posterior_database"
    return _checked((nested if nested.is_dir() else root).resolve())


def is_github(database: str | os.PathLike[str] | None) -> bool:
    """Return whether ``database`` (or the environment variable) asks for posteriordb on GitHub."""
    return _requested(database)[0] == GITHUB


def require_folder(database: str | os.PathLike[str] | None) -> None:
    """ValueError where ``database`` is posteriordb on GitHub, which nobody can write here."""
    if is_github(database):
        raise ValueError("GitHub cannot be written: give a clone of posteriordb with --database")


def client(root: Path) -> PosteriorDatabase:
    """Return posteriordb's own client on a folder."""
    return PosteriorDatabase(str(root))


def posterior_name(root: Path, name: str) -> str:
    """Return the posterior that ``name``, a posterior or one of its aliases, stands for."""
    return match_name(name, client(root).posterior_names(), _aliases(root), str(root))


def match_name(name: str, names: list[str], aliases: dict[str, str], where: str) -> str:
    """Return ``name`` or what it is an alias of; raise ``ValueError`` with the near names,
    ``TypeError`` for what is no text."""
    if not isinstance(name, str):
        raise TypeError(
            f"a case is known by its name, such as 'eight_schools', got {name!r}: list_cases() "
            "(python -m bridge list) names them all"
        )
    found = name if name in names else aliases.get(name)
    if found in names:
        return found
    # a name is that of data and that of a model, of which users may have one
    halves = {half: whole for whole in names for half in whole.split("-")}
    meant = {**halves, **{known: known for known in [*names, *aliases]}}
    found_near = difflib.get_close_matches(name, meant, n=5)
    near = list(dict.fromkeys(meant[known] for known in found_near))
    near += [n for n in sorted(names) if name.lower() in n.lower() and n not in near][:5]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    if not near and len(names) <= FEW:
        hint = f"it has {', '.join(sorted(names))}; "
    if name.endswith(".stan"):
        hint += "a program of your own is for bridge.fit, or becomes a case (docs/extending.md); "
    raise ValueError(
        f"no case {name!r} among the {len(names)} of {where}: {hint}"
        "list_cases() (python -m bridge list) names them all"
    )


def github_client() -> PosteriorDatabaseGithub:
    """Return posteriordb's GitHub client, its files kept in this user's cache.

    Raises
    ------
    ConnectionError
        If GitHub cannot be reached or refuses (its limit is 60 requests an hour without the
        token that the client reads from ``GITHUB_PAT``).
    """
    from posteriordb import PosteriorDatabaseGithub

    folder = user_cache_path("posteriordb_cases") / "posterior_database"
    folder.mkdir(parents=True, exist_ok=True)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            database = PosteriorDatabaseGithub(str(folder), repo=GITHUB_REPOSITORY)
    except Exception as error:  # the client raises whatever its broken request leads to
        raise ConnectionError(_github_help(printed.getvalue() or repr(error))) from error
    if not database.posterior_names():
        raise ConnectionError(_github_help(printed.getvalue()))
    return database


def download_case(database: PosteriorDatabaseGithub, name: str) -> tuple[Path, str]:
    """Download every file of one case; return the local database folder and the case's name."""
    root = Path(database.path)
    aliases = _download(database, root / "alias" / "posteriors.json")
    found = match_name(name, database.posterior_names(), _read_aliases(aliases), "GitHub")
    try:
        wanted = _download_files(database, found)
    except (OSError, KeyError, TypeError) as error:  # how the client meets a file it did not get
        raise ConnectionError(_github_help(f"{found} not downloaded: {error!r}")) from error
    missing = [str(path) for path in wanted if not path.is_file()]
    if missing:
        raise ConnectionError(_github_help(f"not downloaded: {', '.join(missing)}"))
    return root, found


def _download_files(database: PosteriorDatabaseGithub, name: str) -> list[Path]:
    with contextlib.redirect_stdout(io.StringIO()):
        posterior = database.posterior(name)
        wanted = [database.get_dataset_path(posterior.data.name)]
        if "stan" in database.get_model_info(posterior.model.name)["model_implementations"]:
            wanted.append(database.get_model_code_path(posterior.model.name, "stan"))
        if posterior.posterior_info.get("reference_posterior_name"):
            draws = Path(f"{database.get_reference_draws_path(name)}.zip")
            database.get_reference_draws_info(name)
            wanted.append(_download(database, draws))
    return wanted


def _download(database: PosteriorDatabaseGithub, path: Path) -> Path:
    from posteriordb.posterior_database_github import download_file

    link = database._links.get(path)  # the client has no public way to an alias or a draws file
    if link is not None:
        with contextlib.redirect_stdout(io.StringIO()):
            download_file(link["download_url"], path)
    return path


def _requested(database: str | os.PathLike[str] | None) -> tuple[str, str]:
    if database is not None:
        return os.fspath(database), "the database given"
    if os.environ.get(ENVIRONMENT_VARIABLE):
        return os.environ[ENVIRONMENT_VARIABLE], f"the environment variable {ENVIRONMENT_VARIABLE}"
    return str(EMBEDDED), "the database of this package"


def _checked(root: Path) -> Path:
    missing = [folder for folder in _REQUIRED_FOLDERS if not (root / folder).is_dir()]
    if missing:
        raise ValueError(
            f"{str(root)!r} is not a posteriordb database: it has no folder "
            f"{', '.join(missing)}; give the path of a posteriordb clone or of its "
            "posterior_database folder"
        )
    return root


def _aliases(root: Path) -> dict[str, str]:
    return _read_aliases(root / "alias" / "posteriors.json")


def _read_aliases(path: Path) -> dict[str, str]:
    return read_json(path) if path.is_file() else {}


def _github_help(reason: str) -> str:
    return (
        f"posteriordb on GitHub ({GITHUB_REPOSITORY}) could not be read "
        f"({' '.join(reason.split())[:300] or 'no posteriors in the answer'}): check the network, "
        "set GITHUB_PAT, or clone the repository and give its path as the database"
    )
