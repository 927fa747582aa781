"""Stan programs that are no case of the database: regressions with their priors as data."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import resources
from pathlib import Path


def program_names() -> list[str]:
    """Names of the programs kept here."""
    return sorted(path.stem for path in _folder().glob("*.stan"))


def program_path(name: str) -> Path:
    """Path of the program called ``name``; an unknown name lists the near ones.

    Raises
    ------
    ValueError
        There is no such program.
    """
    path = _folder() / f"{name}.stan"
    if not path.is_file():
        near = get_close_matches(name, program_names()) or program_names()
        raise ValueError(f"no Stan program {name!r}; did you mean {', '.join(near)}?")
    return path


def _folder() -> Path:
    return Path(str(resources.files(__name__)))
