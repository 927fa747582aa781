"""Log density, gradient and transforms of a compiled Stan program given data.

Spaces: ``theta`` is unconstrained, shape (N, D); values by name are constrained, shape (N, *shape)
as the program declares them. Log densities are in theta: they include the log Jacobian of the
constraining transform and, for statements that use ``target +=`` or ``~``, every constant.
"""

from __future__ import annotations

import ctypes
import json
import threading
import time
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stan_models.data_block import misfit, numeric_arrays
from stan_models.errors import StanDataError, StanError
from stan_models.layout import array_dimensions, in_order, indexed
from stan_models.library import import_bridgestan
from stan_models.scales import on_their_scale
from stan_models.stanc import Source
from stan_models.threads import in_threads, thread_count
from stan_models.types import Array

if TYPE_CHECKING:
    import bridgestan
    import stanio

Data = Mapping[str, ArrayLike] | str | PathLike[str] | None
WORTH_A_THREAD = 5e-4  # seconds, ten times what it takes to hand a part of a batch to a thread

LONGEST_CALL = 0.3  # seconds of one call of the library, within which nobody hears Ctrl-C


class Compilable(Source, Protocol):
    """A Stan program that compiles to a library with its log density; a `StanProgram` is one."""

    def library(self) -> Path:
        """Path of the C library, compiled if it is not yet."""


