"""A fitted q as arrays and JSON, and back, without pickle: a file may come from anyone.

A q is a tree of objects of the classes in `CLASSES`, each with parts by name: numbers, texts,
arrays, tuples, and objects again. To keep a family of q, give it a line in the table; a class that
is no dataclass has a ``to_parts()`` and a class method ``of_parts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["CLASSES", "FileError", "NotKeptError", "decode", "encode"]

_HOME = "pymc_ext.variational."
CLASSES: dict[str, str] = {  # by name in files, which outlives where a class lives
    "Affine": _HOME + "bernstein.base",
    "ArrowRoot": _HOME + "hierarchical.arrow_root",
    "BernsteinFlow": _HOME + "bernstein.flow",
    "Curves": _HOME + "fields.curves",
    "DefensiveMixture": _HOME + "core.defensive",
    "DenseRoot": _HOME + "hierarchical.roots",
    "DiagonalGaussian": _HOME + "gaussian.posteriors",
    "FieldMap": _HOME + "fields.map",
    "FlowShape": _HOME + "bernstein.shape",
    "Gaussian": _HOME + "gaussian.posteriors",
    "GaussianMixture": _HOME + "gaussian.posteriors",
    "GlobalsGrid": _HOME + "fields.globals_grid",
    "GlobalsMap": _HOME + "fields.globals_map",
    "Grid": "pymc_ext.maths.grid",
    "HierarchicalMap": _HOME + "hierarchical.map",
    "Hierarchy": _HOME + "bernstein.base",
    "Lattice": _HOME + "hierarchical.lattice",
    "LatticeLaplace": _HOME + "hierarchical.lattice",
    "LawMap": _HOME + "hierarchical.law_map",
    "LinearImage": _HOME + "core.linear_image",
    "Logistic": _HOME + "bernstein.latents",
    "LowRankGaussian": _HOME + "gaussian.low_rank",
    "Marginal": "pymc_ext.maths.marginal",
    "Maximum": _HOME + "hierarchical.maxima",
    "NestedLaplace": _HOME + "hierarchical.nested",
    "Normal": _HOME + "bernstein.latents",
    "Others": _HOME + "hierarchical.others",
    "PosteriorMixture": _HOME + "core.mixture",
    "Scan": _HOME + "hierarchical.scan",
    "StudentT": _HOME + "bernstein.latents",
    "TruncatedNormal": _HOME + "bernstein.latents",
}
Arrays = dict[str, NDArray]
PLAIN = (str, bool, int, float, type(None))


class NotKeptError(TypeError):
    """A q of a class that no file keeps."""


class FileError(ValueError):
    """A file that is damaged, of another version, or of something else."""


def encode(value: object, arrays: Arrays) -> object:
    """``value`` as what JSON holds; its arrays go into ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, np.ndarray):
        for name, known in arrays.items():
            if known is value:  # of a q and the proposal that is made of it
                return {"array": name}
        name = f"array_{len(arrays)}"
        arrays[name] = value
        return {"array": name}
    if isinstance(value, tuple | list):
        return {"tuple": [encode(item, arrays) for item in value]}
    kind = type(value)
    if CLASSES.get(kind.__name__) != kind.__module__:
        raise NotKeptError(
            f"a {kind.__name__} cannot be kept in a file: fit with a family of this package; of a "
            f"law of your own keep draws, or add a line to {__name__}.CLASSES"
        )
    parts = {name: encode(part, arrays) for name, part in _parts(value).items()}
    return {"class": kind.__name__, "parts": parts}


def decode(tree: Any, arrays: Mapping[str, NDArray]) -> Any:
    """What :func:`encode` was given.

    Raises
    ------
    FileError
        The tree is not one of its.
    """
    if isinstance(tree, PLAIN):
        return tree
    try:
        if "array" in tree:
            return arrays[tree["array"]]
        if "tuple" in tree:
            return tuple(decode(item, arrays) for item in tree["tuple"])
        name, parts = tree["class"], tree["parts"]
        kind = getattr(import_module(CLASSES[name]), name)
        parts = {key: decode(part, arrays) for key, part in parts.items()}
    except (KeyError, TypeError, AttributeError) as error:
        raise FileError(f"the file is damaged: {error!r} in its description of q") from error
    try:
        return kind.of_parts(parts) if hasattr(kind, "of_parts") else kind(**parts)
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"the file is damaged: no {name} of {sorted(parts)}: {error}") from error


def _parts(value: object) -> dict[str, object]:
    if hasattr(value, "to_parts"):
        return dict(value.to_parts())
    assert is_dataclass(value)
    return {f.name: getattr(value, f.name) for f in fields(value) if f.init}
