"""Gaussian q over all variables of a model whose logits are affine in β given scales s.

θ = (s, β) has q = N(center + B m, B A AᵀBᵀ), A lower triangular with s first, B fixed. At each
fixed Sobol draw of s, q(β | s) is Gaussian, so the likelihood and the (quadratic) log prior of β
are integrated in closed form; only s is averaged over draws. The result is a deterministic
objective for L-BFGS in (m, A).

With δ_j the columns of the root of Cov(β | s): τ_i² = Σ_j (f_i(β̄ + δ_j) − f_i(β̄))² for affine f,
and E log p = log p(β̄) + ½ Σ_j [log p(β̄ + δ_j) + log p(β̄ − δ_j) − 2 log p(β̄)] for quadratic log p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.tensor import TensorVariable
from scipy.optimize import OptimizeResult, minimize

from pymc_ext.maths.normal import LOG_2PI
from pymc_ext.maths.walled import Loss, walled
from pymc_ext.over_draws import over_draws
from pymc_ext.typed_graphs import gradients, replaced
from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.logistic.affine import AffineSplit, LogisticTerm

Array = NDArray[np.floating]
Positions = NDArray[np.integer]
ELEMENTS = 2_000_000  # logits evaluated together: bounds memory
FIRST_SCALE = 0.3  # sd of s at the start: a factor 1.35 on a log scale
TINY = 1e-300  # keeps √τ² differentiable at rows that do not move; 1e-150 is invisible in η


@dataclass(frozen=True)
class Layout:
    """Positions of s (``given``) and β (``linear``) in the flat θ, and the base center and B."""

    given: Array
    linear: Array
    center: Array
    root: Array
    diagonal: bool

    @property
    def order(self) -> Array:
        """θ[order] = (s, β)."""
        return np.concatenate([self.given, self.linear]).astype(int)

    @property
    def lower(self) -> tuple[Positions, ...]:
        """Positions of the free entries of A below the diagonal."""
        D = len(self.center)
        return np.tril_indices(D, -1) if not self.diagonal else (np.zeros(0, int),) * 2

    def unpack(self, x: Array) -> tuple[Array, Array]:
        """Mean (D,) and root (D, D) of q in θ's own order, from the parameter vector."""
        D = len(self.center)
        A = np.diag(np.exp(x[D : 2 * D]))
        A[self.lower] = x[2 * D :]
        mean, root = np.empty(D), np.empty((D, D))
        mean[self.order] = self.center[self.order] + self.root @ x[:D]
        root[self.order] = self.root @ A
        return mean, root

    def start(self) -> Array:
        """The parameter vector of N(center, B Bᵀ)."""
        return np.zeros(2 * len(self.center) + len(self.lower[0]))


