"""The coordinates of a fitted approximation, as plain arrays that Stan's sampler takes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from stan_models.types import Array

Matrix: TypeAlias = "Array | sparse.sparray"


TAILS = ("below", "above")
VECTORS = ("mu", "d", "m", "s", "skew", *TAILS)
ONES = ("s", *TAILS)  # one where they are not given, others zero


class CMatrix(ctypes.Structure):
    """``ext_matrix`` of the C library."""

    _fields_ = (
        ("size", ctypes.c_int),
        ("rows", ctypes.POINTER(ctypes.c_int)),
        ("columns", ctypes.POINTER(ctypes.c_int)),
        ("values", ctypes.POINTER(ctypes.c_double)),
    )


class CMap(ctypes.Structure):
    """``ext_map`` of the C library."""

    _fields_ = (
        ("order", ctypes.POINTER(ctypes.c_int)),
        *((name, ctypes.POINTER(ctypes.c_double)) for name in VECTORS),
        *((name, CMatrix) for name in "LCHQ"),
    )


@dataclass(frozen=True)
class Coordinates:
    r"""θ = T(v): a Gaussian, or the conditional law of a hierarchical normal with its marginals.

    .. math::

       y &= \frac{S(\operatorname{asinh} v - \epsilon) - S(-\epsilon)}{S'(-\epsilon)}, \quad
                 S(u) = \sinh(\delta_\pm u) / \delta_\pm \\
       x &= C w + d, \quad g = \sigma(2x), \quad g_0 = \sigma(2d), \quad
                 a = \tfrac s2 \log(g / g_0) \\
       w &= e^{a} y + g (m + H w) + Q (w^2 - 1), \quad
                 \theta_{\texttt{order}} = \mu + L w.

    δ₋ below u = 0 and δ₊ above. Without C, H, Q, ε, δ it is N(μ, LLᵀ).

    Parameters
    ----------
    mu
        μ (D,), unconstrained, in the order of w.
    L
        (D, D): any root of the covariance for a Gaussian, lower triangular else; dense or sparse.
    order
        (D,), a permutation: w_i is coordinate ``order[i]`` of θ. None: as they are.
    C, H, Q
        (D, D), strictly lower triangular, dense or sparse; None for zero.
    d, m, skew
        d, m and ε, (D,); None for zero.
    s
        (D,), 1 or −1: whether a scale rises with its gate or falls. None for one.
    below, above
        δ₋ and δ₊, (D,), positive; None for one.

    Raises
    ------
    ValueError
        A shape does not fit, a number is not finite, L is singular, C, H or Q is not strictly lower
        triangular, δ is not positive, s is not ±1, or ``order`` is no permutation.

    Examples
    --------
    >>> Coordinates(np.zeros(2), np.array([[1.0, 0.0], [0.5, 2.0]])).dimension
    2
    """

    mu: Array
    L: Matrix
    order: NDArray[np.integer] | None = None
    C: Matrix | None = None
    H: Matrix | None = None
    Q: Matrix | None = None
    d: Array | None = None
    m: Array | None = None
    s: Array | None = None
    skew: Array | None = None
    below: Array | None = None
    above: Array | None = None
    _kept: list[NDArray] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        D = self.dimension
        if sorted(self._order.tolist()) != list(range(D)):
            raise ValueError(f"order must be a permutation of 0 to {D - 1}, got {self.order}")
        for name in VECTORS:
            _require(name, self._vector(name), (D,))
        for name in TAILS:
            if (self._vector(name) <= 0).any():
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if (np.abs(self._vector("s")) != 1).any():
            raise ValueError(f"s must be 1 or -1 everywhere, got {self.s}")
        _require("L", self.L, (D, D))
        _require_invertible(self.L)
        for name in "CHQ":
            matrix = getattr(self, name)
            if matrix is not None:
                _require(name, matrix, (D, D))
                rows, columns, _ = _entries(matrix)
                if (rows <= columns).any():
                    raise ValueError(f"{name} must be strictly lower triangular, and is not")

    @property
    def dimension(self) -> int:
        """D."""
        return len(self.mu)

    @property
    def _order(self) -> NDArray[np.integer]:
        return np.arange(self.dimension) if self.order is None else np.asarray(self.order)

    def _vector(self, name: str) -> Array:
        value = getattr(self, name)
        if value is None:
            value = np.full(self.dimension, 1.0 if name in ONES else 0.0)
        return np.asarray(value, dtype=float)

    def as_c(self) -> CMap:
        """What the C library reads; its arrays live as long as this object."""
        self._kept.clear()
        answer = CMap()
        answer.order = self._integers(self._order)
        for name in VECTORS:
            setattr(answer, name, self._doubles(self._vector(name)))
        for name in "LCHQ":
            rows, columns, values = _entries(getattr(self, name))
            kept = self._integers(rows), self._integers(columns), self._doubles(values)
            setattr(answer, name, CMatrix(len(values), *kept))
        return answer

    def _integers(self, values: ArrayLike) -> ctypes.Array | object:
        kept = np.ascontiguousarray(values, dtype=np.intc)
        self._kept.append(kept)
        return kept.ctypes.data_as(ctypes.POINTER(ctypes.c_int))

    def _doubles(self, values: ArrayLike) -> ctypes.Array | object:
        kept = np.ascontiguousarray(values, dtype=float)
        self._kept.append(kept)
        return kept.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def _entries(matrix: Matrix | None) -> tuple[NDArray, NDArray, Array]:
    """Rows, columns and values of what is not zero."""
    if matrix is None:
        return np.empty(0, int), np.empty(0, int), np.empty(0)
    found = sparse.coo_array(matrix)
    found.sum_duplicates()
    kept = found.data != 0
    rows, columns = (index[kept] for index in found.coords)
    return rows, columns, found.data[kept]


def _require(name: str, value: Matrix, shape: tuple[int, ...]) -> None:
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {value.shape}")
    numbers = value.data if sparse.issparse(value) else value
    if not np.isfinite(np.asarray(numbers, dtype=float)).all():
        raise ValueError(f"{name} must be finite")


def _require_invertible(L: Matrix) -> None:
    rows, columns, _ = _entries(L)
    triangular = not (rows < columns).any()
    if triangular:
        singular = not np.all(L.diagonal() != 0)
    else:
        singular = not np.isfinite(np.linalg.slogdet(sparse.coo_array(L).toarray())[1])
    if singular:
        raise ValueError(
            "L must have an inverse, and is singular: the covariance it is a root of is not "
            "positive definite"
        )