class StanDensity:
    """The log density of ``program`` given ``data``, on the unconstrained space.

    Parameters
    ----------
    program
        A `StanProgram`; compiled if it is not yet.
    data
        Values of the data block by name, the path of a JSON file, or None for a program without
        data.

    Raises
    ------
    StanDataError
        The data do not fit; the message names the variables and repeats Stan's.
    ValueError
        The program has no parameters.

    Examples
    --------
    >>> from stan_models import StanProgram
    >>> program = StanProgram("parameters { real<lower=0> s; } model { s ~ exponential(1); }")
    >>> density = program.density()
    >>> lp, gradient = density.log_density_gradient([[0.0], [1.0]])  # -exp(t) + t
    """

    def __init__(self, program: Compilable, data: Data = None) -> None:
        self.program = program
        self._model = _load(program, as_json(data))
        # a mapping as it is now: a loop over data sets writes the next ones into the same arrays
        self.data = deepcopy(dict(data)) if isinstance(data, Mapping) else data
        self._threads = thread_count()
        self._seconds = dict[str, float]()  # of a point, by function: it decides on threads alone
        if self.dimension == 0:
            raise ValueError(
                f"Stan program {program.name!r} has no parameters with these data: "
                "there is no posterior to compute"
            )

    def __reduce__(self) -> tuple[object, ...]:
        return StanDensity, (self.program, self.data)

    def __repr__(self) -> str:
        return f"StanDensity({self.program.name!r}, dimension={self.dimension})"

    @property
    def native(self) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
        """The C library, and its handle of the model, which lives as long as this density."""
        return self._model.stanlib, ctypes.c_void_p(self._model.model)

    @cached_property
    def _batches(self) -> dict[str, Callable[..., int]]:
        """Functions of many points by name; none in a library that an official CmdStan made."""
        found = dict[str, Callable[..., int]]()
        for symbol, arrays in (("ext_log_density_batch", 2), ("ext_log_density_gradient_batch", 3)):
            function = getattr(self._model.stanlib, symbol, None)
            if function is not None:
                function.argtypes = [
                    ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool, ctypes.c_int,
                    *[ctypes.c_void_p] * arrays, ctypes.POINTER(ctypes.c_char_p),
                ]  # fmt: skip
                found[symbol] = function
        return found

    @cached_property
    def dimension(self) -> int:
        """D, the number of unconstrained parameters."""
        return int(self._model.param_unc_num())

    @cached_property
    def unconstrained_names(self) -> list[str]:
        """Names of the unconstrained coordinates, ``theta[1]`` or ``tau``, in theta's order.

        All that is said of a program names its quantities so: by Stan's own indices, as in its
        programs and in CmdStanPy's summary. Arrays of draws are indexed from 0, as NumPy's are.
        """
        flat = _names(self._model.param_unc_names())
        return [indexed(name) for name in in_order(flat, array_dimensions(self.program))]

    @cached_property
    def value_names(self) -> list[str]:
        """:attr:`unconstrained_names` where a value is given: ``log tau`` of a positive ``tau``."""
        point = np.linspace(0.1, 1.1, self.dimension)
        found = dict[str, float]()
        for name, value in self.constrain(point, transformed=False).items():
            if value.dtype.kind == "f":
                found |= zip(self.labels(name, value.shape[1:]), value.ravel(), strict=True)
        return on_their_scale(self.unconstrained_names, point.tolist(), found)

    @staticmethod
    def labels(name: str, shape: tuple[int, ...]) -> list[str]:
        """Names of an array's elements in its order, by Stan's indices.

        >>> StanDensity.labels("L", (1, 2)), StanDensity.labels("tau", ())
        (['L[1,1]', 'L[1,2]'], ['tau'])
        """
        return [indexed(".".join([name, *(str(i + 1) for i in at)])) for at in np.ndindex(*shape)]

    @cached_property
    def bounded_names(self) -> list[str]:
        """Those of :attr:`unconstrained_names` in which the parameters are not linear.

        A logarithm or a logit of a bounded parameter is, an offset or a scale is not.
        """
        bounded = []
        for i, name in enumerate(self.unconstrained_names):
            points = np.zeros((3, self.dimension))
            points[:, i] = 0, 1, 2  # not about 0, where a logit is symmetric
            columns = self.constrain(points, transformed=False).values()
            first, second, third = np.hstack([value.reshape(3, -1) for value in columns])
            if not np.allclose(third - second, second - first, rtol=1e-6, atol=1e-12):
                bounded.append(name)
        return bounded

    @cached_property
    def parameter_names(self) -> list[str]:
        """Names of the parameters block, in its order."""
        return list(self.shapes)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Constrained shape of each parameter; parameters of size zero are left out."""
        return {name: v.dimensions for name, v in self._variables(False, False).items()}

    def log_density(self, theta: ArrayLike) -> Array:
        """log p̃(θ) with Jacobian and constants: (N, D) or (D,) unconstrained to (N,) or ().

        -inf where the program rejects θ.
        """
        points, shape = self._points(theta)
        lp = np.empty(len(points))
        if not self._batch("ext_log_density_batch", points, lp):
            lp[:] = [self._one(point)[0] for point in points]
        return lp.reshape(shape)

    def log_density_gradient(self, theta: ArrayLike) -> tuple[Array, Array]:
        """Log density and gradient in θ: (N, D) or (D,) unconstrained to (N,), (N, D) or (), (D,).

        Where the program rejects θ the density is -inf and the gradient NaN.
        """
        points, shape = self._points(theta)
        lp, gradient = np.empty(len(points)), np.empty_like(points)
        if not self._batch("ext_log_density_gradient_batch", points, lp, gradient):
            for i, point in enumerate(points):
                lp[i], gradient[i] = self._one(point)
        return lp.reshape(shape), gradient.reshape(*shape, self.dimension)

    def constrain(
        self,
        theta: ArrayLike,
        transformed: bool = True,
        generated: bool = False,
        random_seed: int | None = None,
    ) -> dict[str, Array]:
        """Map (N, D) unconstrained points to values by name, each (N, *shape).

        Parameters
        ----------
        theta
            (N, D) unconstrained.
        transformed, generated
            Whether transformed parameters and generated quantities are computed too.
        random_seed
            For the generated quantities' random numbers; needed if ``generated``.

        Raises
        ------
        ValueError
            ``generated`` without ``random_seed``, or points of another dimension.
        StanError
            Stan refuses a generated quantity: its message.
        """
        if generated and random_seed is None:
            raise ValueError("generated=True needs random_seed, got None")
        points, _ = self._points(np.atleast_2d(np.asarray(theta, dtype=float)))
        rng = self._model.new_rng(random_seed) if generated else None
        size = self._model.param_num(include_tp=transformed, include_gq=generated)
        flat = np.empty((len(points), size))
        flags = (ctypes.c_bool(transformed), ctypes.c_bool(generated))
        state = ctypes.c_void_p(rng.ptr if rng else None)
        self._each("bs_param_constrain", flags, points, flat, state)
        return self.by_name(flat, transformed, generated)

    def by_name(self, flat: Array, transformed: bool, generated: bool = False) -> dict[str, Array]:
        """Split Stan's flat columns (..., K) into values by name (..., *shape)."""
        found = self._variables(transformed, generated)
        return {name: variable.extract_reshape(flat) for name, variable in found.items()}

    def unconstrain(self, values: Mapping[str, ArrayLike]) -> Array:
        """Map values by name, each (N, *shape), to (N, D) unconstrained points.

        Raises
        ------
        ValueError
            A parameter is missing or unknown, or has the wrong shape.
        StanError
            A value is outside its constraint; the message is Stan's.
        """
        missing = [name for name in self.parameter_names if name not in values]
        # a parameter of size zero has no shape here, and may be given
        unknown = [n for n, value in values.items() if n not in self.shapes and np.size(value)]
        if missing or unknown:
            raise ValueError(
                f"unconstrain needs exactly the parameters {self.parameter_names}; "
                f"missing {missing}, unknown {unknown}"
            )
        columns = [self._columns(name, np.asarray(values[name])) for name in self.shapes]
        return self.unconstrain_columns(np.concatenate(columns, axis=1))

    def unconstrain_columns(self, flat: Array) -> Array:
        """Map the parameters' columns in Stan's CSV order, (N, K), to (N, D).

        Raises
        ------
        ValueError
            The shape is another.
        StanError
            A value is outside its constraint; the message is Stan's.
        """
        flat = np.ascontiguousarray(flat, dtype=float)
        columns = self.count(transformed=False)
        if flat.ndim != 2 or flat.shape[1] != columns:
            raise ValueError(f"the parameters' columns must have shape (N, {columns}), "
                             f"got {flat.shape}")  # fmt: skip
        theta = np.empty((len(flat), self.dimension))
        self._each("bs_param_unconstrain", (), flat, theta)
        return theta

    def count(self, transformed: bool, generated: bool = False) -> int:
        """Number of Stan's columns of the parameters and, if asked for, what derives from them."""
        return int(self._model.param_num(include_tp=transformed, include_gq=generated))

    @property
    def quantity_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of parameters, transformed parameters and generated quantities, by name."""
        found = self._variables(transformed=True, generated=True)
        return {name: tuple(variable.dimensions) for name, variable in found.items()}

    @property
    def generated_names(self) -> list[str]:
        """Names of the program's generated quantities."""
        return list(self.generated_shapes)

    @property
    def generated_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the program's generated quantities by name."""
        known = self._variables(transformed=True, generated=False)
        return {name: shape for name, shape in self.quantity_shapes.items() if name not in known}

    def data_arrays(self) -> dict[str, NDArray]:
        """Integers and real numbers of the data block by name; from a file, read anew.

        They are arrays, each of its own shape: () for a number. Complex numbers and tuples are left
        out, for NetCDF files hold neither.
        """
        given = self.data if isinstance(self.data, Mapping) else json.loads(as_json(self.data))
        return numeric_arrays(self.program, given)

    def _columns(self, name: str, value: NDArray) -> Array:
        shape = self.shapes[name]
        if value.shape[1:] != shape or value.ndim != len(shape) + 1:
            raise ValueError(f"{name} must have shape (N, {', '.join(map(str, shape))}), "
                             f"got {value.shape}")  # fmt: skip
        if np.iscomplexobj(value):
            value = np.stack([value.real, value.imag], axis=1)
        # Stan's order is column-major: the first index runs fastest
        return value.reshape(len(value), -1, order="F")

    def _variables(self, transformed: bool, generated: bool) -> dict[str, stanio.Variable]:
        import stanio

        names = self._model.param_names(include_tp=transformed, include_gq=generated)
        return stanio.parse_header(",".join(names)) if any(names) else {}

    def _points(self, theta: ArrayLike) -> tuple[Array, tuple[int, ...]]:
        points = np.asarray(theta, dtype=float)
        if points.ndim not in (1, 2) or points.shape[-1] != self.dimension:
            raise ValueError(
                f"theta must have shape (N, {self.dimension}) or ({self.dimension},), "
                f"got {points.shape}"
            )
        return np.ascontiguousarray(np.atleast_2d(points)), points.shape[:-1]

    def _batch(self, symbol: str, points: Array, *outputs: Array) -> bool:
        """Call the batch function of our own library; False where the library has none."""
        function = self._batches.get(symbol)
        if function is None:
            return False
        model, ended = self._model.model, threading.Event()
        arrays = points, *outputs

        def call(first: int, last: int) -> None:
            message = ctypes.c_char_p()
            addresses = (a.ctypes.data + first * a.strides[0] for a in arrays)
            code = function(model, False, True, last - first, *addresses, ctypes.byref(message))
            if code:
                reason = self._model._handle_error(message, symbol)
                raise StanError(f"{self.program.name}: {reason}")

        known = self._seconds.get(symbol)

        def rows(first: int, last: int) -> None:
            """In calls that end before long, so that Ctrl-C is heard; no number changes."""
            seconds = LONGEST_CALL if known is None else known  # one row tells
            try:
                while first < last and not ended.is_set():
                    size = int(min(max(LONGEST_CALL / max(seconds, 1e-9), 1), last - first))
                    begin = time.perf_counter()
                    call(first, first + size)
                    first, seconds = first + size, (time.perf_counter() - begin) / size
            except BaseException:
                ended.set()  # the other threads need not go on
                raise

        begin, expected = time.perf_counter(), (known or 0.0) * len(points)
        parts = max(1, min(self._threads, len(points), int(expected / WORTH_A_THREAD)))
        try:
            in_threads(rows, len(points), parts) if parts > 1 else rows(0, len(points))
        finally:
            ended.set()  # Ctrl-C may come while the other threads are waited for
        spent = (time.perf_counter() - begin) * parts
        self._seconds[symbol] = spent / max(len(points), 1)
        return True

    def _one(self, point: Array) -> tuple[float, Array]:
        try:
            lp, gradient = self._model.log_density_gradient(point, propto=False, jacobian=True)
            return lp, np.asarray(gradient)
        except RuntimeError:
            return -np.inf, np.full(self.dimension, np.nan)

    def refusal(self, theta: Array) -> str | None:
        """What Stan says against a point θ (D,), of a rejected count say; None where it has a log
        density, or none without a word."""
        try:
            self._model.log_density_gradient(np.asarray(theta, float), propto=False, jacobian=True)
        except RuntimeError as error:
            return str(error).strip()
        return None

    def _each(
        self, symbol: str, flags: tuple[object, ...], rows: Array, outputs: Array, *last: object
    ) -> None:
        """Call bridgestan's function for each row, by address: its client takes 11 µs a call."""
        library, model = self.native
        function, message = library[symbol], ctypes.c_char_p()
        source, target = rows.ctypes.data, outputs.ctypes.data
        for i in range(len(rows)):
            code = function(
                model, *flags, ctypes.c_void_p(source + i * rows.strides[0]),
                ctypes.c_void_p(target + i * outputs.strides[0]), *last, ctypes.byref(message),
            )  # fmt: skip
            if code:
                reason = self._model._handle_error(message, symbol)
                raise StanError(f"Stan program {self.program.name!r}: {reason}")


