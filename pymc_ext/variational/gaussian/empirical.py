r"""Hyperparameters as point values that maximise the Laplace estimate of the log evidence.

.. math:: F(x) = \log\tilde p(\theta^*(x), x) + \tfrac12 \log|2\pi(-H)^{-1}|

Derivation of ∇F, with f = log p̃, g = ∇_θ f, G(θ, x) = −½ log|−H(θ, x)| and θ* = θ*(x):
1. g(θ*, x) = 0, so df(θ*, x)/dx = ∂f/∂x, and dθ*/dx = (−H)⁻¹ ∂g/∂x.
2. dG/dx = ∂G/∂x + (∂G/∂θ) dθ*/dx = ∂G/∂x + ∂(gᵀw)/∂x with w = (−H)⁻¹ ∂G/∂θ held fixed.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from scipy.optimize import minimize

from pymc_ext.density.model import PyMCDensity
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.maths.types import Array
from pymc_ext.maths.walled import walled
from pymc_ext.over_draws import over_draws
from pymc_ext.typed_graphs import gradients
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.gaussian.modes import LaplaceFit, LaplaceSearch

TOLERANCE = 1e-8  # relative change of F at which the search stops


class LaplaceEvidence:
    """F(x) and ∇F(x) for the point values x of the hyperparameters."""

    def __init__(self, search: LaplaceSearch) -> None:
        self.search, self.density = search, search.density
        self.fit: LaplaceFit | None = None
        with self.density.clock.compiling():
            model = self.density.density
            assert isinstance(model, PyMCDensity), "hyperparameters are a PyMC model's"
            self._build(model)

    def _build(self, density: PyMCDensity) -> None:
        theta, f, (point, *_) = density.theta, density.logp, density.extras
        (g,) = gradients(f, [theta])
        direction = pt.vector("direction", shape=(density.dimension,))
        (product,) = gradients(pt.dot(g, direction), [theta])
        eye = pt.eye(density.dimension)
        check = density.model.check_bounds
        H = over_draws([product], {direction: eye}, density.dimension, check)[0]
        G = -0.5 * pt.linalg.slogdet(-H)[1]
        self._slopes = density.compile(
            [theta], gradients(f, [point]) + gradients(G, [theta, point])
        )
        mixed = gradients(pt.dot(g, direction), [point])
        self._mixed = density.compile([theta, direction], mixed[0])

    def value_and_gradient(self, x: Array, max_iterations: int) -> tuple[float, Array]:
        """F and ∇F at x, from the mode reached from the last one."""
        self.density.extra = x
        starts = None if self.fit is None else [self.fit.theta]
        fit = max(self.search.modes(max_iterations, starts=starts), key=lambda f: f.mode.value)
        f_x, G_theta, G_x = self._slopes(fit.theta)
        w = fit.factor @ (fit.factor.T @ G_theta)
        gradient = f_x + G_x + self._mixed(fit.theta, w)
        self.fit = fit
        return fit.log_marginal, np.asarray(gradient, dtype=float)


def maximise_evidence(evidence: LaplaceEvidence, n: int, monitor: Monitor) -> LaplaceFit:
    """Set the hyperparameters to the maximum of F and return the Laplace fit there.

    Raises
    ------
    NoModeError
        If the density has no mode at the start of the hyperparameters.
    """
    evidence.fit = None
    x = evidence.density.extra
    evidence.value_and_gradient(x, n)  # an error here is the user's to see

    def loss(x: Array) -> tuple[float, Array]:
        value, gradient = evidence.value_and_gradient(x, n)
        return -value, -gradient

    out = minimize(
        walled(loss, NoModeError),
        x,
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: monitor(float(intermediate_result.fun)),
        options={"maxiter": n, "ftol": TOLERANCE},
    )
    evidence.value_and_gradient(out.x, n)
    assert evidence.fit is not None
    return evidence.search.report([evidence.fit])
