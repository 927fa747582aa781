"""Draws of the posterior by name: of an approximation, resampled by importance, or of chains."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bridge.errors import NoModelError
from bridge.methods.method import Fit, Problem
from bridge.targets.draws import InferenceData
from bridge.targets.target import Target
from pymc_ext.density.protocol import Labels, numbered
from pymc_ext.maths.types import Array
from pymc_ext.sampling.result import Sampled
from stan_models import StanDensity, StanError

if TYPE_CHECKING:
    import pymc as pm
    import xarray as xr

__all__ = ["NamedDraws", "of_chains", "resampled", "weighted"]

_log = logging.getLogger(__name__)
CHAINS = 4  # of resampled draws, as samplers make them
LOG_LIK = "log_lik"  # as in stan_models.inference_data, which takes ArviZ's seconds to import


@dataclass(frozen=True)
class NamedDraws:
    """Draws by name, not yet in ArviZ's form, which takes seconds to import.

    Parameters
    ----------
    values
        Constrained values by name, (chains, draws, *shape).
    statistics
        ``lp``, log p̃, and of chains what the sampler says of its transitions, (chains, draws).
    model
        The PyMC model they are of, which knows their dims and coords and holds the data.
    attributes
        What is known of the draws as a whole, text and numbers: attributes of the posterior.
    """

    values: Mapping[str, NDArray]
    statistics: Mapping[str, NDArray]
    model: pm.Model | None = field(default=None, repr=False)
    attributes: Mapping[str, str | int | float] = field(default_factory=dict)

    def groups(self) -> dict[str, xr.Dataset]:
        """``posterior`` and ``sample_stats`` of a program or a density; ``log_likelihood`` where a
        program generates ``log_lik``, as ArviZ takes it from Stan."""
        from stan_models.inference_data import constrained, variables

        groups = constrained(self.values, self.attributes)
        return {**groups, "sample_stats": variables(self.statistics)}

    def inference_data(self) -> InferenceData:
        """As ArviZ holds them; of a PyMC model what its own converter makes of them, with
        ``observed_data`` and ``constant_data``."""
        if self.model is None:
            from stan_models.inference_data import make_inference_data

            return make_inference_data(self.groups())
        from pymc_ext.variational.plugin.traces import make_inference_data as of_model

        idata = of_model(self.model, self.values, self.statistics)
        idata["posterior"].attrs.update(self.attributes)
        return idata

    def summary(
        self, names: Iterable[str], labels: Labels = numbered
    ) -> list[tuple[str, float, float, float, float]]:
        """Name, mean, sd, 5 % and 95 % quantile of each scalar of these variables; ``labels`` are
        the names of an array's elements."""
        rows = []
        for name in names:
            value = self.values[name]
            scalars = labels(name, value.shape[2:])
            for label, i in zip(scalars, np.ndindex(*value.shape[2:]), strict=True):
                x = value[(slice(None), slice(None), *i)].ravel()
                low, high = np.quantile(x, [0.05, 0.95])
                rows.append((label, float(x.mean()), float(x.std(ddof=1)), low, high))
        return rows


def resampled(problem: Problem, found: Fit, weights: Array, draws: int, seed: int) -> NamedDraws:
    """Draws in proportion to their weights, none twice whose weight is below 1/``draws``.

    Parameters
    ----------
    problem
        Whose posterior it is; of a PyMC model the draws get the dims and coords.
    found
        An approximation; its :attr:`Fit.weighted` draws are resampled.
    weights
        One a draw, of any shape, summing to 1.
    draws
        How many to return, in four chains where four divides it, for R̂ and plots that want several.
        A draw that is taken more than once follows itself, so that ESS shows it.
    seed
        Of the resampling, and of a Stan program's generated quantities.
    """
    rng = np.random.default_rng([seed, 1])
    chains = CHAINS if draws % CHAINS == 0 else 1
    rows = systematic(weights.ravel(), draws, rng).reshape(chains, -1)
    own = found.weighted
    assert own is not None, "draws of a sampler have no weights"
    theta = found.at_random(own.theta.reshape(-1, own.theta.shape[-1])[rows], seed)
    return _named(problem, found.target, theta, {"lp": own.lp.ravel()[rows]}, seed)


