"""The contract tables of algorithms and families: one line each, read by the contract tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pymc_ext as px
from pymc_ext.variational.basins.algorithm import Basins
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.core import Algorithm
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.mixed import Diagonal, Mixed
from pymc_ext.variational.gaussian.mixture import Mixture
from pymc_ext.variational.gaussian.modes import ModeSearch
from pymc_ext.variational.gaussian.monte_carlo import MonteCarlo
from pymc_ext.variational.gaussian.pathfinder import Pathfinder
from pymc_ext.variational.hierarchical.algorithm import Hierarchical


@dataclass(frozen=True)
class Family:
    """What a family promises.

    Parameters
    ----------
    make
        ``make(model=, random_seed=)`` -> a PyMC Inference for ``pm.fit``.
    gaussian_target
        Covariance of the Gaussian targets it fits exactly: ``"full"``, ``"diagonal"``, or None
        where it does not apply.
    minibatch
        Whether it fits models with ``pm.Minibatch`` data; otherwise it must refuse them.
    iterative
        Whether it takes steps: callbacks run, a loss history is kept, gradients are counted.
    """

    make: Callable[..., Any]
    gaussian_target: str | None = "full"
    minibatch: bool = False
    iterative: bool = True


SMALL, FEW = px.FlowShape(5, (4,)), ModeSearch(starts=4, spread=4.0)
FAMILIES = {
    "laplace": Family(lambda **k: px.LaplaceVI(**k)),
    "mixed-mu": Family(lambda **k: px.MixedVI("mu", **k)),
    "mixed-eig": Family(lambda **k: px.MixedVI("eig", **k)),
    "mixed-lr": Family(lambda **k: px.MixedVI("lr", **k)),
    "diagonal": Family(lambda **k: px.DiagonalVI(**k), gaussian_target="diagonal"),
    "mixture": Family(lambda **k: px.MixtureVI(search=FEW, **k)),
    "pathfinder": Family(lambda **k: px.PathfinderVI(**k), gaussian_target=None),
    "batch-match": Family(lambda **k: px.BatchMatchVI(**k)),
    "batch-match-lr": Family(lambda **k: px.BatchMatchVI(rank=1, **k), gaussian_target=None),
    "hierarchical": Family(lambda **k: px.HierarchicalVI(**k)),
    "basins": Family(lambda **k: px.BasinsVI(**k)),
    "bernstein": Family(
        lambda **k: px.BernsteinVI(SMALL, base="identity", polish=None, **k),
        gaussian_target=None,
        minibatch=True,
    ),
    # families of logistic models only, which a model without data is not
    "viper": Family(lambda **k: px.ViperVI(**k), gaussian_target=None, minibatch=True),
    "viper-diagonal": Family(
        lambda **k: px.ViperVI("diagonal", **k), gaussian_target=None, minibatch=True
    ),
    "jaakkola": Family(lambda **k: px.JaakkolaVI(**k), gaussian_target=None, minibatch=True),
    "matching": Family(
        lambda **k: px.MatchingVI(alpha="elbo", **k), gaussian_target=None, iterative=False
    ),
    # stochastic: near the Gaussian target, not on it
    "monte-carlo": Family(
        lambda **k: px.MonteCarloVI(draws=20, **k), gaussian_target=None, minibatch=True
    ),
}

QUICK = StepOptions(20, learning_rate=0.02)
POLISHED = px.ImportanceWeighted(steps=20, judge_draws=1000)
# what makes each algorithm, with options as little work as the tests of its contract need
ALGORITHMS: dict[str, Callable[[], Algorithm]] = {
    "laplace": lambda: Laplace(),
    "mixed-mu": lambda: Mixed("mu"),
    "mixed-eig": lambda: Mixed("eig", base="unit"),
    "mixed-lr": lambda: Mixed("lr"),
    "diagonal": lambda: Diagonal(),
    "mixture": lambda: Mixture(search=FEW),
    "pathfinder": lambda: Pathfinder(paths=1),
    "batch-match": lambda: BatchMatch(),
    "batch-match-lr": lambda: BatchMatch(rank=1),
    "hierarchical": lambda: Hierarchical(),
    "basins": lambda: Basins(),
    "monte-carlo-full": lambda: MonteCarlo("full", step=QUICK),
    "monte-carlo-diagonal": lambda: MonteCarlo("diagonal", step=QUICK),
    "bernstein": lambda: Bernstein(SMALL, polish=None),
    "bernstein-given": lambda: Bernstein(SMALL, base=([0.1, 0.2], [[1, 0.1], [0.1, 2]])),
    "bernstein-polished": lambda: Bernstein(SMALL, base="laplace", polish=POLISHED),
}
