"""Where fits of a Stan program start: the origin, or the first random point that is defined."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bridge.errors import UndefinedDensityError
from pymc_ext.sampling.options import START_RADIUS, START_TRIES
from stan_models.data_block import not_finite
from stan_models.density import as_json

if TYPE_CHECKING:
    from stan_models import StanDensity


def stan_start(density: StanDensity) -> NDArray[np.float64]:
    """The origin, or else the first random start, where density and gradient are finite."""
    rng = np.random.default_rng(0)
    starts = rng.uniform(-START_RADIUS, START_RADIUS, (START_TRIES, density.dimension))
    starts[0] = 0.0
    lp, gradient = density.log_density_gradient(starts)
    defined = np.isfinite(lp)
    usable = defined & np.isfinite(gradient).all(axis=1)
    if usable.any():
        return starts[usable.argmax()]
    label = f"Stan program {density.program.name!r}"
    if not defined.any():
        culprits = not_finite(density.program, as_json(density.data))
        named = f"; not finite in the data: {', '.join(culprits)}" if culprits else ""
        if not culprits and (said := density.refusal(starts[0])) is not None:
            named = f"; Stan said: {said}"
        raise UndefinedDensityError(
            f"{label} has no finite log density at the origin or at {START_TRIES - 1} random "
            f"points of (-{START_RADIUS:g}, {START_RADIUS:g})^{density.dimension} of its "
            f"unconstrained space: check the data, or the declared constraints{named}"
        )
    row = int(defined.argmax())
    bad = [
        name
        for name, ok in zip(density.unconstrained_names, np.isfinite(gradient[row]), strict=True)
        if not ok
    ]
    raise UndefinedDensityError(
        f"{label} has a finite log density but no finite gradient with respect to "
        f"{', '.join(bad[:10])}: gradient-based methods cannot run on it"
    )
