"""Deterministic variational inference: base draws z fixed once, quasi-Newton on the parameters.

Objective (Gianniotis, eq. 6): (1/S) Σ_s [log p̃(T(z_s)) − log q(T(z_s))], any TransformGroup T.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize
from scipy.stats import norm, qmc

from pymc_ext.variational.core.base import (
    CHUNK,
    TRAIN,
    DeterministicInference,
    VectorisedApproximation,
    stream,
)
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult, FreshDraws

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
BASES = ("sobol", "iid")
OPTIMIZERS = ("lbfgs", "trust-krylov")
SOBOL_RATIO = 8  # draws per dimension from which whitened Sobol points beat random ones
TOLERANCE = 1e-5  # nats gained in one iteration below which the optimiser stops
GRADIENT_TOLERANCE = 1e-4  # nats per unit of the whitened parameters
GAP_TOLERANCE = 0.02  # nats by which train and fresh ELBO may always differ


def base_draws(draws: int, dim: int, kind: str, rng: np.random.Generator) -> Array:
    """Fixed z, shape (draws, dim).

    ``"sobol"``: scrambled Sobol points through the normal quantile, then (with more draws than
    dimensions) shifted, rotated and scaled to mean 0 and covariance I exactly, so that the
    objective is exact for a Gaussian target: no direction looks narrower than it is, which a free
    covariance would exploit. With fewer than eight draws a dimension random points take the place
    of Sobol's, whose kurtosis is then up to 0.5 too low. ``"iid"``: plain normal draws, as in the
    paper.
    """
    if not isinstance(draws, int | np.integer) or draws < 2:
        raise ValueError(f"draws must be an integer >= 2, got {draws!r}")
    if kind not in BASES:
        raise ValueError(f"base draws must be one of {BASES}, got {kind!r}")
    if kind == "iid":
        return rng.standard_normal((draws, dim))
    few = draws < SOBOL_RATIO * dim
    z = rng.standard_normal((draws, dim)) if few else _sobol_normals(draws, dim, rng)
    z -= z.mean(axis=0)
    if draws > dim:
        Q, R = np.linalg.qr(z)  # not by Cholesky: with few draws z.T @ z is nearly singular
        z = Q * np.sign(np.diag(R)) * np.sqrt(draws)
    return z


def _sobol_normals(draws: int, dim: int, rng: np.random.Generator) -> Array:
    sobol = qmc.Sobol(dim, scramble=True, bits=48, rng=rng)
    u = sobol.random_base2(int(np.ceil(np.log2(draws))))[:draws]
    return norm.ppf(np.clip(u, 1e-15, 1 - 1e-15))  # scrambling can give 0


@dataclass(frozen=True)
class Optimum:
    """Where an optimisation on fixed draws ended; ``losses`` are −ELBO from the start on."""

    elbo: float
    losses: Array
    converged: bool
    stop_reason: str
    iterations: int
    evaluations: int


class FixedDrawsObjective:
    """−ELBO on fixed draws with its gradient in the flat vector of all trainable parameters.

    Parameters
    ----------
    approx
        The approximation; its parameters are read and written.
    hessian_products
        Whether to compile products with the Hessian too, for ``trust-krylov``.
    """

    def __init__(self, approx: VectorisedApproximation, hessian_products: bool = False) -> None:
        approx.require_exact_logp()
        self.approx = approx
        self.params = approx.params
        self.evaluations = 0
        with approx.building():
            self._build(hessian_products)

    def _build(self, hessian_products: bool) -> None:
        z = self.approx.group.symbolic_initial
        theta, log_q, weight = self.approx.group.weighted_draws()
        loss = pt.sum(weight * (log_q - self.approx.vectorised_logp(theta)))
        gradient: Any = pt.grad(loss, self.params, disconnected_inputs="ignore")
        self._loss = self.approx.compile([z], [loss, *gradient])
        if hessian_products:
            direction = [p.type(f"d_{p.name}") for p in self.params]
            slope: Any = sum(pt.sum(g * d) for g, d in zip(gradient, direction, strict=True))
            product: Any = pt.grad(slope, self.params, disconnected_inputs="ignore")
            inputs = [z, *direction]
            self._product = self.approx.compile(inputs, product, on_unused_input="ignore")

    @property
    def x(self) -> Array:
        """All trainable parameters in one vector."""
        return np.concatenate([p.get_value().ravel() for p in self.params]).astype(float)

    @x.setter
    def x(self, x: Array) -> None:
        for p, value in zip(self.params, self._split(x), strict=True):
            p.set_value(value)

    def _split(self, x: Array) -> list[Array]:
        shapes = [p.get_value(borrow=True).shape for p in self.params]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
        parts = np.split(np.asarray(x, dtype=pytensor.config.floatX), ends)
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def value_and_gradient(self, x: Array, z: Array) -> tuple[float, Array]:
        """−ELBO on draws z (S, K) and its gradient, a chunk of draws at a time."""
        self.x = x
        self.evaluations += len(z)
        total: list[Any] = [0.0] * (1 + len(self.params))
        for i in range(0, len(z), CHUNK):
            total = [t + part for t, part in zip(total, self._loss(z[i : i + CHUNK]), strict=True)]
        gradient = np.concatenate([np.ravel(g) for g in total[1:]]) / len(z)
        return float(total[0]) / len(z), gradient.astype(float)

    def gradients(self, z: Array) -> dict[str, Array]:
        """Gradient of −ELBO at the present parameters, by name of the shared variable."""
        _, gradient = self.value_and_gradient(self.x, z)
        return {p.name: g for p, g in zip(self.params, self._split(gradient), strict=True)}

    def hessian_product(self, x: Array, direction: Array, z: Array) -> Array:
        """Hessian of −ELBO times ``direction``."""
        self.x = x
        self.evaluations += len(z)
        total: list[Any] = [0.0] * len(self.params)
        for i in range(0, len(z), CHUNK):
            parts = self._product(z[i : i + CHUNK], *self._split(direction))
            total = [t + part for t, part in zip(total, parts, strict=True)]
        return np.concatenate([np.ravel(g) for g in total]) / len(z)

    def maximise(self, z: Array, n: int, monitor: Monitor, optimizer: str = "lbfgs") -> Optimum:
        """Optimise the parameters on the draws z from where they are, at most n iterations."""
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {OPTIMIZERS}, got {optimizer!r}")
        x, before = self.x, self.evaluations
        start, slope = self.value_and_gradient(x, z)
        if not (np.isfinite(start) and np.all(np.isfinite(slope))):
            raise ValueError(
                f"the ELBO on the base draws is {-start} at the start, or its gradient not finite: "
                "q reaches points where the log density is not; pass another start or a narrower "
                "base"
            )

        def loss(x: Array) -> tuple[float, Array]:
            with np.errstate(all="ignore"):
                value, gradient = self.value_and_gradient(x, z)
            if np.isfinite(value) and np.all(np.isfinite(gradient)):
                return value, gradient
            return 1e100, np.zeros_like(gradient)  # a wall for the line search to back off from

        losses = [start]

        def report(intermediate_result: OptimizeResult) -> None:
            self.x = intermediate_result.x
            losses.append(float(intermediate_result.fun))
            monitor(float(intermediate_result.fun))

        arguments = self._scipy_arguments(z, n, optimizer, start)
        out = minimize(loss, x, jac=True, callback=report, **arguments)
        self.x = out.x
        return Optimum(
            elbo=-float(out.fun),
            losses=np.array(losses),
            converged=bool(out.success),
            stop_reason=str(out.message),
            iterations=int(out.nit),
            evaluations=self.evaluations - before,
        )

    def _scipy_arguments(self, z: Array, n: int, optimizer: str, start: float) -> dict[str, Any]:
        """Arguments of `scipy.optimize.minimize` for a loss that is ``start`` at first."""
        if optimizer == "trust-krylov":
            return {
                "method": "trust-krylov",
                "hessp": lambda x, d: self.hessian_product(x, d, z),
                "options": {"maxiter": n, "gtol": GRADIENT_TOLERANCE},
            }
        options = {
            "maxiter": n,
            "maxfun": 20 * n,
            "maxcor": 20,
            "ftol": TOLERANCE / max(abs(start), 1.0),
            "gtol": GRADIENT_TOLERANCE,
        }
        return {"method": "L-BFGS-B", "options": options}


def overfits(train_elbo: float, fresh: FreshDraws) -> bool:
    """Whether the training ELBO exceeds the fresh one by more than chance and ``GAP_TOLERANCE``."""
    gap = train_elbo - fresh.elbo
    return bool(gap > GAP_TOLERANCE + 3 * fresh.elbo_se)


class FixedDrawsInference(DeterministicInference):
    """Fit of any family on fixed draws: several starts, then more draws while it overfits.

    Parameters
    ----------
    approx
        The approximation to fit.
    draws, max_draws
        Number S of base draws at first, and at most: S is multiplied by four as long as the
        training ELBO exceeds the fresh one by more than chance.
    base_draws
        ``"sobol"`` or ``"iid"``, see :func:`base_draws`.
    optimizer
        ``"lbfgs"`` or ``"trust-krylov"``.
    random_seed
        Seeds base draws, starts and fresh draws.
    """

    def __init__(
        self,
        approx: VectorisedApproximation,
        *,
        draws: int = 1024,
        max_draws: int = 16_384,
        base_draws: str = "sobol",
        optimizer: str = "lbfgs",
        random_seed: int | None = None,
    ) -> None:
        check_engine_options(draws, max_draws, base_draws, optimizer)
        super().__init__(approx, random_seed=random_seed)
        self.draws, self.max_draws = draws, max_draws
        self.base_draws, self.optimizer = base_draws, optimizer
        self._objective: FixedDrawsObjective | None = None
        self._prepared = False
        self._notes: tuple[str, ...] = ()

    @abstractmethod
    def prepare(self, n: int, monitor: Monitor, objective: FixedDrawsObjective) -> list[Array]:
        """Place q before the first fit; returns parameter vectors to start from."""

    def prepared_evaluations(self) -> tuple[int, int]:
        """Density and gradient evaluations spent in :meth:`prepare` outside the objective."""
        return 0, 0

    def restart(self) -> None:
        super().restart()
        self._prepared = False

    def _base_draws(self, draws: int) -> Array:
        rng = stream(self.random_seed, TRAIN)
        z = base_draws(draws, self.approx.group.latent_dim, self.base_draws, rng)
        return z.astype(pytensor.config.floatX)

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        approx, compiled, begin = self.approx, self.approx.compile_seconds, time.perf_counter()
        if self._objective is None:
            self._objective = FixedDrawsObjective(approx, self.optimizer == "trust-krylov")
        objective = self._objective
        objective.evaluations = 0
        starts = [objective.x] if self._prepared else self.prepare(n, monitor, objective)
        self._prepared = True
        draws = self.draws
        optimum = self._best(starts, self._base_draws(draws), n, monitor)
        fresh = self.fresh_draws()
        while overfits(optimum.elbo, fresh) and 4 * draws <= self.max_draws:
            draws *= 4
            logger.info("training ELBO %.4f, fresh %.4f: %d draws", optimum.elbo, fresh.elbo, draws)
            optimum = self._best(
                starts, self._base_draws(draws), n, monitor
            )  # not from the overfit
            fresh = self.fresh_draws()
        notes = self._notes
        if overfits(optimum.elbo, fresh):
            notes += (
                f"the training ELBO {optimum.elbo:.4g} exceeds the fresh one {fresh.elbo:.4g} with "
                f"{draws} draws: raise max_draws or use a smaller family",
            )
            fresh, taken_back = self._take_back(starts, fresh)
            notes += taken_back
        monitor.keep(optimum.losses)
        extra = self.prepared_evaluations()
        compile_seconds = approx.compile_seconds - compiled
        return FitResult(
            method=self.name,
            converged=optimum.converged,
            stop_reason=optimum.stop_reason,
            iterations=len(monitor.losses),
            seconds=time.perf_counter() - begin - compile_seconds,
            compile_seconds=compile_seconds,
            density_evaluations=objective.evaluations + extra[0],
            gradient_evaluations=objective.evaluations + extra[1],
            random_seed=self.random_seed,
            train_elbo=optimum.elbo,
            train_draws=draws,
            fresh=fresh,
            notes=notes,
        )

    def _take_back(
        self, starts: list[Array], fresh: FreshDraws
    ) -> tuple[FreshDraws, tuple[str, ...]]:
        """The start with the highest fresh ELBO where an overfitted optimum is below it."""
        assert self._objective is not None
        best = self._objective.x
        notes: tuple[str, ...] = ()
        for x in starts:
            self._objective.x = x
            start = self.fresh_draws()
            if start.elbo > fresh.elbo:
                best, fresh = x, start
                notes = ("its fresh ELBO is below that of the start, which was kept instead",)
        self._objective.x = best
        return fresh, notes

    def _best(self, starts: list[Array], z: Array, n: int, monitor: Monitor) -> Optimum:
        """The best optimum over the starts, with the parameters left there."""
        assert self._objective is not None
        ends = []
        for x in starts:
            self._objective.x = x
            optimum = self._objective.maximise(z, n, monitor, self.optimizer)
            ends.append((optimum, self._objective.x))
        optimum, self._objective.x = max(ends, key=lambda end: end[0].elbo)
        return optimum


def check_engine_options(draws: int, max_draws: int, base_draws: str, optimizer: str) -> None:
    """Raise ValueError for options that :class:`FixedDrawsInference` cannot work with."""
    if not isinstance(draws, int | np.integer) or draws < 2:
        raise ValueError(f"draws must be an integer >= 2, got {draws!r}")
    if not isinstance(max_draws, int | np.integer) or max_draws < draws:
        raise ValueError(
            f"max_draws must be an integer of at least draws = {draws}, got {max_draws!r}"
        )
    if base_draws not in BASES:
        raise ValueError(f"base_draws must be one of {BASES}, got {base_draws!r}")
    if optimizer not in OPTIMIZERS:
        raise ValueError(f"optimizer must be one of {OPTIMIZERS}, got {optimizer!r}")
