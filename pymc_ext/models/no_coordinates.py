"""Refusing distributions that have no log density with a gradient on R^D: simulators, Wishart's."""

from __future__ import annotations

import pymc as pm

WISHART = type(pm.Wishart.rv_op)


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
    """ValueError where a free variable is ``pm.Wishart``, whose matrices PyMC does not transform:
    next to every point of R^D that is positive definite lie points that are no matrix of it."""
    names = [rv.name for rv in model.free_RVs if isinstance(rv.owner.op, WISHART)]
    if names:
        raise ValueError(
            f"{', '.join(map(repr, names))} is pm.Wishart, which PyMC has no unconstrained "
            "coordinates for: give the covariance by pm.LKJCholeskyCov instead"
        )
