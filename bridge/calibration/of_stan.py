"""Stan programs in calibration: data are the whole data block, made by functions of the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bridge.calibration.study import Prior, Simulated, Simulator, Values, required
from bridge.methods.problems import GivenProblem, StanProblem
from pymc_ext.maths.types import Array
from stan_models import StanProgram

__all__ = ["LOG_LIK", "StanStudy"]

LOG_LIK = "log_lik"  # what Stan programs call log p(y|θ), entry by entry


@dataclass(frozen=True)
class StanStudy:
    """A Stan program, compiled once.

    A program states a joint density and draws from no prior: `prior` and `simulator` are the
    user's, and that they belong to the program is what calibration tests too.
    """

    program: StanProgram

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.program.source.encode()).hexdigest()[:16]

    def simulate(
        self, count: int, prior: Prior | None, simulator: Simulator | None, seed: int
    ) -> list[Simulated]:
        if prior is None:
            raise ValueError(
                "a Stan program says of no prior how to draw from it: give prior=, a function "
                "(rng) -> {parameter: value}, constrained"
            )
        rng = np.random.default_rng([seed, 0])
        drawn = [_mapping(prior(rng), "prior") for _ in range(count)]
        return self.simulate_again(drawn, simulator, seed)

    def simulate_again(
        self, parameters: Sequence[Values], simulator: Simulator | None, seed: int
    ) -> list[Simulated]:
        if simulator is None:
            raise ValueError(
                "a Stan program says of no data how to draw them: give simulator=, a function "
                "(parameters, rng) -> {name: value} of the whole data block"
            )
        rng = np.random.default_rng([seed, 1])
        made = [Simulated(p, _mapping(simulator(p, rng), "simulator")) for p in parameters]
        self._check(made[0])
        return made

    def _check(self, first: Simulated) -> None:
        """Raise what is wrong with data, or with parameters, before any fit."""
        density = self.problem(first.data).density
        given = required(first.parameters, density.parameter_names, "prior")
        theta = density.unconstrain({n: given[n][None] for n in density.parameter_names})
        (lp,) = density.log_density(theta)
        if not np.isfinite(lp):
            raise ValueError(
                f"the program's log density is {lp} at the first parameters and data simulated: "
                "prior= and simulator= are not those of the program"
            )

    def conditioned(self, data: Values) -> StanStudy:
        """Itself: the simulator gives the real data together with the simulated ones."""
        return self

    def problem(self, data: Values) -> StanProblem:
        return StanProblem(self.program, dict(data))

    def log_likelihood(self, problem: GivenProblem, theta: Array, seed: int) -> Array | None:
        """The sum of the program's own ``log_lik``; None where it has none."""
        assert isinstance(problem, StanProblem)
        values = problem.density.constrain(theta, generated=True, random_seed=seed)
        return values[LOG_LIK].reshape(len(theta), -1).sum(axis=1) if LOG_LIK in values else None


def _mapping(values: object, of: str) -> Values:
    return required(values, (), of)