class HierarchicalObjective:
    """−ELBO and its gradient in the parameter vector, averaged over given draws of s.

    Parameters
    ----------
    approx
        The approximation whose model and flat θ are used.
    terms
        Logistic likelihoods.
    layout
        Which entries of θ are integrated in closed form.
    softplus
        (ϑ, τ) -> expected softplus, symbolic.
    """

    def __init__(
        self,
        approx: VectorisedApproximation,
        terms: list[LogisticTerm],
        layout: Layout,
        softplus: Callable[[TensorVariable, TensorVariable], TensorVariable],
    ) -> None:
        self.layout, self.evaluations = layout, 0
        x, eps = pt.dvector("x"), pt.matrix("eps", shape=(None, len(layout.given)))
        s, beta, shifts, log_det = self._rows(x, eps)
        zero = pt.zeros_like(shifts[:1])
        (prior,) = self._evaluate(
            approx, [approx.model.varlogp], s, beta, pt.concatenate([zero, shifts, -shifts])
        )
        total = prior[:, 0] + 0.5 * pt.sum(prior[:, 1:] - prior[:, 0, None], axis=1)
        logits = [term.logit for term in terms]
        every = self._evaluate(approx, logits, s, beta, pt.concatenate([zero, shifts]))
        for values, term in zip(every, terms, strict=True):
            theta = values[:, 0]
            tau = pt.sqrt(pt.sum((values[:, 1:] - theta[:, None, :]) ** 2, axis=1) + TINY)
            N, y = term.trials, term.observed
            constant = pt.gammaln(N + 1) - pt.gammaln(y + 1) - pt.gammaln(N - y + 1)
            point = y * theta - N * softplus(theta, tau) + constant
            total += term.weight * pt.sum(point, axis=1)
        entropy = log_det + 0.5 * len(layout.center) * (1 + LOG_2PI)
        loss = -pt.sum(total + entropy)
        self._f = approx.compile([x, eps], [loss, *gradients(loss, [x])])
        self._rows_per_draw = 2 * len(layout.linear) + 1

    def _rows(self, x: TensorVariable, eps: TensorVariable) -> tuple[TensorVariable, ...]:
        """s (S, d), E[β | s] (S, p), columns of the root of Cov(β | s) as rows (p, p), log|BA|."""
        layout, D, d = self.layout, len(self.layout.center), len(self.layout.given)
        A = pt.diag(pt.exp(x[D : 2 * D]))
        if not layout.diagonal:
            A = pt.set_subtensor(A[layout.lower], x[2 * D :])
        root = pt.as_tensor(layout.root) @ A
        rows = layout.center[layout.order] + pt.as_tensor(layout.root) @ x[:D] + eps @ root[:, :d].T
        log_det = pt.sum(x[D : 2 * D]) + np.linalg.slogdet(layout.root)[1]
        return rows[:, :d], rows[:, d:], root[d:, d:].T, log_det

    def _evaluate(
        self,
        approx: VectorisedApproximation,
        nodes: Sequence[TensorVariable],
        s: TensorVariable,
        beta: TensorVariable,
        steps: TensorVariable,
    ) -> list[TensorVariable]:
        """Graphs at (s_i, β_i + step_j), each (S, steps, ...).

        Vectorised over β first: what depends on s alone (a kernel's Cholesky factor) is computed
        once a draw, not once a step.
        """
        one_s, one_beta = pt.dvector("s"), pt.dvector("beta")
        many = pt.dmatrix("betas")
        pieces = self._pieces(approx, one_s, one_beta)
        nodes = replaced(nodes, pieces)
        check = approx.model.check_bounds
        over_steps = over_draws(nodes, {one_beta: many}, steps.shape[0], check)
        points = beta[:, None, :] + steps[None]
        return over_draws(over_steps, {one_s: s, many: points}, s.shape[0], check)

    def _pieces(
        self, approx: VectorisedApproximation, s: TensorVariable, beta: TensorVariable
    ) -> dict[TensorVariable, TensorVariable]:
        """The model's value variables as parts of s and β."""
        position = {int(i): (s, k) for k, i in enumerate(self.layout.given)}
        position |= {int(i): (beta, k) for k, i in enumerate(self.layout.linear)}
        pieces = {}
        for value in approx.model.value_vars:
            _, where, shape, dtype = approx.group.ordering[value.name]
            source, first = position[range(self.layout.center.size)[where][0]]
            size = int(np.prod(shape))
            piece = source[first : first + size].reshape(shape).astype(dtype)
            pieces[value] = pt.specify_shape(piece, shape)
        return pieces

    def __call__(self, x: Array, eps: Array, observations: int) -> tuple[float, Array]:
        """−ELBO and gradient, averaged over the rows of ``eps``."""
        self.evaluations += 1
        per_draw = self._rows_per_draw * max(observations, 1)
        chunk = max(1, ELEMENTS // per_draw)
        value, gradient = 0.0, np.zeros_like(x)
        for i in range(0, len(eps), chunk):
            part, slope = self._f(x, eps[i : i + chunk])
            value, gradient = value + float(part), gradient + slope
        return value / len(eps), gradient / len(eps)


def layout_of(approx: VectorisedApproximation, split: AffineSplit, diagonal: bool) -> Layout:
    """Base of the whitened coordinates: N(start, FIRST_SCALE²) for s, prior-free for β."""
    group, model = approx.group, approx.model
    position = {name: where for name, where, *_ in group.ordering.values()}
    every = np.arange(group.ddim)

    def indices(rvs: Sequence[TensorVariable]) -> Array:
        return np.concatenate([every[position[model.rvs_to_values[rv].name]] for rv in rvs])

    given, linear = indices(split.given), indices(split.linear)
    scale = np.ones(group.ddim)
    scale[: len(given)] = FIRST_SCALE
    return Layout(given, linear, group.start, np.diag(scale), diagonal)


def minimise(
    loss: Loss, x: Array, n: int, report: Callable[[Array, float], None]
) -> OptimizeResult:
    """L-BFGS from x (P,), at most ``n`` iterations; ``report(x, loss)`` after each."""
    first, _ = loss(x)
    if not np.isfinite(first):
        raise ValueError(
            f"the ELBO at the start is {-first}: the predictors contain NaN or infinite values, a "
            "prior is not proper, or start lies outside the support"
        )

    def after(intermediate_result: OptimizeResult) -> None:
        report(intermediate_result.x, float(intermediate_result.fun))

    options = {"maxiter": n, "maxfun": 3 * n, "ftol": 1e-13, "gtol": 1e-5, "maxcor": 30}
    return minimize(walled(loss), x, jac=True, method="L-BFGS-B", callback=after, options=options)