def as_json(data: Data) -> str:
    """Data as Stan's JSON text."""
    if data is None:
        return "{}"
    if isinstance(data, Mapping):
        import stanio

        try:
            return stanio.dump_stan_json(data)
        except (TypeError, ValueError) as error:
            raise StanDataError(f"data cannot be written as JSON: {error}") from error
    if not isinstance(data, str | PathLike):
        raise StanDataError(
            "data must be a mapping of names to values, the path of a JSON file, or None, got "
            f"{type(data).__name__}"
        )
    path = Path(data).expanduser()
    if not path.is_file():
        raise FileNotFoundError(
            f"no data file at {path}; give a mapping or the path of a JSON file"
        )
    try:
        text = path.read_text(encoding="utf-8")
        found = json.loads(text)
    except ValueError as error:  # of JSON, or of bytes that are no text
        raise StanDataError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise StanDataError(
            f'{path} must hold values by name, such as {{"N": 3}}, got a JSON '
            f"{type(found).__name__}"
        )
    return text


def _load(program: Compilable, data: str) -> bridgestan.StanModel:
    library = program.library()
    try:
        # Stan's own print() statements are kept; reloading a library that has not changed is safe
        return import_bridgestan().StanModel(library, data, warn=False)
    except RuntimeError as error:
        reasons = [reason for reason in (misfit(program, data), f"Stan said: {error}") if reason]
        raise StanDataError(
            "\n".join([f"the data do not fit Stan program {program.name!r}:", *reasons])
        ) from error


def _names(names: list[str]) -> list[str]:
    return [name for name in names if name]
