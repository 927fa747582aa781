"""The numbers behind a logistic model that is affine in β: design, data, Gaussian prior.

Notation: logit = a + X β with X (n, p), a (n,); y ~ Binomial(trials, σ(logit)), likelihood weights
``weight`` (n,); log prior of β = c + bᵀβ − ½ βᵀPβ, normaliser included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.compile.mode import Mode
from pytensor.gradient import grad
from scipy.special import gammaln

from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.logistic.affine import AffinityError, LogisticTerm

Array = NDArray[np.floating]
Positions = NDArray[np.integer]
ROWS = 8  # design columns evaluated together: bounds memory


@dataclass(frozen=True)
class GaussianPrior:
    """c + bᵀβ − ½ βᵀPβ."""

    constant: float
    slope: Array
    precision: Array


@dataclass(frozen=True)
class LogisticData:
    """y ~ Binomial(trials, σ(offset + X β)), each row counted ``weight`` times."""

    X: Array
    offset: Array
    y: Array
    trials: Array
    weight: Array

    @property
    def constant(self) -> float:
        """Σ weight log binom(trials, y)."""
        N, y = self.trials, self.y
        return float(self.weight @ (gammaln(N + 1) - gammaln(y + 1) - gammaln(N - y + 1)))


def interpreted() -> Mode:
    """PyTensor mode for graphs that run once: NumPy, no compiler."""
    return Mode(linker="py", optimizer="fast_compile")


def prior_reader(approx: VectorisedApproximation) -> Callable[[], GaussianPrior]:
    """A function that evaluates the Gaussian prior of all free variables (all of them linear).

    It raises AffinityError where the precision is not positive definite.
    """
    p = approx.group.ddim
    with approx.building():
        flat = approx.group.input
        (logp,) = approx.to_flat_input([approx.model.varlogp])
        f = pm.pytensorf.compile([flat], [logp, grad(logp, flat)], mode=interpreted())

    def read() -> GaussianPrior:
        constant, slope = f(np.zeros(p))
        P = np.stack([slope - f(row)[1] for row in np.eye(p)])
        P = (P + P.T) / 2
        if len(flat_directions := _flat_directions(P)):
            names = _names_at(approx, flat_directions)
            raise AffinityError(
                f"the prior of {names} is improper or its parameters are not valid (its precision "
                "is not positive definite): the ELBO needs a proper one"
            )
        _check_quadratic(lambda beta: f(beta)[1], slope, P)
        return GaussianPrior(float(constant), slope, P)

    return read


def _flat_directions(P: Array) -> Positions:
    """Positions of the variables along which the precision P is not positive and finite."""
    finite = np.isfinite(P).all(axis=1)
    if not finite.all():
        return np.flatnonzero(~finite)
    values, vectors = np.linalg.eigh(P)
    return np.flatnonzero(np.abs(vectors[:, 0]) > 0.1) if values[0] <= 0 else np.empty(0, int)


def _names_at(approx: VectorisedApproximation, positions: Positions) -> list[str]:
    every = np.arange(approx.group.ddim)
    ordering = approx.group.ordering.values()
    return [name for name, where, *_ in ordering if np.isin(every[where], positions).any()]


def _check_quadratic(gradient: Callable[[Array], Array], slope: Array, P: Array) -> None:
    """Guard against an Op of the user's that hides its curvature from the graph."""
    point = np.random.default_rng(0).normal(size=len(slope)) * np.diag(P) ** -0.5
    for beta in (point, -3 * point):
        expected = slope - P @ beta
        if not np.allclose(gradient(beta), expected, rtol=1e-6, atol=1e-6 * np.abs(P).max()):
            raise AffinityError("the prior of the linear variables is not Gaussian")


def data_reader(
    approx: VectorisedApproximation, terms: list[LogisticTerm], random_seed: int | None
) -> Callable[[], LogisticData]:
    """A function that evaluates the data; with ``pm.Minibatch`` a new batch at each call."""
    minibatch = approx.has_minibatch
    options = approx.compile_kwargs if minibatch else {"mode": interpreted()}
    with approx.building():
        rows = pt.matrix("rows", shape=(None, approx.group.ddim))
        logits = approx.to_flat_input([term.logit for term in terms])
        values = approx.over_draws(logits, rows)
        data = [x for t in terms for x in (t.observed, t.trials, t.weight)]
        f = pm.pytensorf.compile([rows], [*values, *data], random_seed=random_seed, **options)
    p, k = approx.group.ddim, len(terms)
    # one batch: all columns of X must come from one call
    step = p + 1 if minibatch else ROWS

    def read() -> LogisticData:
        points = np.vstack([np.zeros(p), np.eye(p)])
        columns, offset = [], np.empty(0)
        for i in range(0, p + 1, step):
            out = f(points[i : i + step])
            block = np.concatenate(out[:k], axis=1)
            if i == 0:
                offset, block = block[0], block[1:]
            with np.errstate(invalid="ignore"):  # checked below, by name
                columns.append(block - offset)
        X = np.ascontiguousarray(np.concatenate(columns).T)
        return _checked(terms, X, offset, out[k:], [v.shape[1] for v in out[:k]])

    return read


def _checked(
    terms: Sequence[LogisticTerm],
    X: Array,
    offset: Array,
    data: Sequence[Array],
    sizes: Sequence[int],
) -> LogisticData:
    edges = np.cumsum([0, *sizes])
    y, trials, weight = (np.empty(edges[-1]) for _ in range(3))
    for i, (term, low, high) in enumerate(zip(terms, edges[:-1], edges[1:], strict=True)):
        part = slice(low, high)
        y[part], trials[part], weight[part] = data[3 * i : 3 * i + 3]
        _check_outcomes(term, y[part], trials[part])
        _check_finite(term.name, X[part], offset[part])
    return LogisticData(X, offset, y, trials, weight)


def _check_outcomes(term: LogisticTerm, y: Array, trials: Array) -> None:
    bad = ~((trials >= 0) & (trials == np.round(trials)))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(
            f"the trials n of {term.name!r} must be whole numbers >= 0, got {trials[i]:g} at index "
            f"{i}"
        )
    bad = ~((y >= 0) & (y <= trials) & (y == np.round(y)))
    if bad.any():
        i = int(np.argmax(bad))
        largest = trials[i] if term.rows == 1 else term.rows - 1
        raise ValueError(
            f"observed {term.name!r} must be whole numbers between 0 and {largest:g}, got {y[i]:g} "
            f"at index {i // term.rows}"
        )


def _check_finite(name: str, X: Array, offset: Array) -> None:
    bad = ~(np.isfinite(offset) & np.isfinite(X).all(axis=1))
    if bad.any():
        raise ValueError(
            f"the logit of {name!r} is not finite at {bad.sum()} of {len(bad)} rows, first at row "
            f"{int(np.argmax(bad))}: its predictors or offset contain NaN or infinite values"
        )
