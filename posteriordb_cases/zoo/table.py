"""Every target of the zoo, one line each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from posteriordb_cases.zoo import (
    crossed,
    effects,
    gaussians,
    levels,
    marginals,
    mixtures,
    rows,
    spikes,
)
from posteriordb_cases.zoo.bananas import Banana
from posteriordb_cases.zoo.density import ZooDensity
from posteriordb_cases.zoo.edges import Box, HalfExponential, Ordered
from posteriordb_cases.zoo.funnels import Funnel
from posteriordb_cases.zoo.horseshoe import Horseshoe
from posteriordb_cases.zoo.improper import FlatDirection, FlatLogScale, Separated, SlowTail
from posteriordb_cases.zoo.labels import MixtureMeans
from posteriordb_cases.zoo.products import Product
from posteriordb_cases.zoo.regression import Regression
from posteriordb_cases.zoo.schools import Groups, Schools
from posteriordb_cases.zoo.series import Frequency, MovingAverage
from posteriordb_cases.zoo.shells import Shell
from posteriordb_cases.zoo.student import MultivariateT
from posteriordb_cases.zoo.walls import Walled
from posteriordb_cases.zoo.warped import Warped

__all__ = ["ZOO", "ZooTarget"]


@dataclass(frozen=True)
class ZooTarget:
    """One target.

    Parameters
    ----------
    name
        What tables call it.
    kind
        What is hard about it, in a few words.
    make
        Its density; grids that some need take a second.
    """

    name: str
    kind: str
    make: Callable[[], ZooDensity]


_TWO = [-2.6, -1.9, -3.2, -2.2, -2.7, 2.1, 3.0, 2.4, 3.3, 2.6]
_THREE = [-4.2, -3.7, -4.4, 0.3, -0.4, 4.1, 3.6, 4.4]
_GROUPS = np.array([3.0, -1, 8, 2, 0, 5, 11]), np.array([4.0, 5, 3, 6, 4, 5, 6])
_FOUR = np.array([1.5, -0.4, 2.6, 0.2]), np.array([1.0, 1.0, 0.8, 1.2])
_SPARSE = [0.3, -0.8, 4.5, 0.1, -3.6]
_X, _Y = [-1.5, -0.9, -0.2, 0.4, 1.1, 1.8], [-2.1, -0.4, 0.9, 1.1, 3.6, 4.2]
_TIMES = np.array([0.0, 1.1, 5.9, 9.2, 14.1, 15.3])
_LINE = np.array([[-12.0, 0, 0], [0.0, 0, 0], [12.0, 0, 0], [0.0, 15, 0]])

_TARGETS = (
    ZooTarget("gaussian-1", "a Gaussian", lambda: gaussians.of_condition(1, 1.0)),
    ZooTarget("gaussian-100", "correlated", lambda: gaussians.of_condition(100, 1e4)),
    ZooTarget("chain-300", "high-dimensional", lambda: gaussians.Autoregressive(np.ones(300), 0.9)),
    ZooTarget(
        "scales-50",
        "sds from .001 to 1,000",
        lambda: gaussians.Autoregressive(np.geomspace(1e-3, 1e3, 50), 0.5),
    ),
    ZooTarget("singular-10", "condition 1e8", lambda: gaussians.of_condition(10, 1e8)),
    ZooTarget(
        "singular-20",
        "neighbours correlated .9999",
        lambda: gaussians.Autoregressive(np.ones(20), 0.9999),
    ),
    ZooTarget(
        "ridge-10", "unidentified pairs", lambda: gaussians.unidentified_pairs(5, 10.0, 0.05)
    ),
    ZooTarget("product", "a curved ridge of two branches", lambda: Product(2.0, 0.3, 2.0)),
    ZooTarget("product-0", "a cross", lambda: Product(0.0, 0.3, 2.0)),
    ZooTarget("modes-1", "two modes 10 sds apart", lambda: mixtures.two(1, 10, 0.3)),
    ZooTarget("modes-1-touching", "two modes 3 sds apart", lambda: mixtures.two(1, 3, 0.3)),
    ZooTarget("modes-2-far", "two modes 100 sds apart", lambda: mixtures.two(2, 100, 0.3)),
    ZooTarget("modes-2-light", "a mode of 7 %", lambda: mixtures.two(2, 12, 0.07)),
    ZooTarget("modes-5", "two modes", lambda: mixtures.two(5, 8, 0.4)),
    ZooTarget("modes-10", "two modes", lambda: mixtures.two(10, 15, 0.2)),
    ZooTarget("modes-20", "two modes", lambda: mixtures.two(20, 20, 0.25)),
    ZooTarget(
        "modes-3-line",
        "a line of modes and one beside it",
        lambda: mixtures.NormalMixture([1, 2, 3, 4], _LINE, 1.0),
    ),
    ZooTarget("modes-2-nine", "nine modes", lambda: mixtures.on_a_grid(3, 8.0, 1.0)),
    ZooTarget("modes-2-many", "25 modes", lambda: mixtures.on_a_grid(5, 6.0, 0.6)),
    ZooTarget("walled-2", "a mode cut by a steep slope", lambda: Walled(2, 10, 0.3, 0.0, 40.0)),
    ZooTarget("walled-5", "a mode cut by an edge", lambda: Walled(5, 15, 0.4, -0.5, np.inf)),
    ZooTarget(
        "narrow-1", "a spike beside a wide mode", lambda: mixtures.two(1, 4, 0.3, [1.0, 0.02])
    ),
    ZooTarget(
        "narrow-2", "a narrow mode beside a wide one", lambda: mixtures.two(2, 8, 0.3, [1.0, 0.1])
    ),
    ZooTarget(
        "narrow-5", "a narrow mode beside a wide one", lambda: mixtures.two(5, 10, 0.4, [1.0, 0.1])
    ),
    ZooTarget(
        "narrow-in-wide", "a spike inside a wide mode", lambda: mixtures.two(2, 1, 0.4, [1.0, 0.05])
    ),
    ZooTarget("labels-2", "label switching", lambda: MixtureMeans(_TWO, [0.5, 0.5])),
    ZooTarget("labels-2-unequal", "label switching", lambda: MixtureMeans(_TWO, [0.35, 0.65])),
    ZooTarget("labels-3", "label switching, six orders", lambda: MixtureMeans(_THREE, [1, 1, 1])),
    ZooTarget(
        "spikes-4", "spike and slab, marginalised", lambda: spikes.simulated(4, 0.0, 0.1)
    ),
    ZooTarget(
        "spikes-6-alike", "spike and slab, like columns", lambda: spikes.simulated(6, 0.95, 0.1)
    ),
    ZooTarget("frequency", "a frequency seen six times", lambda: Frequency(
        _TIMES, 1.3, 0.7, 2.0, 1.5, 0.5)),
    ZooTarget("frequency-aliased", "a frequency at whole times", lambda: Frequency(
        np.arange(8.0), 1.0, 0.3, 2.0, 3.0, 1.5)),
    ZooTarget("moving-average", "invertible and not", lambda: MovingAverage(30, 0.4)),
    ZooTarget("ring", "a ring", lambda: Shell(2, 5.0, 0.3)),
    ZooTarget("ring-thin", "a thin ring", lambda: Shell(2, 5.0, 0.05)),
    ZooTarget("shell-5", "a shell", lambda: Shell(5, 5.0, 0.5)),
    ZooTarget("banana-2", "a banana", lambda: Banana(1, 1.0, 1.0, 0.3)),
    ZooTarget("banana-10", "five bananas", lambda: Banana(5, 1.0, 0.7, 0.5)),
    ZooTarget("funnel-2", "Neal's funnel", lambda: Funnel(2)),
    ZooTarget("funnel-10", "Neal's funnel", lambda: Funnel(10)),
    ZooTarget("funnel-100", "Neal's funnel", lambda: Funnel(100)),
    ZooTarget("horseshoe", "horseshoe, non-centred", lambda: Horseshoe(_SPARSE, False)),
    ZooTarget("horseshoe-centred", "horseshoe, centred", lambda: Horseshoe(_SPARSE, True)),
    ZooTarget("schools", "eight schools, non-centred", lambda: Schools(False)),
    ZooTarget("schools-centred", "eight schools, centred", lambda: Schools(True)),
    ZooTarget("groups-7", "seven groups, centred", lambda: Groups(True, *_GROUPS, 10.0)),
    ZooTarget("groups-4", "four groups, centred", lambda: Groups(True, *_FOUR, 3.0, 1.0)),
    ZooTarget("rows-12", "twelve groups of four, centred", lambda: rows.simulated(100, 0.3)),
    ZooTarget("effects-12", "correlated effects, centred", lambda: effects.simulated(1, 0.4)),
    ZooTarget("crossed-12", "effects of 12 and 6 levels that cross, centred", lambda: (
        crossed.simulated(1, (0.5, 0.3), (12, 6), 0.7))),
    ZooTarget("level-30", "a local level of 30 times, centred", lambda: (
        levels.simulated(23, 0.3, 0.5, 30))),
    ZooTarget("regression-6", "a regression of six rows", lambda: Regression(_X, _Y, 2.0)),
    ZooTarget("regression-4", "a regression of four rows", lambda: Regression(
        _X[:4], _Y[:4], 5.0)),
    ZooTarget("warped-5", "skewed, correlated", lambda: Warped(5, 0.5, 1.0, 0.8)),
    ZooTarget("warped-heavy-5", "heavy tails", lambda: Warped(5, 0.0, 0.7, 0.5)),
    ZooTarget("warped-light-5", "skewed, light tails", lambda: Warped(5, -0.4, 1.5, 0.5)),
    ZooTarget("skewed-5", "log of gammas of shape ½", lambda: marginals.Mixed(
        marginals.LogGamma(0.5), 5, 0.5)),
    ZooTarget("laplace-4", "kinks", lambda: marginals.Mixed(marginals.Laplace(), 4, 0.5, 0.3)),
    ZooTarget("logistic-10", "exponential tails", lambda: marginals.Mixed(
        marginals.Logistic(), 10, 0.5)),
    ZooTarget("quartic-4", "light tails", lambda: marginals.Mixed(marginals.Power(4.0), 4, 0.5)),
    ZooTarget("student-5", "t of 3 degrees, independent", lambda: marginals.Mixed(
        marginals.StudentT(3.0), 5, 0.5, heavy=True)),
    ZooTarget("student-shared-10", "t of 5 degrees, one scale", lambda: MultivariateT(10, 5.0)),
    ZooTarget("cauchy-1", "a Cauchy", lambda: marginals.Mixed(
        marginals.StudentT(1.0), 1, shift=1.0, heavy=True)),
    ZooTarget("cauchy-shared-3", "a Cauchy of one scale", lambda: MultivariateT(3, 1.0)),
    ZooTarget("half-exponential-2", "densest at the edge", lambda: HalfExponential(2)),
    ZooTarget("ordered-2", "a slanted edge", lambda: Ordered(0.5)),
    ZooTarget("box-2", "a box", lambda: Box(2)),
    ZooTarget("flat-direction", "improper", FlatDirection),
    ZooTarget("slow-tail", "improper", SlowTail),
    ZooTarget("flat-log-scale", "improper", FlatLogScale),
    ZooTarget("separated", "improper", Separated),
)  # fmt: skip

ZOO = {target.name: target for target in _TARGETS}
