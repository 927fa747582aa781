"""Streaming state: sums over the data that determine the posterior, in any order.

For each label c the state keeps n_c = Σ w, s_c = Σ w x and G_c = Σ w x xᵀ over its rows. With the
sites (m, v) of `class_sites` the natural parameters of latent k are

    Λ_k = diag(prior precision) + Σ_c G_c / v_ck,        h_k = Σ_c s_c m_ck / v_ck,

exact under the Gaussian likelihoods. The sums depend on neither α, nor the method, nor the prior,
and they add up over shards.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_ext.matching.posterior import WeightPosterior
from pymc_ext.matching.state_file import read_state
from pymc_ext.matching.table import Matched
from pymc_ext.matching.targets import Labels, class_sites
from pymc_ext.maths.array_file import write_arrays
from pymc_ext.maths.types import Array

FORMAT = 1  # of the file, raised where an older reader would go wrong


class Settings(TypedDict, total=False):
    """Keyword arguments of `MatchingState` that say how rows are taken in."""

    classes: ArrayLike
    alpha: ArrayLike
    method: str
    link: str
    prior_precision: ArrayLike
    fit_intercept: bool


_SETTINGS = tuple(Settings.__annotations__)


class MatchingState:
    """Posterior of a matched logistic or multinomial regression, updated row by row.

    Weights have prior N(0, diag(prior_precision)⁻¹), independent between latents.

    Parameters
    ----------
    classes : (C,) array_like
        All labels that may occur, sorted and distinct.
    n_features : int
        Number of columns of X, without the intercept.
    alpha, method, link
        Likelihood approximation, as in `class_sites`; α is a number or (C,).
    prior_precision : float or (n_features + fit_intercept,) array_like
        Prior precision of the weights, the intercept's last.
    fit_intercept : bool
        Append a column of ones.

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> state = MatchingState([0, 1, 2], n_features=2)
    >>> state.update([[0.0, 1.0]], [2])
    >>> state.posterior.mean.shape
    (3, 3)
    """

    def __init__(
        self,
        classes: ArrayLike,
        n_features: int,
        *,
        alpha: ArrayLike = 0.1,
        method: str = "variational",
        link: str = "softmax",
        prior_precision: ArrayLike = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.classes = _check_classes(classes)
        if n_features < 1:
            raise ValueError(f"n_features must be >= 1, got {n_features}")
        self.n_features = int(n_features)
        self.alpha, self.method, self.link = alpha, method, link
        self.fit_intercept = bool(fit_intercept)
        p = self.n_features + self.fit_intercept
        self.prior_precision = check_prior_precision(prior_precision, p)
        self.sites: Matched = class_sites(len(self.classes), alpha, method, link)
        self.counts = np.zeros(len(self.classes))
        self.first = np.zeros((len(self.classes), p))
        self.second = np.zeros((len(self.classes), p, p))

    @property
    def n_seen(self) -> float:
        """Number of rows seen, or their total weight."""
        return float(self.counts.sum())

    # ---- data in -----------------------------------------------------------------------------

    def update(self, X: ArrayLike, y: ArrayLike, weight: ArrayLike | None = None) -> None:
        """Add rows X (n, n_features), labels y (n,) and weights (n,) ≥ 0; all of them or none.

        Raises
        ------
        ValueError
            If the batch is empty, has another number of features, is not finite, or holds a label
            that is not in ``classes``. The state is unchanged then.
        """
        X = self.design(X)
        labels = self.encode(y)
        if len(labels) != len(X):
            raise ValueError(f"X and y must have as many rows, got {len(X)} and {len(labels)}")
        w = _check_weight(weight, len(X))
        sums = [self._class_sums(c, X, labels, w) for c in np.unique(labels)]
        if not all(np.isfinite(np.diagonal(G)).all() for *_, G in sums):  # bounds the others
            raise ValueError("X is too large to be squared: scale the features")
        for c, count, s, G in sums:
            self.counts[c] += count
            self.first[c] += s
            self.second[c] += G
        self._refresh(X, labels, w)

    def _class_sums(
        self, c: int, X: Array, labels: Labels, w: Array
    ) -> tuple[int, float, Array, Array]:
        rows = labels == c
        x, weight = X[rows], w[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            weighted = x * weight[:, None]
            return c, weight.sum(), weighted.sum(axis=0), weighted.T @ x

    def _refresh(self, X: Array, labels: Labels, w: Array) -> None:
        """Carry a posterior that is already there over a few rows, else drop it."""
        posterior = self.__dict__.get("posterior")
        if posterior is None:
            return
        precision = w[:, None] / self.sites.variance[labels]
        linear = precision * self.sites.mean[labels]
        if not posterior.absorb(X, precision, linear):
            del self.__dict__["posterior"]

    def design(self, X: ArrayLike) -> Array:
        """Checked rows with the intercept's column of ones, (n, n_features) -> (n, p).

        Raises
        ------
        ValueError
            The shape is another, or a value is not finite.
        """
        X = np.asarray(X, dtype=float)
        if X.ndim != 2 or X.shape[1] != self.n_features or len(X) == 0:
            raise ValueError(
                f"X must be of shape (at least 1 row, {self.n_features} features), got {X.shape}"
            )
        if not np.isfinite(X).all():
            raise ValueError("X must be finite, got NaN or infinity: drop or impute these rows")
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def encode(self, y: ArrayLike) -> Labels:
        """Positions of labels in ``classes``, (n,) -> (n,).

        Raises
        ------
        ValueError
            y is not one-dimensional, or has labels that are no classes.
        """
        y = np.asarray(y)
        if y.ndim != 1:
            raise ValueError(f"y must be one-dimensional, got shape {y.shape}")
        known = np.isin(y, self.classes)
        if not known.all():
            unseen = np.unique(y[~known]).tolist()
            raise ValueError(
                f"y has labels {unseen} that are not in classes {self.classes.tolist()}: name all "
                "classes before the first update"
            )
        return np.searchsorted(self.classes, y)

    # ---- posterior out -----------------------------------------------------------------------

    def natural_parameters(self) -> tuple[Array, Array]:
        """Λ (K, p, p) and h (K, p), the prior included."""
        inverse = 1 / self.sites.variance
        precision = np.tensordot(inverse.T, self.second, axes=1)
        precision += np.diag(self.prior_precision)
        return precision, (inverse * self.sites.mean).T @ self.first

    @cached_property
    def posterior(self) -> WeightPosterior:
        """Posterior of the weights given all rows so far."""
        return WeightPosterior(*self.natural_parameters())

    def predict_latents(self, X: ArrayLike) -> tuple[Array, Array]:
        """Posterior mean and variance of the logits at X (n, n_features), each (n, K)."""
        return self.posterior.predict(self.design(X))

    # ---- shards, copies, files ---------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """Everything but the data, as keyword arguments."""
        return {
            "classes": self.classes,
            "alpha": self.alpha,
            "method": self.method,
            "link": self.link,
            "prior_precision": self.prior_precision,
            "fit_intercept": self.fit_intercept,
        }

    def replace(self, **settings: Unpack[Settings]) -> MatchingState:
        """The same data under another ``alpha``, ``method``, ``link`` or ``prior_precision``.

        Raises
        ------
        ValueError
            A setting belongs to the data that were seen, as ``classes``.
        """
        fixed = {"classes", "fit_intercept", "n_features"} & set(settings)
        if fixed:
            raise ValueError(f"{sorted(fixed)} belong to the data seen and cannot be replaced")
        changed: Settings = {**self.settings, **settings}
        new = MatchingState(**changed, n_features=self.n_features)
        new.counts, new.first = self.counts.copy(), self.first.copy()
        new.second = self.second.copy()
        return new

    def merge(self, *others: MatchingState) -> MatchingState:
        """State of all the data of shards that were filled apart, from the same settings.

        Raises
        ------
        ValueError
            If a prior, a likelihood approximation, the classes or the features differ, or a state
            is given twice, whose data would count twice.
        """
        if len({id(state) for state in (self, *others)}) <= len(others):
            raise ValueError("a state is given twice, so that its data would count twice")
        merged = self.replace()
        for other in others:
            self._check_same_settings(other)
            merged.counts += other.counts
            merged.first += other.first
            merged.second += other.second
        return merged

    def _check_same_settings(self, other: MatchingState) -> None:
        for name in ("n_features", *_SETTINGS):
            ours, theirs = getattr(self, name), getattr(other, name)
            if not np.array_equal(ours, theirs):
                raise ValueError(
                    f"states of different {name} cannot be merged, got {ours} and {theirs}: fill "
                    "the shards from states with the same settings"
                )

    def save(self, path: str | Path) -> None:
        """Write the state to ``path`` (.npz); an interrupted save leaves the old file as it was."""
        arrays = {name: np.asarray(getattr(self, name)) for name in _SETTINGS}
        arrays["classes"] = _plain(self.classes)
        arrays |= {name: getattr(self, name) for name in ("counts", "first", "second")}
        write_arrays(Path(path), {**arrays, "format": np.asarray(FORMAT)})

    @classmethod
    def load(cls, path: str | Path) -> MatchingState:
        """Read a state written by `save`.

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If the file is damaged or is no matching state of this version.
        """
        arrays = read_state(Path(path), (*_SETTINGS, "counts", "first", "second"), FORMAT)
        settings: Settings = {
            "classes": arrays["classes"],
            "alpha": arrays["alpha"][()],
            "method": str(arrays["method"]),
            "link": str(arrays["link"]),
            "prior_precision": arrays["prior_precision"][()],
            "fit_intercept": bool(arrays["fit_intercept"]),
        }
        p = arrays["first"].shape[-1]
        state = cls(**settings, n_features=p - int(settings["fit_intercept"]))
        for name in ("counts", "first", "second"):
            array, expected = arrays[name], getattr(state, name)
            if array.shape != expected.shape or not np.isfinite(array).all():
                raise ValueError(f"{path} is damaged: {name} has shape {array.shape} or NaNs")
            setattr(state, name, array.astype(float))
        return state

    def __getstate__(self) -> dict[str, object]:
        return {k: v for k, v in self.__dict__.items() if k != "posterior"}  # cheap to rebuild


def _plain(classes: NDArray) -> NDArray:
    """Labels in a type that a file holds without pickling."""
    plain = np.asarray(classes.tolist())
    if plain.dtype.kind not in "biufU":
        raise TypeError(f"classes must be numbers or strings to be saved, got {classes.tolist()}")
    return plain


def _check_classes(classes: ArrayLike) -> NDArray:
    array = np.asarray(classes)
    if array.ndim != 1 or len(array) < 2:
        raise ValueError(f"classes must be at least 2 labels, got {array.tolist()}")
    if not np.array_equal(array, np.unique(array)):
        raise ValueError(f"classes must be sorted and distinct, got {array.tolist()}")
    return array


def check_prior_precision(value: ArrayLike, p: int) -> Array:
    """Prior precisions, a scalar or (p,), as a (p,) array; ValueError unless positive, finite."""
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(f"prior_precision must be positive and finite, got {value!r}")
    if array.ndim and array.shape != (p,):
        raise ValueError(f"prior_precision must be a number or of shape ({p},), got {array.shape}")
    return np.broadcast_to(array.astype(float), (p,)).copy()


def _check_weight(weight: ArrayLike | None, n: int) -> Array:
    if weight is None:
        return np.ones(n)
    w = np.asarray(weight, dtype=float)
    if w.shape != (n,) or not np.all(np.isfinite(w) & (w >= 0)):
        raise ValueError(f"weight must be {n} finite numbers >= 0, got shape {w.shape}")
    return w
