"""Gaussian q over all variables of a model whose logits are affine in β given scales s.

θ = (s, β) has q = N(center + C m, C A AᵀCᵀ), A lower triangular with s first, C fixed. At each
fixed Sobol draw of s, q(β | s) is Gaussian, so the likelihood and the (quadratic) log prior of β
are integrated in closed form; only s is averaged over draws. The result is a deterministic
objective for L-BFGS in (m, A).

With δ_j the columns of the root of Cov(β | s): τ_i² = Σ_j (f_i(β̄ + δ_j) − f_i(β̄))² for affine f,
and E log p = log p(β̄) + ½ Σ_j [log p(β̄ + δ_j) + log p(β̄ − δ_j) − 2 log p(β̄)] for quadratic log p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable
from scipy.optimize import OptimizeResult, minimize

from pymc_ext.density.layout import layout_of, pieces
from pymc_ext.maths.normal import LOG_2PI
from pymc_ext.maths.types import Array
from pymc_ext.maths.walled import Loss, walled
from pymc_ext.over_draws import over_draws
from pymc_ext.typed_graphs import gradients, replaced
from pymc_ext.variational.gaussian.noise import Scales, Triangle
from pymc_ext.variational.gaussian.whitened import WhitenedGaussian
from pymc_ext.variational.logistic.density import LogisticDensity

if TYPE_CHECKING:
    from pytensor.compile import Function

ELEMENTS = 2_000_000  # logits evaluated together: bounds memory
FIRST_SCALE = 0.3  # sd of s at the start: a factor 1.35 on a log scale
TINY = 1e-300  # keeps √τ² differentiable at rows that do not move; 1e-150 is invisible in η


def first_family(density: LogisticDensity, start: Array, full: bool) -> WhitenedGaussian:
    """N(start, I) with sds FIRST_SCALE of s, moved by (m, A) in the order (s, β)."""
    D, C = len(start), np.zeros((len(start), len(start)))
    scale = np.where(np.arange(D) < len(density.given), FIRST_SCALE, 1.0)
    C[np.concatenate([density.given, density.linear]), np.arange(D)] = scale
    family = WhitenedGaussian(Triangle(D) if full else Scales(D), start)
    family.set_base(start, C, C.T / scale[:, None] ** 2)
    return family


def conditional(
    density: LogisticDensity,
    softplus: Callable[[TensorVariable, TensorVariable], TensorVariable],
) -> Function:
    """s (S, d), β̄ (S, p), δ (p, p) -> Σ_s E[log p̃ | s] under N(β̄_s, Σ_j δ_j δ_jᵀ), and gradients.

    ``softplus`` is the graph of the expected softplus in ϑ and τ.
    """
    s, beta, shifts = inputs = pt.dmatrices("s", "beta", "shifts")
    zero, terms = pt.zeros_like(shifts[:1]), density.split.terms
    (prior,) = _at_steps(
        density, [density.model.varlogp], s, beta, pt.concatenate([zero, shifts, -shifts])
    )
    total = prior[:, 0] + 0.5 * pt.sum(prior[:, 1:] - prior[:, 0, None], axis=1)
    logits = [term.logit for term in terms]
    every = _at_steps(density, logits, s, beta, pt.concatenate([zero, shifts]))
    for values, term in zip(every, terms, strict=True):
        theta = values[:, 0]
        tau = pt.sqrt(pt.sum((values[:, 1:] - theta[:, None, :]) ** 2, axis=1) + TINY)
        N, y = term.trials, term.observed
        constant = pt.gammaln(N + 1) - pt.gammaln(y + 1) - pt.gammaln(N - y + 1)
        point = y * theta - N * softplus(theta, tau) + constant
        total += term.weight * pt.sum(point, axis=1)
    value = pt.sum(total)
    return density.compile(inputs, [value, *gradients(value, inputs)])


def _at_steps(
    density: LogisticDensity,
    nodes: Sequence[TensorVariable],
    s: TensorVariable,
    beta: TensorVariable,
    steps: TensorVariable,
) -> list[TensorVariable]:
    """Graphs at (s_i, β_i + step_j), each (S, steps, ...).

    Vectorised over β first: what depends on s alone (a kernel's Cholesky factor) is computed once a
    draw, not once a step.
    """
    model, split = density.model, density.split
    one_s, one_beta, many = pt.dvector("s"), pt.dvector("beta"), pt.dmatrix("betas")
    values = pieces(model, layout_of(model, split.given), one_s)
    values |= pieces(model, layout_of(model, split.linear), one_beta)
    nodes, check = replaced(nodes, values), model.check_bounds
    over_steps = over_draws(nodes, {one_beta: many}, steps.shape[0], check)
    points = beta[:, None, :] + steps[None]
    return over_draws(over_steps, {one_s: s, many: points}, s.shape[0], check)


class AveragedElbo:
    """−ELBO and its gradient in x of ``family``, averaged over the draws of s from ``eps`` (S, d).

    ``expected`` is the density's :func:`conditional`.
    """

    def __init__(
        self, density: LogisticDensity, expected: Function, family: WhitenedGaussian, eps: Array
    ) -> None:
        self.expected, self.family, self.evaluations = expected, family, 0
        self.given, self.linear = density.given, density.linear
        (S, d), p = eps.shape, len(self.linear)
        # rows: one for each draw of s with E[β | s], one for each column of the root, the mean
        self.z = np.zeros((S + p + 1, d + p))
        self.z[:S, :d], self.z[S:-1, d:] = eps, np.eye(p)
        logits = (2 * p + 1) * max(len(density.data().y), 1)
        self.draws, self.chunk = S, max(1, ELEMENTS // logits)

    def __call__(self, x: Array) -> tuple[float, Array]:
        S, given, linear = self.draws, self.given, self.linear
        self.family.x = x
        self.evaluations += 1
        theta, _ = self.family.draws(self.z)
        shifts = theta[S:-1, linear] - theta[-1, linear]
        value, scores = 0.0, np.zeros_like(theta)
        for i in range(0, S, self.chunk):
            rows = np.arange(i, min(i + self.chunk, S))
            part, by_s, by_beta, by_shifts = self.expected(
                theta[np.ix_(rows, given)], theta[np.ix_(rows, linear)], shifts
            )
            value += float(part)
            scores[np.ix_(rows, given)], scores[np.ix_(rows, linear)] = by_s, by_beta
            scores[S:-1, linear] += by_shifts
        scores[-1] = -scores[S:-1].sum(axis=0)
        entropy = self.family.log_det() + 0.5 * theta.shape[1] * (1 + LOG_2PI)
        gradient = self.family.pullback(self.z, scores) / S + self.family.log_det_gradient()
        return -(value / S + entropy), -gradient


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