def systematic(weights: Array, draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Rows to take: of row n the next integer below or above draws · weight, one after the other.

    Different rows are in random order.

    Kitagawa (1996), Monte Carlo filter and smoother, JCGS 5(1), doi:10.2307/1390750.

    >>> systematic(np.array([0.5, 0.25, 0.25]), 4, np.random.default_rng(2)).tolist()
    [2, 0, 0, 1]
    """
    order = rng.permutation(weights.size)
    ends = np.cumsum(weights[order])
    at = (np.arange(draws) + rng.random()) / draws * ends[-1]
    return order[np.minimum(np.searchsorted(ends, at, side="right"), weights.size - 1)]


def of_chains(problem: Problem, target: Target, found: Sampled, seed: int) -> NamedDraws:
    """All draws of chains, (chains, draws, *shape).

    Parameters
    ----------
    problem
        Whose posterior it is; of a PyMC model the draws get the dims and coords.
    target
        What the chains ran on.
    found
        The chains.
    seed
        Of a Stan program's generated quantities.
    """
    return _named(problem, target, found.theta, {"lp": found.lp, **found.statistics}, seed)


def weighted(problem: Problem, found: Fit, weights: Array, seed: int) -> NamedDraws:
    """What :func:`resampled` draws from: all draws once, in one chain, with what weighs them.

    Draws without a weight, outside the support, are left out: their values may be infinite.
    ``statistics`` have ``lp``, ``lq`` of what they were drawn from, and ``log_weight``, normalised
    and Pareto-smoothed.
    """
    own = found.weighted
    assert own is not None, "draws of a sampler have no weights"
    has_weight = weights.ravel() > 0
    logs = {
        "lp": own.lp.ravel()[has_weight],
        "lq": own.lq.ravel()[has_weight],
        "log_weight": np.log(weights.ravel()[has_weight]),
    }
    theta = found.at_random(own.theta.reshape(1, -1, own.theta.shape[-1]), seed)[:, has_weight]
    return _named(problem, found.target, theta, {k: x[None] for k, x in logs.items()}, seed)


def _named(
    problem: Problem, target: Target, theta: Array, statistics: Mapping[str, NDArray], seed: int
) -> NamedDraws:
    chains, draws, D = theta.shape
    flat = _constrained(target, theta.reshape(-1, D), seed)
    values = {name: x.reshape(chains, draws, *x.shape[1:]) for name, x in flat.items()}
    if problem.has_program:
        about = _version(target) | _generated(target, theta, values)
        return NamedDraws(values, statistics, attributes=about)
    try:
        return NamedDraws(values, statistics, problem.model, _version(target))
    except NoModelError:  # a density, whose points have no dims
        return NamedDraws(values, statistics)


def _version(target: Target) -> dict[str, str | int | float]:
    """Of what evaluates log p̃."""
    if isinstance(target.density, StanDensity):
        return {"stan_version": target.density.program.toolchain.stan_version}
    return {"pymc_version": version("pymc")}


def _constrained(target: Target, theta: Array, seed: int) -> Mapping[str, NDArray]:
    """Values by name; of a Stan program its generated quantities too, where they can be had."""
    if not isinstance(target.density, StanDensity):
        return target.constrain(theta)
    try:
        return target.density.constrain(theta, transformed=True, generated=True, random_seed=seed)
    except StanError as error:
        _log.warning("the draws have no generated quantities, which Stan refuses: %s", error)
        return target.constrain(theta)


def _generated(target: Target, theta: Array, values: Mapping[str, object]) -> dict[str, str]:
    """Names of generated quantities, as `stan_models.nuts` has them among its attributes."""
    known = target.constrain(theta[:1, 0])
    generated = [name for name in values if name not in known and name != LOG_LIK]
    return {"generated_quantities": json.dumps(generated)} if generated else {}
