"""Refusing variables whose posterior, or density on the unconstrained space, has no finite mass."""

from __future__ import annotations

from collections.abc import Iterable

import pymc as pm
from pymc.distributions.transforms import CircularTransform, LogTransform
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

FLAT = type(pm.Flat.rv_op), type(pm.HalfFlat.rv_op)


def refuse_unobserved_flat(
    model: pm.Model, variables: Iterable[TensorVariable] | None = None
) -> None:
    """ValueError where one of ``variables`` (None: all that are free) is Flat, and neither an
    observed variable nor a Potential depends on it.

    What is drawn given it integrates to one, so that its posterior is its prior, whose mass is
    infinite. Transforms to a bounded range make the prior proper and are let through.
    """
    transforms = model.rvs_to_transforms
    informed = set(ancestors([*model.observed_RVs, *model.potentials]))
    names = [
        repr(rv.name)
        for rv in (model.free_RVs if variables is None else variables)
        if isinstance(rv.owner.op, FLAT)
        and isinstance(transforms[rv], LogTransform | None)
        and rv not in informed
    ]
    if names:
        raise ValueError(
            f"the posterior is improper: nothing observed depends on {', '.join(names)}, whose "
            "prior is flat; give a proper prior, such as pm.Normal, or leave it out of the model"
        )


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
