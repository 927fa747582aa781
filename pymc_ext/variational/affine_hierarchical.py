"""Gaussian q over all variables of a model whose logits are affine in β given scales s.

θ = (s, β) has q = N(center + B m, B A AᵀBᵀ), A lower triangular with s first, B fixed. At each
fixed Sobol draw of s, q(β | s) is Gaussian, so the likelihood and the (quadratic) log prior of β
are integrated in closed form; only s is averaged over draws. The result is a deterministic
objective for L-BFGS in (m, A).

With δ_j the columns of the root of Cov(β | s): τ_i² = Σ_j (f_i(β̄ + δ_j) − f_i(β̄))² for affine f,
and E log p = log p(β̄) + ½ Σ_j [log p(β̄ + δ_j) + log p(β̄ − δ_j) − 2 log p(β̄)] for quadratic log p.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.gradient import grad
from pytensor.tensor import TensorVariable

from pymc_ext.variational.affine import LogisticTerm
from pymc_ext.variational.base import LOG_2PI, VectorisedApproximation

Array = NDArray[np.floating]
ELEMENTS = 2_000_000  # logits evaluated together: bounds memory
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
    def lower(self) -> Any:
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
        base, shifts, log_det = self._rows(x, eps)
        logits = approx.to_flat_input([term.logit for term in terms])
        total = self._log_prior(approx, base, shifts)
        for values, term in zip(self._shifted(approx, logits, base, shifts), terms, strict=True):
            theta = values[:, 0]
            tau = pt.sqrt(pt.sum((values[:, 1:] - theta[:, None]) ** 2, axis=1) + TINY)
            N, y = term.trials, term.observed
            constant = pt.gammaln(N + 1) - pt.gammaln(y + 1) - pt.gammaln(N - y + 1)
            point = y * theta - N * softplus(theta, tau) + constant
            total += term.weight * pt.sum(point, axis=1)
        entropy = log_det + 0.5 * len(layout.center) * (1 + LOG_2PI)
        loss = -pt.sum(total + entropy)
        self._f = approx.compile([x, eps], [loss, grad(loss, x)])
        self._rows_per_draw = 2 * len(layout.linear) + 1

    def _rows(self, x, eps):
        """Draws (s, E[β|s]) (S, D) in θ's order, shifts (p, D) by the root of Cov(β|s), log|BA|."""
        layout, D, d = self.layout, len(self.layout.center), len(self.layout.given)
        A = pt.diag(pt.exp(x[D : 2 * D]))
        if not layout.diagonal:
            A = pt.set_subtensor(A[layout.lower], x[2 * D :])
        root = pt.as_tensor(layout.root) @ A
        rows = layout.center[layout.order] + pt.as_tensor(layout.root) @ x[:D] + eps @ root[:, :d].T
        inverse = np.argsort(layout.order)
        log_det = pt.sum(x[D : 2 * D]) + np.linalg.slogdet(layout.root)[1]
        return rows[:, inverse], root[:, d:].T[:, inverse], log_det

    def _shifted(self, approx, logits, base, shifts):
        """Logits at β̄ and at β̄ + δ_j: (S, 1 + p, n) each."""
        steps = pt.concatenate([pt.zeros_like(shifts[:1]), shifts])
        rows = base[:, None, :] + steps[None]
        flat = rows.reshape((-1, len(self.layout.center)))
        return [
            v.reshape((rows.shape[0], rows.shape[1], -1)) for v in approx.over_draws(logits, flat)
        ]

    def _log_prior(self, approx, base, shifts):
        p = len(self.layout.linear)
        (logp,) = approx.to_flat_input([approx.model.varlogp])
        steps = pt.concatenate([pt.zeros_like(shifts[:1]), shifts, -shifts])
        rows = (base[:, None, :] + steps[None]).reshape((-1, len(self.layout.center)))
        values = approx.over_draws([logp], rows)[0].reshape((-1, 2 * p + 1))
        return values[:, 0] + 0.5 * pt.sum(values[:, 1:] - values[:, :1], axis=1)

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
