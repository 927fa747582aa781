"""Files of fitted q's: NumPy's npz with one JSON text, read without pickle."""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from pymc_ext.maths.array_file import read_arrays, write_arrays
from pymc_ext.options import require_path
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.saved.codec import Arrays, FileError, decode, encode
from pymc_ext.variational.core.saved.variables import Variable

__all__ = ["VERSION", "read", "write"]

FORMAT, VERSION = "trusted-posteriors q", 3  # raised where an older reader would go wrong
HEADER = "header"


def write(
    path: str | PathLike[str],
    q: Posterior,
    names: tuple[str, ...],
    variables: tuple[Variable, ...],
    notes: dict[str, Any],
    proposal: Posterior | None = None,
) -> Path:
    """Write q and a proposal beside it; a file of that name is replaced once the new is whole."""
    require_path("path", path)
    arrays: Arrays = {}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "q": encode(q, arrays),
        "names": names,
        "variables": [variable.to_parts(arrays) for variable in variables],
        "notes": notes,
        "proposal": encode(proposal, arrays),
    }
    write_arrays(Path(path), {HEADER: np.array(json.dumps(header)), **arrays})
    return Path(path)


def read(
    path: str | PathLike[str],
) -> tuple[Posterior, tuple[str, ...], tuple[Variable, ...], dict[str, Any], Posterior | None]:
    """q, names of its coordinates, its variables, notes, and the proposal beside it, if any.

    Raises
    ------
    FileNotFoundError
        There is none.
    FileError
        It is no such file, is damaged, or of a later version.
    """
    require_path("path", path)
    try:
        arrays = read_arrays(Path(path))
    except IsADirectoryError as error:
        raise FileNotFoundError(
            f"{path} is a folder and no file: give the path that approx.save(path) was given"
        ) from error
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"there is no file {path}: give the path that approx.save(path) was given"
        ) from error
    except ValueError as error:
        raise FileError(
            f"{path} is no file that approx.save wrote, or is damaged: {error}; give the path "
            "that approx.save(path) was given, or fit and save again"
        ) from error
    try:
        header = json.loads(str(arrays[HEADER]))
        kind, version = header["format"], header["version"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path} is no file that approx.save wrote, but one of the arrays {sorted(arrays)}: "
            "give the path that approx.save(path) was given"
        ) from error
    del arrays[HEADER]
    if kind != FORMAT or version != VERSION:
        raise FileError(
            f"{path} holds {kind!r} of version {version!r}, and this release reads {FORMAT!r} of "
            f"version {VERSION}: load it with the release that wrote it, and fit again"
        )
    if "q" not in header:
        raise FileError(f"{path} is damaged: it has no q; fit and save again")
    q, proposal = decode(header["q"], arrays), decode(header.get("proposal"), arrays)
    _require_draws(path, "q", q)
    try:
        names = tuple(str(name) for name in header["names"])
        variables = tuple(Variable.of_parts(entry, arrays) for entry in header["variables"])
        sizes = {len(names), sum(variable.size for variable in variables) or len(names)}
        notes = dict(header["notes"])
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged: {error!r} in its list of variables") from error
    if sizes != {q.dimension}:
        raise FileError(f"{path} is damaged: q has {q.dimension} scalars, its variables {sizes}")
    if proposal is not None:
        _require_draws(path, "its proposal", proposal)
        if proposal.dimension != q.dimension:
            raise FileError(
                f"{path} is damaged: q has {q.dimension} scalars, its proposal "
                f"{proposal.dimension}; fit and save again"
            )
    return q, names, variables, notes, proposal


def _require_draws(path: str | PathLike[str], what: str, q: Posterior) -> None:
    """FileError where a law makes no draws, as its arrays are of other lengths, or hold NaN."""
    again = "fit and save again"
    try:
        z = np.random.default_rng(0).standard_normal((2, q.latent_dimension))
        with np.errstate(all="ignore"):
            theta, log_q = q.forward(z)
        D = q.dimension
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise FileError(f"{path} is damaged: {what} makes no draws ({error}); {again}") from error
    if theta.shape != (2, D) or log_q.shape != (2,):
        raise FileError(
            f"{path} is damaged: draws of {what} must have shape (2, {D}), got {theta.shape}; "
            f"{again}"
        )
    if np.isnan(theta).any() or np.isnan(log_q).any():
        raise FileError(f"{path} is damaged: draws of {what} are NaN; {again}")
