"""Chains of Stan's own NUTS inside this process, run block by block, without files.

The functions are in the library that holds a program's log density (``driver/nuts.cpp``), so that
neither a process nor a CSV file stands between two blocks; what a chain has adapted, its position
and its random numbers stay with it.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stan_models.coordinates import CMap, Coordinates
from stan_models.density import StanDensity
from stan_models.errors import StanRunError, ToolchainError
from stan_models.runs import positive
from stan_models.types import Array

STATISTICS = (
    "lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy",
)  # fmt: skip
_DOUBLES, _INTEGERS = ctypes.POINTER(ctypes.c_double), ctypes.POINTER(ctypes.c_int)


class _Settings(ctypes.Structure):
    """``ext_nuts_settings`` of the C library."""

    _fields_ = (
        ("seed", ctypes.c_uint),
        ("chain", ctypes.c_uint),
        ("step_size", ctypes.c_double),
        ("target_accept", ctypes.c_double),
        ("max_depth", ctypes.c_int),
        ("adapt_metric", ctypes.c_int),
        ("inverse_metric", _DOUBLES),
    )


@dataclass(frozen=True)
class Transitions:
    """Successive states of one chain.

    Attributes
    ----------
    points
        (n, D), in the chain's coordinates.
    statistics
        By ArviZ's names, each (n,): ``lp`` (log density of the point in the chain's coordinates, up
        to a constant), ``acceptance_rate``, ``step_size``, ``tree_depth``, ``n_steps``,
        ``diverging``, ``energy``.
    """

    points: Array
    statistics: dict[str, NDArray]


class StanChain:
    """One chain of Stan's NUTS, in coordinates v of its own.

    Without ``coordinates`` v is θ, unconstrained. With them the metric that they stand for is kept
    whatever the warm-up: ``adapt_metric`` adapts a diagonal in v beside it.

    Parameters
    ----------
    density
        The program with its data.
    start
        v at first, (D,).
    seed, chain
        Seed of the random numbers, and which of its streams.
    coordinates
        θ = T(v).
    adapt_metric
        Whether warm-up estimates a diagonal metric, in Stan's windows, or the step size alone.
    inverse_metric
        The diagonal it starts from, (D,), positive; needs ``adapt_metric``.
    step_size, target_accept, max_depth
        As Stan's ``stepsize``, ``delta`` and ``max_depth``.

    Raises
    ------
    ToolchainError
        The library was compiled with an official CmdStan, which lacks these functions.
    ValueError
        A number is out of range, or an array has another shape.
    StanRunError
        From :meth:`run`: Stan gave up, as for an improper posterior; the message is its own.

    Examples
    --------
    >>> from stan_models import StanProgram
    >>> density = StanProgram("parameters { real x; } model { x ~ normal(0, 1); }").density()
    >>> chain = StanChain(density, np.zeros(1), seed=1)
    >>> _ = chain.run(100, adapt=True)
    >>> chain.run(50).points.shape
    (50, 1)

    References
    ----------
    Hoffman and Gelman (2014), JMLR 15:1593, https://arxiv.org/abs/1111.4246
    """

    def __init__(
        self,
        density: StanDensity,
        start: ArrayLike,
        *,
        seed: int,
        chain: int = 1,
        coordinates: Coordinates | None = None,
        adapt_metric: bool = False,
        inverse_metric: ArrayLike | None = None,
        step_size: float = 1.0,
        target_accept: float = 0.8,
        max_depth: int = 10,
    ) -> None:
        positive(max_depth=max_depth, chain=chain)
        if not (0 < target_accept < 1 and 0 < step_size < np.inf):
            raise ValueError(
                "need 0 < target_accept < 1 and a positive step_size, got "
                f"{target_accept} and {step_size}"
            )
        self.density, self.dimension = density, density.dimension
        self._library, model = _library(density)
        point = _vector("start", start, self.dimension)
        if coordinates is not None and coordinates.dimension != self.dimension:
            raise ValueError(
                f"coordinates must have {self.dimension} dimensions, got {coordinates.dimension}"
            )
        metric = _metric(inverse_metric, self.dimension, adapt_metric)
        settings = _Settings(
            seed, chain, step_size, target_accept, max_depth, adapt_metric,
            None if metric is None else metric.ctypes.data_as(_DOUBLES),
        )  # fmt: skip
        message = ctypes.c_char_p()
        self._handle = self._library.ext_chain_construct(
            model,
            None if coordinates is None else ctypes.byref(coordinates.as_c()),
            ctypes.byref(settings),
            point.ctypes.data_as(_DOUBLES),
            ctypes.byref(message),
        )
        if not self._handle:
            raise self._failed(message)
        weakref.finalize(self, self._library.ext_chain_destruct, self._handle)
        self._stop = ctypes.c_int(0)

    def run(self, iterations: int, adapt: bool = False) -> Transitions:
        """The next ``iterations`` states; with ``adapt``, a warm-up of that length.

        Another thread's :meth:`stop` ends it early: fewer states come back.

        Raises
        ------
        StanError
            Stan ends the chain: its message.
        """
        positive(iterations=iterations)
        points = np.empty((iterations, self.dimension))
        table = np.empty((iterations, len(STATISTICS)))
        made, message = ctypes.c_int(0), ctypes.c_char_p()
        code = self._library.ext_chain_run(
            self._handle, iterations, adapt, ctypes.byref(self._stop),
            points.ctypes.data_as(_DOUBLES), table.ctypes.data_as(_DOUBLES),
            ctypes.byref(made), ctypes.byref(message),
        )  # fmt: skip
        if code:
            raise self._failed(message)
        statistics: dict[str, NDArray] = dict(zip(STATISTICS, table[: made.value].T, strict=True))
        for name in ("tree_depth", "n_steps"):
            statistics[name] = statistics[name].astype(int)
        statistics["diverging"] = statistics["diverging"] > 0
        return Transitions(points[: made.value], statistics)

    def stop(self) -> None:
        """Let :meth:`run`, in whatever thread, end after the gradient it is at."""
        self._stop.value = 1

    @property
    def gradients(self) -> int:
        """Gradients of the program computed so far, searches for a step size included."""
        return int(self._library.ext_chain_gradients(self._handle))

    @property
    def inverse_metric(self) -> Array:
        """The diagonal of the inverse metric at present, (D,), in the chain's coordinates."""
        found = np.empty(self.dimension)
        self._library.ext_chain_inverse_metric(self._handle, found.ctypes.data_as(_DOUBLES))
        return found

    @property
    def step_size(self) -> float:
        """Of the integrator, at present; may be set between runs."""
        return float(self._library.ext_chain_step_size(self._handle))

    @step_size.setter
    def step_size(self, value: float) -> None:
        if not 0 < value < np.inf:
            raise ValueError(f"step_size must be positive, got {value}")
        self._library.ext_chain_set_step_size(self._handle, value)

    def _failed(self, message: ctypes.c_char_p) -> StanRunError:
        text = (message.value or b"").decode()
        self._library.bs_free_error_msg(message)
        return StanRunError(f"Stan's NUTS on {self.density.program.name!r} failed: {text}")


