"""What ``pm.fit`` lets a user put in place of a family's steps: an optimiser, or the normals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from pymc_ext.maths.types import Array
from pymc_ext.variational.core.steps import Normals

if TYPE_CHECKING:
    from pytensor.compile import Function

Optimizer = Callable[..., object]  # of PyMC: (gradients, parameters) -> updates by variable


def normals_from(z: TensorVariable) -> Normals:
    """Normals that are a graph's value, such as a shared variable, at every step."""
    draw = pytensor.function([], z)
    return lambda steps: np.stack([np.asarray(draw(), dtype=float) for _ in range(steps)])


class UserUpdate:
    """A step of one of PyMC's optimisers, such as ``pm.adam()``, on the vector of parameters.

    Parameters
    ----------
    optimizer
        Sees one shared vector (P,) and its gradient; its state stays in its shared variables.
    max_norm
        Longer gradients are shortened to it.
    compile
        As ``approx.compile``.
    """

    def __init__(
        self, optimizer: Optimizer, max_norm: float | None, compile: Callable[..., Function]
    ) -> None:
        self.optimizer, self.max_norm, self.compile = optimizer, max_norm, compile
        self._step: Function | None = None

    def _build(self, vector: Array) -> Function:
        self._vector = pytensor.shared(vector.copy(), "parameters", shape=vector.shape)
        gradient = pt.vector("gradient", shape=vector.shape)
        kept = [gradient]
        if self.max_norm is not None:
            kept = pm.total_norm_constraint(kept, self.max_norm)
        updates = self.optimizer(kept, [self._vector])
        return self.compile([gradient], [], updates=updates)

    def __call__(self, vector: Array, gradient: Array) -> None:
        """Change ``vector`` (P,) in place."""
        if self._step is None:
            self._step = self._build(vector)
        self._vector.set_value(vector)
        self._step(gradient)
        vector[...] = self._vector.get_value(borrow=True)
