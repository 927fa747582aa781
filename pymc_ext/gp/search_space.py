"""Where a search for hyperparameters starts and how far it goes, on the unconstrained scale."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.points import ModelVariable, Point, refuse_unknown
from pymc_ext.maths.types import Array

# Distance on the unconstrained scale that counts as none, besides NumPy's 1e-5 of the bound: a
# choice, as the search itself clips to its bounds
AT_BOUND = 1e-6
DEFAULT_BOUND = 12.0  # e^±12, 6e-6 to 2e5, for a log-transformed hyperparameter (a choice)


def inside(
    graph: HyperparameterGraph,
    point: Point,
    what: str,
    around: dict[str, Array] | None = None,
) -> dict[str, Array]:
    """Value variables of a constrained point; raises ValueError outside the closed support."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = graph.transformed(point, around)
    for rv in graph.model.free_RVs:
        if rv.name in point and np.isnan(values[graph.model.rvs_to_values[rv].name]).any():
            raise ValueError(
                f"{what} of {rv.name} must lie inside its support, got {point[rv.name]}"
            )
    return values


def start_values(graph: HyperparameterGraph, point: Point) -> dict[str, Array]:
    """Value variables of a point that may hold more than the constrained hyperparameters."""
    model = graph.model
    values = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
    refuse_unknown(point, [*values, *values.values(), *(v.name for v in model.deterministics)])
    out = inside(graph, {name: point[name] for name in values if name in point}, "start")
    for name, value in values.items():
        if name not in point and value in point:
            out[value] = np.broadcast_to(np.asarray(point[value], float), out[value].shape)
    if bad := sorted(name for name, value in out.items() if not np.isfinite(value).all()):
        raise ValueError(f"start of {', '.join(bad)} must be finite, got {point}")
    return out


def box_of(
    graph: HyperparameterGraph,
    bounds: Mapping[str, tuple[float | None, float | None]],
    start: dict[str, Array],
) -> Array:
    """(2, D) bounds on the unconstrained scale, of supports as they are at the start."""
    box = {
        name: np.stack([np.full(v.shape, -DEFAULT_BOUND), np.full(v.shape, DEFAULT_BOUND)])
        for name, v in graph.start_point.items()
    }
    for name, pair in bounds.items():
        if not hasattr(pair, "__len__") or len(pair) != 2:
            raise ValueError(f"bounds of {name} must be a pair (low, high), got {pair!r}")
    ends = [
        inside(
            graph,
            {n: end for n, p in bounds.items() if (end := p[side]) is not None},
            "bounds",
            start,
        )
        for side in (0, 1)
    ]
    for rv in graph.model.free_RVs:
        if rv.name not in bounds:
            continue
        value = graph.model.rvs_to_values[rv].name
        falls = _falls(graph, rv, start)
        for side in (0, 1):
            if bounds[rv.name][side] is not None:
                row = np.where(falls, 1 - side, side)
                edge = ends[side][value]
                beyond = np.isinf(edge) & (np.sign(edge) == 2 * row - 1)  # the end of the support
                place = np.where(beyond, (2 * row - 1) * DEFAULT_BOUND, edge)
                box[value] = np.where(np.stack([row == 0, row == 1]), place, box[value])
    flat = np.array([graph.flatten({n: b[side] for n, b in box.items()}) for side in (0, 1)])
    if np.any(flat[0] >= flat[1]):
        raise ValueError(f"bounds must be (low, high) with low < high, got {bounds}")
    return flat


def _falls(
    graph: HyperparameterGraph, rv: ModelVariable, start: dict[str, Array]
) -> NDArray[np.bool_]:
    """Where a hyperparameter falls as its unconstrained value grows, as with an upper bound alone.

    Raises
    ------
    ValueError
        An entry of it depends on several unconstrained ones, as of a simplex.
    """
    value = graph.model.rvs_to_values[rv].name
    here = graph.constrained(graph.flatten(start))[rv.name]
    size = start[value].size
    moves = np.zeros((here.size, size))
    for i, column in enumerate(moves.T):
        moved = start[value].copy()
        step = -0.5 if moved.flat[i] > 0 else 0.5  # not round a circle
        moved.flat[i] += step
        there = graph.constrained(graph.flatten(start | {value: moved}))[rv.name]
        column[:] = np.ravel(there - here) / step
    if here.size != size or np.any(moves[~np.eye(size, dtype=bool)]):
        raise ValueError(
            f"bounds of {rv.name} cannot be kept: its entries depend on each other "
            f"({type(graph.model.rvs_to_transforms[rv]).__name__}); bound it by its prior"
        )
    return np.reshape(np.diag(moves) < 0, here.shape)


def active_bounds(graph: HyperparameterGraph, theta: Array, box: Array) -> list[str]:
    """Unconstrained names of the hyperparameters at a bound."""
    names = [n for n in graph.names for _ in range(graph.start_point[n].size)]
    at = np.any(np.isclose(theta, box, atol=AT_BOUND), axis=0)
    return sorted({name for name, hit in zip(names, at, strict=True) if hit})
