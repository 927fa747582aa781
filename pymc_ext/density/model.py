"""The density of a PyMC model: value and score over rows, compiled once."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor import TensorVariable

from pymc_ext.density.check import NoGradientError, NotEvaluatedError
from pymc_ext.density.counted import Clock
from pymc_ext.density.graph import ModelGraph, NotByRowsError
from pymc_ext.density.rows import (
    RowFunction,
    in_blocks,
    in_numbers,
    of_few_shapes,
    one_by_one,
    power_of_two,
    rows_per_call,
    runs_in_jax,
)
from pymc_ext.maths.types import Array
from pymc_ext.over_draws import checked, has_scan, over_draws
from pymc_ext.pytensor_modes import index_out_of_range, one_draw_a_call, run_by_numpy
from pymc_ext.typed_graphs import gradients

if TYPE_CHECKING:
    from pytensor.compile import Function

    from pymc_ext.pytensor_versions import TensorSharedVariable

logger = logging.getLogger(__name__)

VALUE_ROWS = 50_000  # values asked for from which on compiling them without the score pays
HESSIAN_ROWS = 256  # directions differentiated together: bounds memory at 256 gradients
# Two threads in one compiled function give wrong numbers or end the process: a sampler's thread may
# still be in it where Ctrl-C has ended the sampler.
ONE_AT_A_TIME = threading.RLock()


class PyMCDensity(ModelGraph):
    """log p̃ of a model on its unconstrained space, log-Jacobian and constants included.

    θ (D,) holds the raveled value variables of ``variables`` in their order. One function of rows
    is compiled, at first use: value and score; another for the values alone once more than
    ``VALUE_ROWS`` were asked for; a Hessian only when asked for.

    Parameters
    ----------
    model
        The model; its free variables must be continuous.
    variables
        Free variables that θ consists of; None takes all.
    point
        Free variables held at a point instead, with the shared variable (H,) of their raveled
        unconstrained values. Their prior counts without Jacobian, as in ``pm.find_MAP``.
    compile_kwargs
        Of ``pymc.pytensorf.compile``: ``mode``, ...
    clock
        Counts the seconds of compilation, those of the first call included (numba compiles then).
    trained
        More shared variables (a network's weights) with respect to which gradients are wanted.
    replacements, updates
        Variable -> replacement in the model's graph, and shared variable -> value after a call of
        value and score; as ``more_replacements`` and ``more_updates`` of ``pm.fit``.
    random_seed
        Of random numbers in the model's graph (``pm.Minibatch``).
    interpreted
        Whether NumPy may run the graph of a small model (:mod:`pymc_ext.pytensor_modes`) where no
        mode was asked for; False for who calls it tens of thousands of times.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     tau = pm.HalfNormal("tau")
    >>> PyMCDensity(model).log_density_gradient(np.zeros((1, 1)))
    (array([-0.72579135]), array([[0.]]))
    """

    def __init__(
        self,
        model: pm.Model,
        variables: Sequence[TensorVariable] | None = None,
        *,
        point: tuple[Sequence[TensorVariable], TensorSharedVariable] | None = None,
        compile_kwargs: Mapping[str, object] | None = None,
        clock: Clock | None = None,
        trained: Sequence[TensorSharedVariable] = (),
        replacements: Mapping[TensorVariable, TensorVariable] | None = None,
        updates: Mapping[TensorSharedVariable, TensorVariable] | None = None,
        random_seed: int | None = None,
        interpreted: bool = True,
    ) -> None:
        super().__init__(model, variables, point, replacements, compile_kwargs, clock or Clock())
        self._updates, self._random_seed = dict(updates or {}), random_seed
        self.extras = [*([] if point is None else [point[1]]), *trained]
        self._rows_seen, self.interpreted, self._indices_seen = 0, interpreted, False
        self.rows_per_call = 1  # once compiled, as many as keep the widest array small

    def __getstate__(self) -> dict[str, object]:
        state = self.__dict__.copy()
        for compiled in ("_both", "_value", "_products", "for_chains"):
            state.pop(compiled, None)  # compiled again on demand
        return state

    @cached_property
    def for_chains(self) -> PyMCDensity:
        """The same log p̃ by PyTensor's compiler, for chains, which ask for one point a call."""
        if not self.interpreted:
            return self
        other = copy.copy(self)
        other.interpreted = False
        return other

    # ---- numbers ---------------------------------------------------------------------------

    def _over_rows(self, with_score: bool) -> RowFunction:
        """What was asked for, by rows, as a function of rows (N, D)."""
        with self.clock.compiling():
            self._require_indices()
            if has_scan([self.logp]):
                logger.info("the model contains a scan: draws are evaluated one after another")
                return one_by_one(self._of_a_point(with_score))
            if self._one_by_one():
                return one_by_one(self._of_a_point(with_score))
            rows = pt.matrix("rows", shape=(None, self.dimension), dtype="float64")
            try:
                lp = self.logp_of_rows(rows)
            except NotByRowsError as error:
                logger.info("draws are evaluated one after another: %s", error.__cause__)
                return one_by_one(self._of_a_point(with_score))
            inputs, outputs = [rows], [lp]
            if with_score:
                outputs += scores(lp.sum(), [rows])
                if self.extras:
                    weights = pt.vector("weights")
                    inputs.append(weights)
                    outputs += scores((weights * lp).sum(), self.extras)
            f = self._compiled(inputs, outputs, with_score)
            size = self.rows_per_call = rows_per_call(f)
        if not runs_in_jax(f):
            return lambda theta, *weights: in_blocks(f, size, theta, *weights)
        if self.extras:  # their gradients are sums over rows, none of which may be repeated
            return lambda theta, *weights: in_numbers(in_blocks(f, size, theta, *weights))
        few, whole = of_few_shapes(f, self.clock), power_of_two(size // 2 + 1)
        self.rows_per_call = whole
        return lambda theta: in_blocks(few, whole, theta)

    def _require_indices(self) -> None:
        """Raise NotEvaluatedError where one is out of range; of random data nobody looks, nor in
        loops, which Python takes step by step."""
        if not (self._indices_seen or self.noisy or self._updates or has_scan([self.logp])):
            error = index_out_of_range(self.logp, self.theta, self.dimension)
            if error is not None:
                raise NotEvaluatedError(error) from error
        self._indices_seen = True

    def _one_by_one(self) -> bool:
        """Whether rows are long: all of a call share a batch of data, and JAX has few shapes."""
        given = self.noisy or self._updates or "mode" in self._compile_kwargs
        return not given and one_draw_a_call([self.logp])

    def _of_a_point(self, with_score: bool) -> Function:
        (lp,) = cast("list[TensorVariable]", checked([self.logp], self.model.check_bounds))
        outputs = [lp]
        if with_score:
            outputs += scores(lp, [self.theta, *self.extras])
        return self._compiled([self.theta], outputs, with_score)

    def _compiled(
        self, inputs: list[TensorVariable], outputs: list[TensorVariable], stepping: bool
    ) -> Function:
        updates = self._updates if stepping else {}
        by_numpy = None if updates or inputs[0].ndim < 2 else self._by_numpy(inputs, outputs)
        if by_numpy is not None:
            return by_numpy
        f = self.compile(inputs, outputs, updates=updates, random_seed=self._random_seed)
        if not updates:  # numba compiles at the first call: that is no part of a fit
            point = np.zeros((1, self.dimension) if inputs[0].ndim == 2 else self.dimension)
            with self.clock.compiling(), np.errstate(all="ignore"):
                try:
                    f(point, *(np.ones(1) for _ in inputs[1:]))
                except (IndexError, ValueError) as error:
                    raise NotEvaluatedError(error) from error
        return f

    def _by_numpy(
        self, inputs: list[TensorVariable], outputs: TensorVariable | list[TensorVariable]
    ) -> Function | None:
        """A function that needs no compiler, where it serves."""
        if not self.interpreted or self.noisy or "mode" in self._compile_kwargs:
            return None
        return run_by_numpy(partial(self.compile, inputs, outputs))

    @cached_property
    def _both(self) -> RowFunction:
        return self._over_rows(with_score=True)

    @cached_property
    def _value(self) -> RowFunction:
        return self._over_rows(with_score=False)

    def log_density(self, theta: Array) -> Array:
        """log p̃, (N, D) -> (N,); −inf outside the support."""
        rows = self._points(theta)
        self._rows_seen += len(rows)
        alone = "_value" in self.__dict__ or self._rows_seen > VALUE_ROWS or self._updates
        if alone:
            with ONE_AT_A_TIME:
                return self._value(rows)[0]
        with ONE_AT_A_TIME:
            return self._both(rows, *self._unit_weights(rows))[0]

    def log_density_gradient(self, theta: Array) -> tuple[Array, Array]:
        """log p̃ and its gradient in θ, (N, D) -> (N,), (N, D)."""
        rows = self._points(theta)
        with ONE_AT_A_TIME:
            lp, gradient = self._both(rows, *self._unit_weights(rows))[:2]
        return lp, gradient

    def _unit_weights(self, rows: Array) -> list[Array]:
        return [np.ones(len(rows))] if self.extras else []

    def _points(self, theta: Array) -> Array:
        rows = np.ascontiguousarray(theta, dtype=float)
        if rows.ndim != 2 or rows.shape[1] != self.dimension:
            raise ValueError(f"theta must have shape (N, {self.dimension}), got {rows.shape}")
        return rows

    # ---- parameters beside θ ---------------------------------------------------------------

    @property
    def extra_size(self) -> int:
        """Number of hyperparameters and trained parameters, H."""
        return sum(int(v.get_value(borrow=True).size) for v in self.extras)

    @property
    def extra(self) -> Array:
        """Their values, (H,)."""
        return np.concatenate([np.ravel(v.get_value()) for v in self.extras]).astype(float)

    @extra.setter
    def extra(self, value: Array) -> None:
        begin = 0
        for v in self.extras:
            old = v.get_value(borrow=True)
            v.set_value(value[begin : begin + old.size].reshape(old.shape).astype(old.dtype))
            begin += old.size

    def weighted_gradients(self, theta: Array, weights: Array) -> tuple[Array, Array, Array]:
        """log p̃ (N,), scores (N, D), ∂ Σ_n w_n log p̃_n / ∂ extra (H,) at θ (N, D) for w (N,)."""
        with ONE_AT_A_TIME:
            lp, scores, *sums = self._both(self._points(theta), weights)
        return lp, scores, np.concatenate([np.ravel(s) for s in sums]).astype(float)

    # ---- second derivatives ----------------------------------------------------------------

    @cached_property
    def _products(self) -> Function:
        with self.clock.compiling():
            (gradient,) = scores(self.logp, [self.theta])
            direction = pt.vector("direction", shape=(self.dimension,))
            directions = pt.matrix("directions", shape=(None, self.dimension))
            try:
                (product,) = gradients(pt.dot(gradient, direction), [self.theta])
                many = over_draws(
                    [product], {direction: directions}, directions.shape[0], self.model.check_bounds
                )[0]
                return self._by_numpy([self.theta, directions], many) or self.compile(
                    [self.theta, directions], many
                )
            except Warning:  # an error by the user's own filters
                raise
            except Exception as error:  # Ops' own code, and code that their authors never compiled
                raise NoGradientError(
                    "the log density of this model cannot be differentiated twice "
                    f"({first_line(error)}); fit it with MixedVI('eig', base='unit'), which needs "
                    "gradients only"
                ) from error

    def hessian(self, theta: Array) -> Array:
        """∇² log p̃, (D,) -> (D, D), exact and symmetrised; compiled when first asked for."""
        eye = np.eye(self.dimension)
        blocks = range(0, self.dimension, HESSIAN_ROWS)
        with ONE_AT_A_TIME:
            H = np.concatenate([self._products(theta, eye[i : i + HESSIAN_ROWS]) for i in blocks])
        return (H + H.T) / 2


def scores(of: TensorVariable, wrt: Sequence[Variable]) -> list[TensorVariable]:
    """Gradients of a log density; what its Ops lack is said in a sentence.

    Raises
    ------
    NoGradientError
        An Op of the graph has no gradient, or fails to make it.
    """
    try:
        return gradients(of, wrt)
    except Warning:  # an error by the user's own filters
        raise
    except Exception as error:  # an Op's own code makes its gradient, and may fail with anything
        raise NoGradientError(
            f"the log density of this model has no gradient ({first_line(error)}): give that Op "
            "one (L_op, pullback in PyTensor 3), write it in PyTensor's own functions, or use "
            "pm.sample, which has steps that need none"
        ) from error


def first_line(error: Exception) -> str:
    """An error's kind with the first line of its message, at most 200 characters."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}"[:200]
