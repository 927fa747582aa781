"""Refusing variables whose density on the unconstrained space has no finite mass."""

from __future__ import annotations

import pymc as pm
from pymc.distributions.transforms import CircularTransform


def refuse_periodic(model: pm.Model) -> None:
    """ValueError where a free variable has PyMC's circular transform, as VonMises has.

    Its unconstrained density repeats itself every 2π: it has no normalising constant and as many
    modes as there are turns.
    """
    transforms = model.rvs_to_transforms
    names = [rv.name for rv in model.free_RVs if isinstance(transforms[rv], CircularTransform)]
    if names:
        raise ValueError(
            f"{', '.join(names)} is on a circle, where PyMC's unconstrained density repeats itself "
            "and has no finite mass: use pm.sample, or two coordinates and their angle"
        )
