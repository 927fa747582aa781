"""Posteriors that are no case: a PyMC model, or a Stan program with data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import pymc as pm

from bridge.errors import NoModelError
from bridge.stan.stan_to_pymc import stan_model
from bridge.stan.timing import gradient_seconds
from bridge.targets.base import Target
from bridge.targets.draws import InferenceData
from bridge.targets.pymc import pymc_target
from bridge.targets.stan import stan_target

if TYPE_CHECKING:
    from stan_models import StanProgram
    from stan_models.density import Data

__all__ = ["ModelProblem", "StanProblem", "as_problem"]


@dataclass(frozen=True)
class ModelProblem:
    """A PyMC model."""

    model: pm.Model
    has_program = False
    gradient_seconds = None  # of a Stan program only

    @property
    def program(self) -> StanProgram:
        raise NoModelError(
            "a PyMC model has no Stan program: choose methods that do not start with stan-, or "
            "give the program itself"
        )

    @property
    def data(self) -> Data:
        return None  # the model holds its own

    @property
    def stan_target(self) -> Target:
        raise NoModelError("a PyMC model has no Stan density: use `pymc_target`")

    @cached_property
    def pymc_target(self) -> Target:
        return pymc_target(self.model)

    def nuts(self, draws: int, seed: int, progressbar: bool) -> InferenceData:
        """``draws`` draws of four chains."""
        with self.model:
            return pm.sample(-(-draws // 4), chains=4, random_seed=seed, progressbar=progressbar)


@dataclass(frozen=True)
class StanProblem:
    """A Stan program with data."""

    program: StanProgram
    data: Data
    has_program = True

    @cached_property
    def model(self) -> pm.Model:
        return stan_model(self.program, self.data)

    @cached_property
    def gradient_seconds(self) -> float:
        return gradient_seconds(self.program.density(self.data), self.model)

    @cached_property
    def stan_target(self) -> Target:
        return stan_target(self.program.density(self.data))

    @property
    def pymc_target(self) -> Target:
        return self.stan_target

    def nuts(self, draws: int, seed: int, progressbar: bool) -> InferenceData:
        """``draws`` draws of four chains; Stan shows no progress."""
        from stan_models import nuts

        return nuts(self.program, self.data, draws=-(-draws // 4), chains=4, random_seed=seed)


def as_problem(
    model: pm.Model | StanProgram | str | os.PathLike[str] | None, data: Data
) -> ModelProblem | StanProblem:
    """The problem of a PyMC model (None: of the context) or of a Stan program with data.

    Raises
    ------
    ValueError
        Data are given with a PyMC model.
    StanCompileError, StanDataError, UndefinedDensityError
        Of a Stan program that no method can run on.
    """
    if model is None or isinstance(model, pm.Model):
        if data is not None:
            raise ValueError(
                "data belong to a Stan program: a PyMC model already holds its own; use pm.set_data"
            )
        return ModelProblem(pm.modelcontext(model))
    from stan_models import StanProgram

    program = model if isinstance(model, StanProgram) else StanProgram(model)
    problem = StanProblem(program, data)
    _ = problem.model  # what is wrong with program or data is said at once, not by every method
    return problem
