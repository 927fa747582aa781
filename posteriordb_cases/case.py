"""A case: data, Stan program, PyMC port, reference draws and known answers of one posterior."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from posteriordb_cases import database as _database
from posteriordb_cases import digests
from posteriordb_cases.draws import read_draws
from posteriordb_cases.files import Json, read_json, read_zipped_json

if TYPE_CHECKING:
    import pymc as pm

    from posteriordb_cases.inference_data import ArvizData

_PORTS = Path(__file__).resolve().parent / "models"
_PROGRAMS = (_PORTS, _database.EMBEDDED / "models" / "stan")


class NoPortError(LookupError):
    """There is no PyMC port of a case's model; an error inside a port is never one of these."""


@dataclass(frozen=True)
class Case:
    """One posterior of a posteriordb database; files are read when first asked for.

    Attributes
    ----------
    name
        The posterior's name, e.g. ``"eight_schools-eight_schools_noncentered"``.
    database
        Folder of the database it comes from.
    info
        The posterior's own JSON file.

    Examples
    --------
    >>> case = load_case("eight_schools")
    >>> case.dimensions["theta"]
    8
    """

    name: str
    database: Path
    info: dict[str, Json] = field(repr=False, compare=False)

    @property
    def model_name(self) -> str:
        """posteriordb's name of the model; PyMC ports are found by it."""
        return self.info["model_name"]

    @property
    def data_name(self) -> str:
        """posteriordb's name of the data set."""
        return self.info["data_name"]

    @property
    def dimensions(self) -> dict[str, int | list[int]]:
        """Variable name to number of elements (or shape) as posteriordb states it.

        Scalars and vectors of length 1 both have 1.
        """
        return self.info["dimensions"]

    @property
    def exact(self) -> dict[str, Json] | None:
        """Answers known without Monte Carlo, or None.

        ``log_evidence`` (natural log, all constants of the Stan program included), ``mean`` and
        ``sd`` (variable name to number or nested list, constrained space), ``method`` (how they
        were computed).
        """
        return self.info.get("exact")

    @cached_property
    def model_info(self) -> dict[str, Json]:
        """The model's JSON file: title, description, references, implementations."""
        return read_json(self.database / "models" / "info" / f"{self.model_name}.info.json")

    @cached_property
    def data(self) -> dict[str, Json]:
        """Data of the Stan program: int, np.float64, and np.ndarray for JSON's lists.

        Raises
        ------
        FileNotFoundError
            The case's data are missing.
        """
        return {key: _as_data(value) for key, value in read_zipped_json(self.data_path).items()}

    @property
    def data_path(self) -> Path:
        """The zip archive of the data.

        Raises
        ------
        FileNotFoundError
            The case's data are missing.
        """
        info = read_json(self.database / "data" / "info" / f"{self.data_name}.info.json")
        path = self.database / f"{info['data_file']}.zip"
        if not path.is_file():
            raise FileNotFoundError(f"the data of case {self.name!r} are missing: no {path}")
        return path

    @property
    def stan_path(self) -> Path | None:
        """File of the Stan program, or None where there is none.

        It is the database's own program; where the database has none, it is ours of the same
        posterior, kept beside the PyMC port in ``posteriordb_cases/models`` or, for the models of
        the embedded database, there.
        """
        stan = self.model_info["model_implementations"].get("stan")
        database = [self.database / stan["model_code"]] if stan else []
        ours = [folder / f"{self.model_name}.stan" for folder in _PROGRAMS]
        return next((path for path in [*database, *ours] if path.is_file()), None)

    @cached_property
    def stan_code(self) -> str | None:
        """Text of the Stan program (see `stan_path`), or None where there is none."""
        return self.stan_path.read_text(encoding="utf-8") if self.stan_path else None

    @property
    def has_port(self) -> bool:
        """Whether there is a PyMC port of the model."""
        return self.model_name in _port_names()

    @property
    def port_is_slow(self) -> bool:
        """Whether the port says that the Stan program's gradient is far faster than its own."""
        return self.has_port and getattr(self._port, "SLOW", False)

    @property
    def _port(self) -> ModuleType:
        return importlib.import_module(f"{__package__}.models.{self.model_name}")

    def model(self) -> pm.Model:
        """Return the PyMC port, its variables named and shaped as the Stan program's.

        Raises
        ------
        NoPortError
            If there is no port of this model.
        """
        if not self.has_port:
            raise NoPortError(
                f"no PyMC port of model {self.model_name!r}; there are ports of "
                f"{', '.join(_port_names())}: use the Stan program, or add "
                f"posteriordb_cases/models/{self.model_name}.py with a function model(data)"
            )
        return self._port.model(self.data)

    def recover(self, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``draws`` and the parameters that they lack, where the port knows how to get these.

        Name to array, constrained space: (N, *shape) -> (N, *shape). posteriordb keeps the effects
        of the non-centred eight schools, say, but not the standardised ones they are made of.
        """
        if not (self.has_port and hasattr(self._port, "recover")):
            return dict(draws)
        if not set(self._port.RECOVERED_FROM) <= set(draws):
            return dict(draws)
        return {**self._port.recover(draws, self.data), **draws}

    @property
    def reference_name(self) -> str | None:
        """Name of the reference draws (posteriors may share them), or None."""
        return self.info.get("reference_posterior_name")

    @property
    def reference_path(self) -> Path | None:
        """Where the zip archive of reference draws is or would be; None if none is foreseen."""
        folder = self.database / "reference_posteriors" / "draws" / "draws"
        return folder / f"{self.reference_name}.json.zip" if self.reference_name else None

    @property
    def has_reference(self) -> bool:
        """Whether the reference draws are there."""
        return self.reference_path is not None and self.reference_path.is_file()

    @cached_property
    def reference_info(self) -> dict[str, Json] | None:
        """How the reference draws were made, their diagnostics and checks; None if unknown."""
        folder = self.database / "reference_posteriors" / "draws" / "info"
        path = folder / f"{self.reference_name}.info.json"
        return read_json(path) if self.reference_name and path.is_file() else None

    @property
    def failed_checks(self) -> list[str]:
        """posteriordb's admission checks that the reference draws are recorded to have failed."""
        checks = (self.reference_info or {}).get("checks_made") or {}
        return [name for name, passed in checks.items() if passed is False]

    @cached_property
    def made_of(self) -> dict[str, str]:
        """SHA-256 of the Stan program, without comments and blanks, and of the data.

        Info files of reference draws hold it (those of posteriordb's own do not).
        """
        code = self.stan_code
        program = {} if code is None else {"program_sha256": digests.of_program(code)}
        return program | {"data_sha256": digests.of_data(self.data_path)}

    @cached_property
    def sha256(self) -> str:
        """Of all that results depend on: program, data, dimensions, PyMC port, reference draws.

        A process that has imported the port goes on with it as it was then.
        """
        helpers = sorted(_PORTS.glob("_*.py")) if self.has_port else []
        files = (_PORTS / f"{self.model_name}.py", *helpers, self.reference_path)
        parts = (digests.of_json(self.dimensions), *(digests.of_file(path) for path in files))
        return digests.of_all(*self.made_of.values(), *parts)

    @property
    def reference_source(self) -> Case:
        """The posterior whose program makes the reference draws: where several share them, the one
        that they are named after.

        Raises
        ------
        ValueError
            There is none of that name, or it has another's draws itself.
        """
        if self.reference_name in (None, self.name):
            return self
        assert self.reference_name is not None
        source = load_case(self.reference_name, self.database)
        if source.reference_name != source.name:
            raise ValueError(
                f"reference {source.name!r} of case {self.name!r} is not its own reference"
            )
        return source

    @property
    def reference_fault(self) -> str | None:
        """Why nothing can be judged by the reference draws, or None where they serve.

        There are none, they failed checks of their admission, or their info file holds that they
        were made of another program or other data, or cannot be compared with these.
        """
        if not self.has_reference:
            return "it has no reference draws"
        if self.failed_checks:
            return f"its reference draws failed the checks {', '.join(self.failed_checks)}"
        try:
            changed = self.changes_since((self.reference_info or {}).get("made_of"))
        except (FileNotFoundError, ValueError) as error:
            return f"what its reference draws are of cannot be read ({error})"
        if changed:
            return f"its reference draws were made before its {' and '.join(changed)} changed"
        return None

    def changes_since(self, made_of: Mapping[str, str] | None) -> list[str]:
        """Which of program and data of :attr:`reference_source` are others now; none where
        ``made_of``, as an info file has it, is None."""
        now = {} if made_of is None else self.reference_source.made_of
        return [
            what.removesuffix("_sha256")
            for what, sha in (made_of or {}).items()
            if now.get(what) != sha
        ]

    def reference_draws(self) -> ArvizData:
        """Return the reference draws as ArviZ data with the group ``posterior``.

        Variables are those of ``dimensions``, in the constrained space, with dimensions
        (chain, draw, *shape).

        Raises
        ------
        FileNotFoundError
            If the case has no reference draws.
        ValueError
            If the file is corrupt or cut short, or lacks a variable.
        """
        if not self.has_reference:
            expected = self.reference_path or "its reference_posterior_name is null"
            raise FileNotFoundError(
                f"case {self.name!r} has no reference draws ({expected}): make them with "
                f"python -m bridge generate {self.name} --database {self.database}"
            )
        assert self.reference_path is not None  # has_reference
        draws = read_draws(self.reference_path)
        missing = [name for name in self.dimensions if name not in draws]
        if missing:
            raise ValueError(f"{self.reference_path} has no draws of {', '.join(missing)}")
        from posteriordb_cases.inference_data import posterior_data  # imports ArviZ: seconds

        return posterior_data({name: draws[name] for name in self.dimensions})


def load_case(name: str, database: str | os.PathLike[str] | None = None) -> Case:
    """Return a case by its name or alias.

    Parameters
    ----------
    name
        Name of a posterior, ``DATA-MODEL``, or an alias such as ``"eight_schools"``.
    database
        None: the environment variable ``POSTERIORDB_PATH``, else the embedded database. A path:
        a posteriordb clone or its ``posterior_database`` folder. ``"github"``: download the
        case's files from https://github.com/stan-dev/posteriordb into the user's cache.

    Raises
    ------
    ValueError
        If there is no such case (names the near ones) or the folder is no database.
    TypeError
        If the name is no text.
    FileNotFoundError
        If the folder does not exist.
    ConnectionError
        If GitHub cannot be reached.

    References
    ----------
    Magnusson et al. (2025), "posteriordb: Testing, benchmarking and developing Bayesian
    inference algorithms", AISTATS. arXiv:2407.04967
    """
    if _database.is_github(database):
        root, found = _database.download_case(_database.github_client(), name)
    else:
        root = _database.resolve_database(database)
        found = _database.posterior_name(root, name)
    return Case(name=found, database=root, info=read_json(root / "posteriors" / f"{found}.json"))


def list_cases(database: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the names of all cases of a database, sorted; ``database`` as in ``load_case``."""
    if _database.is_github(database):
        return sorted(_database.github_client().posterior_names())
    return sorted(_database.client(_database.resolve_database(database)).posterior_names())


def _port_names() -> list[str]:
    return sorted(path.stem for path in _PORTS.glob("*.py") if not path.stem.startswith("_"))


def _as_data(value: Json) -> Json:
    if isinstance(value, list):
        return np.array(value)
    return np.float64(value) if isinstance(value, float) else value  # see posteriordb_cases.models