def has_chains(density: StanDensity) -> bool:
    """Whether the density's library has these functions: it was built by our own toolchain."""
    return hasattr(density.native[0], "ext_chain_construct")


def _library(density: StanDensity) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """The library with the types of these functions, and the model's handle."""
    if not has_chains(density):
        raise ToolchainError(
            f"the library of {density.program.name!r} was compiled with an official CmdStan, which "
            "has no chains to call: use stan_models.nuts, or unset CMDSTAN to use the Stan that "
            "this package assembles"
        )
    library, model = density.native
    error = ctypes.POINTER(ctypes.c_char_p)
    library.ext_chain_construct.restype = ctypes.c_void_p
    library.ext_chain_construct.argtypes = [
        ctypes.c_void_p, ctypes.POINTER(CMap), ctypes.POINTER(_Settings), _DOUBLES, error,
    ]  # fmt: skip
    library.ext_chain_destruct.argtypes = [ctypes.c_void_p]
    library.ext_chain_destruct.restype = None
    library.ext_chain_run.argtypes = [
        ctypes.c_void_p, ctypes.c_int, ctypes.c_bool, _INTEGERS, _DOUBLES, _DOUBLES, _INTEGERS,
        error,
    ]  # fmt: skip
    library.ext_chain_gradients.argtypes = [ctypes.c_void_p]
    library.ext_chain_gradients.restype = ctypes.c_longlong
    library.ext_chain_step_size.argtypes = [ctypes.c_void_p]
    library.ext_chain_step_size.restype = ctypes.c_double
    library.ext_chain_set_step_size.argtypes = [ctypes.c_void_p, ctypes.c_double]
    library.ext_chain_set_step_size.restype = None
    library.ext_chain_inverse_metric.argtypes = [ctypes.c_void_p, _DOUBLES]
    library.ext_chain_inverse_metric.restype = None
    return library, model


def _vector(name: str, value: ArrayLike, dimension: int) -> Array:
    try:
        found = np.ascontiguousarray(value, dtype=float)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} must be {dimension} finite numbers, got {value!r}") from error
    if found.shape != (dimension,) or not np.isfinite(found).all():
        raise ValueError(
            f"{name} must be {dimension} finite numbers, got shape {found.shape}: {found}"
        )
    return found


def _metric(value: ArrayLike | None, dimension: int, adapt: bool) -> Array | None:
    if value is None:
        return None
    if not adapt:
        raise ValueError("inverse_metric needs adapt_metric=True: without it the metric is one")
    found = _vector("inverse_metric", value, dimension)
    if (found <= 0).any():
        raise ValueError(f"inverse_metric must be positive, got {found}")
    return found
