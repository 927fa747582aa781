"""Draws of a PyMC model's prior, as the group ``prior`` of ArviZ data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ext.arviz_versions import as_dataset
from pymc_ext.models.improper import FLAT

__all__ = ["drawing_from_prior", "prior_draws"]

Seed = int | np.random.Generator | np.random.RandomState | None


def prior_draws(model: pm.Model, draws: int, random_seed: Seed = None) -> xr.Dataset:
    """Free variables and deterministics drawn from the prior, (1, draws, *shape) each.

    What ``pm.sample_prior_predictive`` has as ``prior``, with the model's dims and coords, without
    drawing data.

    Parameters
    ----------
    model
        Any PyMC model.
    draws
        Independent draws, in one chain.
    random_seed
        None, an integer, or one of NumPy's generators.

    Raises
    ------
    ValueError
        The prior cannot be drawn from: a variable is ``pm.Flat`` or ``pm.HalfFlat``, or a
        ``pm.CustomDist`` without ``random=``, or draws of a variable are beyond what numbers hold;
        or the draws would not be of it: there are potentials, which PyMC's draws ignore.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0, 2, shape=3)
    >>> prior_draws(model, 100, random_seed=1)["x"].shape
    (1, 100, 3)
    """
    flat = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, FLAT)]
    if flat:
        raise ValueError(
            f"the prior cannot be drawn from: {flat} are pm.Flat or pm.HalfFlat, which are no "
            "distributions; give them proper priors, or leave out prior=True"
        )
    if model.potentials:
        raise ValueError(
            "draws of the prior would ignore the model's potentials "
            f"{[potential.name for potential in model.potentials]}: leave out prior=True, or call "
            "pm.sample_prior_predictive, which ignores them with a warning"
        )
    names = [str(variable.name) for variable in [*model.free_RVs, *model.deterministics]]
    with drawing_from_prior():
        drawn = pm.sample_prior_predictive(
            draws, model=model, var_names=names, random_seed=random_seed
        )
    return as_dataset(drawn["prior"])


@contextmanager
def drawing_from_prior() -> Iterator[None]:
    """Context of PyMC's draws of a prior: it does not list what it draws, and fails in a sentence.

    Raises
    ------
    ValueError
        The prior cannot be drawn from.
    """
    told = logging.getLogger("pymc.sampling.forward")  # "Sampling: [a, b]", whatever is shown
    level = told.level
    told.setLevel(logging.WARNING)
    try:
        yield
    except NotImplementedError as error:  # PyMC's own sentence names the variable
        raise ValueError(
            f"the prior cannot be drawn from: {_first_line(error)} Or leave out prior=True"
        ) from error
    except ValueError as error:  # NumPy's, of a rate of e^50 say, with PyTensor's on its Op
        raise ValueError(
            f"the prior cannot be drawn from: {_first_line(error)}, of some variable that others "
            "govern: give these narrower priors, or leave out prior=True"
        ) from error
    finally:
        told.setLevel(level)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
