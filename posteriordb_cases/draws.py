"""Reference draws: posteriordb's flat names ("theta[1]") to and from arrays.

Shapes: ``(chain, draw, *shape)``, constrained space. Stan's indices start at 1.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from posteriordb_cases.files import Json, read_zipped_json

_FLAT_NAME = re.compile(r"^(?P<name>[^\[\]]+)(\[(?P<index>\d+(,\d+)*)\])?$")


def read_draws(path: Path) -> dict[str, np.ndarray]:
    """Return the draws of one ``NAME.json.zip``: variable name to ``(chain, draw, *shape)``.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is corrupt, cut short, or not a set of equally long chains of finite numbers.
    """
    chains = read_zipped_json(path)
    try:
        return fold(_as_matrix(chains))
    except ValueError as error:
        raise ValueError(
            f"{path} does not hold reference draws ({error}): restore or download it again"
        ) from error


def fold(flat: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Gather ``theta[1]``, ``theta[2]``, … into one array per variable.

    Parameters
    ----------
    flat
        Flat name to array of shape (chain, draw).

    Examples
    --------
    >>> fold({"x[1]": np.zeros((4, 10)), "x[2]": np.ones((4, 10))})["x"].shape
    (4, 10, 2)
    """
    indices: dict[str, dict[tuple[int, ...], np.ndarray]] = defaultdict(dict)
    for flat_name, values in flat.items():
        match = _FLAT_NAME.match(flat_name)
        if match is None:
            raise ValueError(f"variable name {flat_name!r} is not NAME or NAME[i,j,...]")
        index = match["index"]
        key = tuple(int(i) - 1 for i in index.split(",")) if index else ()
        indices[match["name"]][key] = values
    return {name: _assemble(name, elements) for name, elements in indices.items()}


def flatten(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Inverse of :func:`fold`: one (chain, draw) array per element, row-major order."""
    flat = {}
    for name, values in draws.items():
        elements = values.reshape(*values.shape[:2], -1)
        for position, index in enumerate(np.ndindex(*values.shape[2:])):
            label = f"[{','.join(str(i + 1) for i in index)}]" if index else ""
            flat[name + label] = elements[..., position]
    return flat


def _as_matrix(chains: Json) -> dict[str, np.ndarray]:
    if not isinstance(chains, Sequence) or not chains or not isinstance(chains[0], Mapping):
        raise ValueError("expected a list of chains, each of them a dictionary of variables")
    names = list(chains[0])
    if not names:
        raise ValueError("chain 1 has no variables")
    for number, chain in enumerate(chains, start=1):
        if not isinstance(chain, Mapping) or set(chain) != set(names):
            raise ValueError(f"chain {number} has other variables than chain 1")
    n_draws = np.size(chains[0][names[0]])
    return {name: _column(name, chains, n_draws) for name in names}


def _column(name: str, chains: Sequence[Mapping[str, Json]], n_draws: int) -> np.ndarray:
    if not all(isinstance(chain[name], list) for chain in chains):
        raise ValueError(f"the draws of {name} are not a list in every chain")
    lengths = [len(chain[name]) for chain in chains]
    if set(lengths) != {n_draws}:
        raise ValueError(f"expected {n_draws} draws of {name} in every chain, got {lengths}")
    try:
        values = np.array([chain[name] for chain in chains], dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"the draws of {name} are not all numbers") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{np.sum(~np.isfinite(values))} draws of {name} are not finite")
    return values


def _assemble(name: str, elements: Mapping[tuple[int, ...], np.ndarray]) -> np.ndarray:
    if len({len(index) for index in elements}) != 1:
        raise ValueError(f"{name} is indexed with different numbers of indices")
    shape = tuple(max(index) + 1 for index in zip(*elements, strict=True))
    if set(np.ndindex(*shape)) != set(elements):
        raise ValueError(f"{name} has {len(elements)} elements, expected shape {shape} from 1 on")
    in_order = np.stack([elements[index] for index in np.ndindex(*shape)], axis=-1)
    return in_order.reshape(*in_order.shape[:-1], *shape)
