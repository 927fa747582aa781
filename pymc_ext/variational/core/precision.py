r"""How well weighted draws know each mean and each sd: Monte Carlo errors, and k̂ of their own.

With weights w_n ∝ p̃/q that sum to 1, mean m and sd s of a coordinate x,

.. math:: \mathrm{se}(m)/s = \Big[\sum_n w_n^2 (x_n - m)^2\Big]^{1/2} / s, \qquad
          \mathrm{se}(s)/s = \Big[\sum_n w_n^2 ((x_n - m)^2 - s^2)^2\Big]^{1/2} / 2 s^2

by the delta method. They mean something where h p̃/q has a variance that the draws show, h = x − m
and (x − m)²: k̂ of that tail, not of the weights alone, says so. Weights of k̂ .5 may leave an sd
without any known error, where p has the heavier tail. As with k̂ of the weights, it does not matter
where these hardly differ: where Σ w h² / (N Σ w² h²), h less its mean, is near 1.

Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, JMLR 25(72),
arXiv:1507.02646, section 2.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.maths.psis import tail_khat
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.weights import ESS_SHARE_ENOUGH

__all__ = ["Precision", "weighted_precision"]

SLICE = 2**22  # numbers handled at once, 32 MB an array


@dataclass(frozen=True)
class Precision:
    """Of K quantities.

    Parameters
    ----------
    mean_error, sd_error
        Standard errors of mean and sd, in sds, (K,).
    mean_khat, sd_khat
        k̂ of |x − m| p̃/q and of (x − m)² p̃/q, (K,); −∞ where it does not matter.
    mean, sd
        By the weights, (K,).
    """

    mean_error: Array
    sd_error: Array
    mean_khat: Array
    sd_khat: Array
    mean: Array
    sd: Array

    def doubt(self, names: list[str], khat: float, ess: float) -> str | None:
        """What is not known well enough, in words: the worst of all quantities; None where all are.

        Parameters
        ----------
        names
            Of the quantities.
        khat
            From which on an error is not known.
        ess
            As many independent draws are to be worth no more: a mean, and an sd, may be off by
            1/√ess of an sd.
        """
        for what, shapes in (("mean", self.mean_khat), ("sd", self.sd_khat)):
            worst = int(np.argmax(shapes))
            if not shapes[worst] < khat:
                its = f"k̂ of its own = {shapes[worst]:.2f} >= {khat:g}"
                if not np.isfinite(shapes[worst]):
                    its = "too few of its draws have a weight for a k̂ of its own"
                return f"the {what} of {names[worst]} is not known: {its}"
        limit = 1 / np.sqrt(ess)
        for what, errors in (("mean", self.mean_error), ("sd", self.sd_error)):
            worst = int(np.argmax(errors))
            if np.isnan(errors[worst]):
                why = "its draws run off, or do not vary"
                return f"the {what} of {names[worst]} is not known: {why}"
            if not errors[worst] <= limit:
                return (
                    f"the {what} of {names[worst]} has a Monte Carlo error of "
                    f"{errors[worst]:.3g} sds, above {limit:.2g}"
                )
        return None

    def check(self, names: list[str], khat: float, ess: float, exact: bool = False) -> Check:
        """The same as a check: by the k̂ that is named where one is too large, else by the errors;
        nothing fails where q is p."""
        name, limit = "means and sds", float(1 / np.sqrt(ess))
        if exact:
            return Check(name, True, "those of independent draws of p", 0.0, limit)
        doubt = self.doubt(names, khat, ess)
        for shapes in (self.mean_khat, self.sd_khat):  # as words name the mean first
            if not np.max(shapes) < khat:
                return Check(name, False, doubt or "", float(np.max(shapes)), khat)
        worst = float(np.max([self.mean_error, self.sd_error]))
        found = doubt or f"Monte Carlo errors of at most {worst:.2g} sds"
        return Check(name, doubt is None, found, worst, limit)


def weighted_precision(theta: Array, log_ratios: Array, weights: Array) -> Precision:
    """Of each coordinate of weighted draws.

    Parameters
    ----------
    theta
        Draws of q, (N, D).
    log_ratios
        log p̃ − log q, (N,).
    weights
        Smoothed, summing to 1, (N,).

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_normal((10_000, 1))
    >>> found = weighted_precision(x, np.zeros(10_000), np.full(10_000, 1e-4))
    >>> found.mean_error.round(3), found.sd_error.round(3)  # 1/√N and 1/√2N
    (array([0.01]), array([0.007]))
    """
    step = max(1, SLICE // len(theta))
    parts = [
        _of_columns(theta[:, first : first + step], log_ratios, weights)
        for first in range(0, theta.shape[1], step)
    ]
    return Precision(*(np.concatenate(column) for column in zip(*parts, strict=True)))


@np.errstate(all="ignore")  # of a constant; of a weighty draw beyond numbers neither is finite
def _of_columns(x: Array, log_ratios: Array, weights: Array) -> tuple[Array, ...]:
    """Means and sds, their errors, and k̂ of both, of each column of x (N, K)."""
    if not weights.all():  # a draw that p̃ rules out may be as far as numbers go
        x = np.where(weights[:, None] > 0, x, 0.0)
    mean = weights @ x
    apart = x - mean
    square = apart**2
    variance = weights @ square
    sd, found = np.sqrt(variance), list[Array]()
    for h, power, unit in ((apart, 1, sd), (square - variance, 2, 2 * variance)):
        error = np.sqrt(weights**2 @ h**2) / unit
        share = weights @ h**2 / len(x) / (error * unit) ** 2  # as if all weights were equal
        khat = np.full(x.shape[1], -np.inf)
        matters = ~(share > ESS_SHARE_ENOUGH)
        log_h = power * np.log(np.abs(apart[:, matters])).T
        khat[matters] = tail_khat(log_ratios + log_h)
        found += [error, khat]
    mean_error, mean_khat, sd_error, sd_khat = found
    return mean_error, sd_error, mean_khat, sd_khat, mean, sd
