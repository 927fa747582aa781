"""Refusing distributions that have no log density with a gradient on R^D: simulators, Wishart's."""

from __future__ import annotations

import pymc as pm

WISHART = "WishartRV"  # its class, which PyMC 5 and 6 give in different ways


def refuse_simulators(model: pm.Model) -> None:
    """ValueError where data are compared with those of ``pm.Simulator``."""
    # each has a class of its own, made from rv_type
    names = [rv.name for rv in model.basic_RVs if isinstance(rv.owner.op, pm.Simulator.rv_type)]
    if names:
        raise ValueError(
            f"the density of {', '.join(map(repr, names))} is known by simulation only "
            "(pm.Simulator), without a gradient: use pm.sample_smc, or write the likelihood"
        )


def refuse_wishart(model: pm.Model) -> None:
    """ValueError where a free variable is a ``pm.Wishart`` that is not transformed, as of PyMC 5:
    next to every point of R^D that is positive definite lie points that are no matrix of it."""
    names = [
        rv.name
        for rv in model.free_RVs
        if type(rv.owner.op).__name__ == WISHART and model.rvs_to_transforms[rv] is None
    ]
    if names:
        raise ValueError(
            f"{', '.join(map(repr, names))} is pm.Wishart, which PyMC 5 has no unconstrained "
            "coordinates for: give the covariance by pm.LKJCholeskyCov instead"
        )
