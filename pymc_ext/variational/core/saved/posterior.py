"""What a file of a fitted q gives: a law of SciPy's kind, a model's approximation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from pymc_ext.density import Density
from pymc_ext.density.protocol import coordinate_names
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count
from pymc_ext.variational.core.posterior import Posterior, moment
from pymc_ext.variational.core.saved.file import write
from pymc_ext.variational.core.saved.variables import Variable, values_by_name, variables_of

if TYPE_CHECKING:
    import pymc as pm

__all__ = ["SavedPosterior", "law_of", "save"]

Seed = int | np.random.Generator | None
TO_ITS_MODEL = "px.load(path, model=model) gives it its model"  # what it lacks to be judged


@dataclass(frozen=True)
class SavedPosterior:
    r"""A fitted q as a frozen law of θ, unconstrained, (D,); needs neither PyMC nor PyTensor.

    Parameters
    ----------
    q
        The law in numbers.
    names
        Of its D coordinates.
    variables
        Of the model it was fitted to, in θ's order; empty for another density.
    notes
        What the fit said of q: method, elbo, khat, verdict, …
    proposal
        Beside q, of which importance weights are taken where the fit made one.

    Examples
    --------
    >>> from pymc_ext.variational.gaussian.posteriors import Gaussian
    >>> law = SavedPosterior(Gaussian(np.zeros(2), np.eye(2)), ("a", "b"))
    >>> law.logpdf([0.0, 0.0]).round(4)
    np.float64(-1.8379)
    >>> law.rvs(3, random_state=1).shape
    (3, 2)
    """

    q: Posterior = field(repr=False)
    names: tuple[str, ...]
    variables: tuple[Variable, ...] = field(default=(), repr=False)
    notes: Mapping[str, Any] = field(default_factory=dict, repr=False)
    proposal: Posterior | None = field(default=None, repr=False)

    @property
    def dim(self) -> int:
        """D, as SciPy's multivariate laws call it."""
        return self.q.dimension

    def rvs(self, size: int = 1, random_state: Seed = None) -> Array:
        """Independent draws, (size, D), unconstrained.

        Raises
        ------
        ValueError
            ``size`` is not a positive integer.
        TypeError
            ``random_state`` is no seed.
        """
        require_count("size", size)
        try:
            rng = np.random.default_rng(random_state)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "random_state must be None, an integer >= 0 or a NumPy Generator, got "
                f"{random_state!r}"
            ) from error
        return self.q.forward(rng.standard_normal((size, self.q.latent_dimension)))[0]

    def logpdf(self, x: ArrayLike) -> Array:
        """Normalised log q, (..., D) -> (...); −∞ so far out that numbers overflow.

        Raises
        ------
        ValueError
            Another number of coordinates, or NaN.
        TypeError
            q has no density at points that it did not draw.
        """
        points = np.asarray(x, dtype=float)
        if points.ndim == 0 or points.shape[-1] != self.dim:
            raise ValueError(f"x must have shape (..., {self.dim}), got {points.shape}")
        if np.isnan(points).any():
            raise ValueError("x must not hold NaN: log q is not defined there")
        log_density = getattr(self.q, "log_density", None)
        if log_density is None:
            raise TypeError(f"a {type(self.q).__name__} has no density at points of others")
        rows = points.reshape(-1, self.dim)
        with np.errstate(all="ignore"):  # far out numbers overflow
            found = log_density(rows)
        # there, and at infinity, is no mass; and no NaN, as none of x is
        found = np.where(np.isnan(found) | np.isinf(rows).any(axis=1), -np.inf, found)
        return found.reshape(points.shape[:-1])[()]

    def pdf(self, x: ArrayLike) -> Array:
        """q itself, (..., D) -> (...)."""
        return np.exp(self.logpdf(x))

    def mean(self) -> Array:
        """E θ, (D,)."""
        return moment(self.q, "mean")

    def std(self) -> Array:
        """Standard deviations, (D,)."""
        return moment(self.q, "std")

    def cov(self) -> Array:
        """Cov θ, (D, D)."""
        return moment(self.q, "cov")

    def by_variable(self, theta: ArrayLike) -> dict[str, Array]:
        """θ (..., D) by name of its variable, (..., *shape), unconstrained.

        Where a variable is the normals of an earlier fit's prior, that fit's variables as well.

        Raises
        ------
        ValueError
            The q is of no model.
        """
        if not self.variables:
            raise ValueError("the q kept is of no model: it has coordinates, see names")
        rows = np.asarray(theta, dtype=float)
        flat = values_by_name(self.variables, rows.reshape(-1, rows.shape[-1]), _image)
        return {
            name: value.reshape((*rows.shape[:-1], *variable.shape))
            for name, (variable, value) in flat.items()
        }


def _image(q: Posterior, z: Array) -> Array:
    return q.forward(z)[0]


def law_of(
    q: Posterior,
    density: Density,
    notes: Mapping[str, Any],
    model: pm.Model | None = None,
    proposal: Posterior | None = None,
) -> SavedPosterior:
    """q with the names of what it is of: coordinates of ``density``, and variables of ``model``.

    Parameters
    ----------
    q
        Fitted to the density.
    density
        Of the model, where there is one.
    notes
        As in :class:`SavedPosterior`.
    model
        None: the density is of none.
    proposal
        Beside q, where the fit made one.
    """
    names = tuple(coordinate_names(density))
    if model is None:
        return SavedPosterior(q, names, notes=notes, proposal=proposal)
    value_names = [entry.name for entry in density.layout]  # type: ignore[attr-defined]
    return SavedPosterior(q, names, variables_of(model, value_names), notes, proposal)


def save(
    path: str | PathLike[str],
    q: SavedPosterior | Posterior,
    *,
    names: Sequence[str] | None = None,
) -> Path:
    """Keep a fitted q in a file, without pickle.

    ``approx.save(path)`` is this for what ``pm.fit`` gave. The file appears once it is whole.

    Parameters
    ----------
    path
        Where; the customary ending is ``.npz``.
    q
        A law in numbers, as algorithms on a density return it (``fitted.q``), or one loaded.
    names
        Of its coordinates; ``theta[0]``, … if None.

    Returns
    -------
    Path
        The file's.

    Raises
    ------
    NotKeptError
        q is of a class of your own.
    TypeError
        ``q`` is no law, or ``path`` no path.
    ValueError
        Not as many names as coordinates.
    """
    if not hasattr(q, "forward") and not isinstance(q, SavedPosterior):
        raise TypeError(
            "q must be a law in numbers, such as fitted.q or what px.load gives, got "
            f"{type(q).__name__}: of what pm.fit gave call approx.save(path); where bridge.fit "
            "gave None its reasons say why, with want='density'"
        )
    if not isinstance(q, SavedPosterior):
        every = [f"theta[{i}]" for i in range(q.dimension)] if names is None else list(names)
        if len(every) != q.dimension:
            raise ValueError(f"q has {q.dimension} coordinates, got {len(every)} names")
        q = SavedPosterior(q, tuple(every))
    return write(path, q.q, q.names, q.variables, dict(q.notes), q.proposal)
