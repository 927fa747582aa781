"""Models, functions and data of a calibration in files, for the command."""

from __future__ import annotations

import json
import runpy
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.calibration.study import Values
from stan_models import StanProgram

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["model_file", "read_data", "read_functions", "read_model", "require_file"]

NAME = "model"  # in a Python file, where none is given
FUNCTIONS = ("prior", "simulator")


def model_file(text: str) -> Path:
    """The file of what ``FILE[:NAME]`` names.

    Raises
    ------
    FileNotFoundError
        There is none.
    """
    return require_file(Path(text.partition(":")[0]))


def require_file(path: Path) -> Path:
    """The path of a file of the user's, if there is one."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: give the path of one")
    return path


def read_model(text: str) -> pm.Model | StanProgram:
    """What ``FILE[:NAME]`` names: a Stan program, or a ``pm.Model`` of a Python file.

    Raises
    ------
    ValueError
        The file has no such name, it is something else, or the file fails where it is run.
    OSError
        There is no such file.
    """
    path = model_file(text)
    if path.suffix == ".stan":
        return StanProgram(path)
    import pymc as pm

    file, _, name = text.partition(":")
    found = _named(path, name or NAME)
    model = found if isinstance(found, pm.Model) or not callable(found) else found()
    if not isinstance(model, pm.Model):
        raise ValueError(
            f"{name or NAME} of {file} must be a pm.Model or a function that makes one, got "
            f"{type(model).__name__}"
        )
    return model


def read_functions(path: Path) -> dict[str, Callable[..., Values]]:
    """``prior`` and ``simulator`` of a Python file, as far as it has them.

    Raises
    ------
    ValueError
        It has neither, or fails where it is run.
    """
    names = _run(require_file(path))
    found = {name: names[name] for name in FUNCTIONS if callable(names.get(name))}
    if not found:
        raise ValueError(f"{path} must define prior(rng), simulator(parameters, rng), or both")
    return found


def read_data(path: Path) -> Values:
    """Values by name of a JSON file.

    Raises
    ------
    ValueError
        It is not JSON, or holds something else.
    """
    try:
        found = json.loads(require_file(path).read_text(encoding="utf-8"))
    except ValueError as error:  # json's, or that it is no text
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold values by name, got a {type(found).__name__}")
    return {name: np.asarray(value) for name, value in found.items()}


def _named(path: Path, name: str) -> object:
    names = _run(path)
    if name not in names:
        near = ", ".join(n for n in names if not n.startswith("_"))
        raise ValueError(f"{path} defines no {name}: it has {near}; give {path}:NAME")
    return names[name]


def _run(path: Path) -> dict[str, Any]:
    """What a Python file defines; ValueError with the line at which it fails."""
    try:
        return runpy.run_path(str(path))
    except Exception as error:  # whatever the user's code raises
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = lines[-1] if lines else getattr(error, "lineno", "?")  # that of a SyntaxError
        raise ValueError(f"{path} fails in line {line}: {type(error).__name__}: {error}") from error
