"""log p̃ with its exact gradient and Hessian at one θ, counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numpy.typing import NDArray
from pytensor.gradient import NullTypeGradError

from pymc_ext.variational.core.base import VectorisedApproximation

Array = NDArray[np.floating]
HESSIAN_ROWS = 256  # directions differentiated together: bounds memory at 256 gradients


class FlatDensity:
    """log p̃ on the unconstrained space of ``approx``'s model, Jacobian included.

    Raises TypeError where an operation of the model has no second derivative.
    """

    def __init__(self, approx: VectorisedApproximation) -> None:
        self.approx = approx
        self.reset_counts()
        with approx.building():
            self._build()

    def _build(self) -> None:
        approx, theta = self.approx, self.approx.group.input
        logp = approx.flat_logp()
        gradient = pt.grad(logp, theta, disconnected_inputs="ignore")
        direction = pt.vector("direction", shape=(approx.group.ddim,))
        directions = pt.matrix("directions", shape=(None, approx.group.ddim))
        try:
            product: Any = pt.grad(pt.dot(gradient, direction), theta, disconnected_inputs="ignore")
            products = approx.over_draws([product], directions, direction)[0]
        except (NotImplementedError, NullTypeGradError) as error:
            raise TypeError(
                f"the log density of this model cannot be differentiated twice ({error}); fit it "
                "with MixedVI('eig', base='unit'), which needs gradients only"
            ) from error
        self._value_and_gradient = approx.compile([theta], [logp, gradient])
        self._products = approx.compile([theta, directions], products, on_unused_input="ignore")

    def reset_counts(self) -> None:
        """Nothing evaluated yet."""
        self.values = self.gradients = 0

    @property
    def counts(self) -> tuple[int, int]:
        """Evaluations of log p̃ and of its gradient; a Hessian counts as D gradients."""
        return self.values, self.gradients

    def value_and_gradient(self, theta: Array) -> tuple[float, Array]:
        """log p̃ and its gradient (D,)."""
        self.values += 1
        self.gradients += 1
        value, gradient = self._value_and_gradient(theta)
        return float(value), np.asarray(gradient, dtype=float)

    def hessian(self, theta: Array) -> Array:
        """∇² log p̃, (D, D), exact and symmetrised."""
        self.gradients += len(theta)
        eye = np.eye(len(theta))
        blocks = range(0, len(theta), HESSIAN_ROWS)
        H = np.concatenate([self._products(theta, eye[i : i + HESSIAN_ROWS]) for i in blocks])
        return (H + H.T) / 2
