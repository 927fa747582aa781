"""Forms of a density that PyMC's own distributions do not have."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from benchmarks.speed.kinds.simulated import ROWS, generator


def potential() -> pm.Model:
    """Potentials only, no observed variable"""
    y = generator().normal(1, 1, ROWS)
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.Potential("likelihood", pm.logp(pm.Normal.dist(mu, s), y).sum())
    return model


def custom() -> pm.Model:
    """pm.CustomDist"""
    y = generator().laplace(1, 1, ROWS)

    def logp(value, mu, s):
        return -pm.math.abs(value - mu) / s - pm.math.log(2 * s)

    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 2)
        pm.CustomDist("y", mu, s, logp=logp, observed=y)
    return model


class Shifted(Op):
    """x + 1 as an Op of the user's own, without a gradient."""

    itypes: ClassVar = [pt.dscalar]
    otypes: ClassVar = [pt.dscalar]

    def perform(self, node: Apply, inputs: list[np.ndarray], outputs: list[list]) -> None:
        outputs[0][0] = np.asarray(inputs[0] + 1.0)


def black_box() -> pm.Model:
    """an Op of the user's own without a gradient"""
    y = generator().normal(1, 1, ROWS)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 3)
        pm.Normal("y", Shifted()(mu), 1, observed=y)
    return model


def discrete_latent() -> pm.Model:
    """discrete latents"""
    rng = generator()
    with pm.Model() as model:
        p = pm.Beta("p", 1, 1)
        kind = pm.Bernoulli("kind", p, shape=10)
        pm.Normal("y", kind * 3.0, 1, observed=rng.normal(0, 1, 10))
    return model


def circular() -> pm.Model:
    """a parameter on a circle, pm.VonMises"""
    rng = generator()
    with pm.Model() as model:
        angle = pm.VonMises("angle", 0, 1)
        pm.Normal("y", pm.math.cos(angle), 0.5, observed=rng.normal(0.5, 0.5, 10))
    return model
