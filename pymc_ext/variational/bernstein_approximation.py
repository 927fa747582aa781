"""The approximation that :class:`BernsteinVI` returns: log q also at points it has not drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor import TensorVariable
from scipy.optimize.elementwise import bracket_root, find_root

from pymc_ext.maths import bernstein_numpy as kernel
from pymc_ext.over_draws import checked
from pymc_ext.variational.base import (
    CHUNK,
    VectorisedApproximation,
    resolve_compile_kwargs,
    standard_normal_logp,
)
from pymc_ext.variational.bernstein_group import BernsteinGroup, Conditionals
from pymc_ext.variational.flow_loops import jax_of_rows
from pymc_ext.variational.importance_weighted import Stage

Array = NDArray[np.floating]
INTERPRETED = pytensor.compile.mode.Mode(linker="py", optimizer="None")
UNINTERPRETED = (NotImplementedError, MethodNotDefined)  # an operation with C code alone


class BernsteinApproximation(VectorisedApproximation):
    """q of one :class:`BernsteinGroup`; ``stages`` holds what each training phase reached."""

    stages: tuple[Stage, ...] = ()
    loop = "pytensor"

    def __init__(self, **options: Any) -> None:
        super().__init__(BernsteinGroup, **options)

    def use_compile_options(
        self, loop: str, backend: str | None, compile_kwargs: Mapping[str, Any] | None
    ) -> None:
        """Options of all later compilations; with the loop "jax", log ratios are JAX's too."""
        self.loop, self.compile_kwargs = loop, resolve_compile_kwargs(backend, compile_kwargs)

    def log_p_at_start(self) -> float:
        """log p̃ where the fit starts."""
        start = self.group.start
        if not self.compile_kwargs:  # one interpreted value is free, its compilation is not
            with self.building(), np.errstate(all="ignore"), contextlib.suppress(*UNINTERPRETED):
                (log_p,) = checked([self.flat_logp()], self.model.check_bounds)
                f = pytensor.function([self.group.input], log_p, mode=INTERPRETED)
                if np.isfinite(value := float(f(start))):
                    return value
        return float(self.log_p(start[None, :])[0])

    def symbolic_log_ratio(self, z: TensorVariable) -> TensorVariable:
        """log p̃ − log q of the draws made from normals z, (S, K) -> (S,)."""
        theta, log_det = self.group.transform(z)  # log_det is log N(z) − log q
        return self.vectorised_logp(theta) - standard_normal_logp(z) + log_det

    def log_ratios(self, z: Array) -> Array:
        """log p̃ − log q of the draws made from normals z (N, K)."""
        self.require_exact_logp()

        def build() -> Callable[..., Any]:
            jax = self.loop == "jax"
            normals = pt.matrix("z", shape=(CHUNK if jax else None, self.group.latent_dim))
            ratio = self.symbolic_log_ratio(normals)
            return jax_of_rows(normals, ratio) if jax else self.compile([normals], [ratio])

        return self._chunked(self._function("log_ratios", build), z)[0]

    def log_q(self, theta: Array) -> Array:
        """Normalised log q at any θ, (N, D) -> (N,), by inverting the flow; −∞ off its support."""
        rows = self._theta_rows(theta)
        if np.isnan(rows).any():
            raise ValueError("theta must not hold NaN: log q is not defined there")
        x, inside = self._invert(self.group.to_coordinates(rows))
        log_q = np.full(len(rows), -np.inf)
        if inside.any():
            log_q[inside] = self._chunked(self._function("log_q_at", self._log_q_at), x[inside])[0]
        return log_q

    def _log_q_at(self) -> Callable[..., Any]:
        x, group = pt.matrix("x", shape=(None, self.group.ddim)), self.group
        v, log_dx = group.latent_input(x)
        _, log_dy = group.flow(x)
        log_q = group.law.log_density(v).sum(-1) - log_dx - log_dy - group.log_det_base()
        return self.compile([x], [log_q])

    def _invert(self, y: Array) -> tuple[Array, NDArray[np.bool_]]:
        """x with flow(x) = y, one component after the other; and where it exists."""

        def build() -> Callable[..., Any]:
            x = pt.matrix("x", shape=(None, self.group.ddim))
            return self.compile([x], self.group.conditionals(x).present())

        f = self._function("conditionals", build)
        x, inside = np.zeros_like(y), np.ones(len(y), dtype=bool)
        for j in range(y.shape[1]):
            given = Conditionals(*(part[:, j] for part in self._chunked(f, x)))
            x[:, j], found = _solve(y[:, j], given)
            inside &= found
        return x, inside & self.group.on_support(x)


def _solve(y: Array, given: Conditionals) -> tuple[Array, NDArray[np.bool_]]:
    """Roots of shift + scale (offset + polynomial(x) + tails(x)) = y, and where there is one."""
    rows = np.arange(len(y))
    height = (y - given.shift) * np.exp(-given.log_scale) - given.offset
    everywhere = given.left is not None

    def distance(x: Array, i: Array) -> Array:
        i, shape = np.broadcast_to(i, x.shape).astype(int).ravel(), x.shape
        x = x.ravel()
        out = kernel.bernstein(x, given.raw[i])[0] - height[i]
        if everywhere:
            left, right = np.logaddexp(0, -x), np.logaddexp(0, x)
            out += given.right[i] * right - given.left[i] * left
        if given.left_bend is not None:
            out += 0.5 * (given.right_bend[i] * right**2 - given.left_bend[i] * left**2)
        return out.reshape(shape)

    total = kernel.softplus_and_slope(given.raw)[0].sum(axis=1)
    found = np.ones(len(y), dtype=bool) if everywhere else (height > 0) & (height < total)
    x = np.zeros(len(y))
    if found.any():
        keep = rows[found]
        bracket = bracket_root(distance, -np.ones(len(keep)), np.ones(len(keep)), args=(keep,))
        root = find_root(distance, bracket.bracket, args=(keep,), tolerances={"xatol": 1e-13})
        x[found] = np.where(root.success, root.x, 0.0)
        found[found] = root.success
    return x, found
