"""The numbers behind a logistic model that is affine in β: design, data, Gaussian prior.

Notation: logit = a + X β with X (n, p), a (n,); y ~ Binomial(trials, σ(logit)), likelihood weights
``weight`` (n,); log prior of β = c + bᵀβ − ½ βᵀPβ, normaliser included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from scipy.special import gammaln

from pymc_ext.maths.types import Array
from pymc_ext.variational.logistic.affine import AffinityError, LogisticTerm

ROWS = 1 << 16  # rows of a block: bounds working memory
Terms = tuple[float, Array, Array]  # of log p over rows: value, gradient (p,), curvature (p, p)


@dataclass(frozen=True)
class GaussianPrior:
    """c + bᵀβ − ½ βᵀPβ."""

    constant: float
    slope: Array
    precision: Array

    def log_density(self, beta: Array) -> Array:
        """Of rows, (N, p) -> (N,)."""
        quadratic = np.sum((beta @ self.precision) * beta, axis=-1)
        return self.constant + beta @ self.slope - 0.5 * quadratic

    def score(self, beta: Array) -> Array:
        """b − Pβ, (..., p) -> (..., p)."""
        return self.slope - beta @ self.precision

    def expected(self, mean: Array, cov: Array) -> float:
        """E log p of a Gaussian's β, (p,), (p, p)."""
        return float(self.log_density(mean) - 0.5 * np.sum(self.precision * cov))


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
        if np.all(N == 1):  # a Bernoulli's is 1
            return 0.0
        return float(self.weight @ (gammaln(N + 1) - gammaln(y + 1) - gammaln(N - y + 1)))

    def total(self, of: Callable[[LogisticData], Terms], q: object) -> Terms:
        """The sum of ``of`` over blocks of rows."""
        parts = [of(block) for block in self.blocks()]
        return added(parts)

    def blocks(self) -> Iterator[LogisticData]:
        """The rows in blocks of `ROWS`."""
        for i in range(0, len(self.y), ROWS):
            rows = slice(i, i + ROWS)
            yield LogisticData(*(getattr(self, field.name)[rows] for field in fields(self)))


def added(parts: Iterable[Terms]) -> Terms:
    """Their sum."""
    values, gradients, curvatures = zip(*parts, strict=True)
    return float(np.sum(values)), np.sum(gradients, axis=0), np.sum(curvatures, axis=0)


def require_proper(P: Array, variables: Sequence[tuple[str, slice]]) -> None:
    """AffinityError unless P (p, p) is positive definite; ``variables`` lie there in β."""
    flat = ~np.isfinite(P.sum(axis=1))
    if not flat.any():
        values, vectors = np.linalg.eigh(P)
        flat = (values[0] <= 0) & (np.abs(vectors[:, 0]) > 0.1)
    if names := [name for name, where in variables if flat[where].any()]:
        raise AffinityError(
            f"the prior of {names} is improper or its parameters are not valid (its precision "
            "is not positive definite): the ELBO needs a proper one"
        )


def require_quadratic(gradient: Callable[[Array], Array], slope: Array, P: Array) -> None:
    """Guard against an Op of the user's that hides its curvature from the graph."""
    point = np.random.default_rng(0).normal(size=len(slope)) * np.diag(P) ** -0.5
    for beta in (point, -3 * point):
        expected = slope - P @ beta
        if not np.allclose(gradient(beta), expected, rtol=1e-6, atol=1e-6 * np.abs(P).max()):
            raise AffinityError("the prior of the linear variables is not Gaussian")


def checked_data(
    terms: Sequence[LogisticTerm],
    X: Array,
    offset: Array,
    data: Sequence[Array],
    sizes: Sequence[int],
) -> LogisticData:
    """Rows of all terms, ``sizes`` of each, its ``data`` outcomes, trials and weight. ValueError
    where outcomes, trials, predictors or offsets are not valid."""
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
