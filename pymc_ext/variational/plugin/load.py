"""From a file to a law, or to the approximation of a model."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING, overload

from pymc_ext.density.protocol import coordinate_names
from pymc_ext.variational.core.saved.file import read
from pymc_ext.variational.core.saved.posterior import SavedPosterior
from pymc_ext.variational.core.saved.variables import variables_of

if TYPE_CHECKING:
    import pymc as pm

    from pymc_ext.variational.plugin.approximation import VectorisedApproximation

__all__ = ["load"]


@overload
def load(path: str | PathLike[str], model: None = None) -> SavedPosterior: ...
@overload
def load(path: str | PathLike[str], model: pm.Model) -> VectorisedApproximation: ...
def load(
    path: str | PathLike[str], model: pm.Model | None = None
) -> SavedPosterior | VectorisedApproximation:
    """A q that was saved: alone, or as the approximation of a model like the one it was fitted to.

    Parameters
    ----------
    path
        A file of ``approx.save`` or :func:`save`.
    model
        None gives a `SavedPosterior`. A model gives what ``pm.fit`` gave: ``sample``, ``log_q``,
        ``evaluate`` on this model's data, :func:`pymc_ext.sample`.

    Raises
    ------
    FileNotFoundError
        There is no file.
    FileError
        It is damaged, of another version, or something else.
    ValueError
        The model has other variables than the one that was fitted, or other labels.
    TypeError
        ``path`` is no path.
    """
    found = SavedPosterior(*read(path))
    return found if model is None else _joined(found, model)


def _joined(found: SavedPosterior, model: pm.Model) -> VectorisedApproximation:
    from pymc_ext.variational.plugin.approximation import VectorisedApproximation
    from pymc_ext.variational.plugin.groups import FittedGroup

    approx = VectorisedApproximation(FittedGroup, model=model)
    value_names = [entry.name for entry in approx.density.layout]
    theirs = {v.value_name: (v.shape, v.transform) for v in found.variables}
    ours = {v.value_name: (v.shape, v.transform) for v in variables_of(model, value_names)}
    if list(theirs) != list(ours) or theirs != ours:
        unlike = sorted(n for n in set(theirs) | set(ours) if theirs.get(n) != ours.get(n))
        raise ValueError(
            "the q kept is of another model: it has the unconstrained values "
            f"{_shapes(theirs)}, this one {_shapes(ours)} (shape, transform or order of "
            f"{unlike or list(ours)} differ): load it without a model, or use px.prior_from"
        )
    labels = tuple(coordinate_names(approx.density))
    if labels != found.names:
        first = next(i for i, name in enumerate(labels) if name != found.names[i])
        raise ValueError(
            f"the q kept is of a model with other labels: its coordinate {first} is "
            f"{found.names[first]}, this model's is {labels[first]}: give the model the coords of "
            "the one that was fitted, in that order, or load it without a model"
        )
    approx.group.hold(found.q)
    approx.proposal = found.proposal
    return approx


def _shapes(variables: Mapping[str, tuple[tuple[int, ...], object]]) -> dict[str, tuple[int, ...]]:
    return {name: shape for name, (shape, _) in variables.items()}
