"""Posteriors that are no case: a PyMC model, or a Stan program with data."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard

from bridge.errors import NoModelError
from bridge.methods.base import Array
from bridge.stan.start import stan_start
from bridge.targets.base import Target
from bridge.targets.draws import InferenceData
from bridge.targets.stan import stan_target
from stan_models import StanProgram

if TYPE_CHECKING:
    import pymc as pm

    from stan_models.density import Data, StanDensity

__all__ = ["ModelProblem", "StanProblem", "as_problem"]


@dataclass(frozen=True)
class ModelProblem:
    """A PyMC model."""

    model: pm.Model
    has_program = False

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
        from bridge.targets.pymc import pymc_target

        return pymc_target(self.model)

    @cached_property
    def start(self) -> Array:
        from bridge.targets.pymc import model_start

        return model_start(self.model)

    def nuts(self, draws: int, seed: int, progressbar: bool) -> InferenceData:
        """``draws`` draws of four chains."""
        import pymc as pm

        with self.model:
            return pm.sample(-(-draws // 4), chains=4, random_seed=seed, progressbar=progressbar)


@dataclass(frozen=True)
class StanProblem:
    """A Stan program with data; families fit its own density, without PyMC."""

    program: StanProgram
    data: Data
    has_program = True

    @cached_property
    def density(self) -> StanDensity:
        """Its log density."""
        return self.program.density(self.data)

    @cached_property
    def model(self) -> pm.Model:
        from bridge.stan.stan_to_pymc import stan_model

        return stan_model(self.program, self.data)

    @cached_property
    def stan_target(self) -> Target:
        return stan_target(self.density)

    @property
    def pymc_target(self) -> Target:
        return self.stan_target

    @cached_property
    def start(self) -> Array:
        return stan_start(self.density)

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
    if model is None or _is_pymc_model(model):
        if data is not None:
            raise ValueError(
                "data belong to a Stan program: a PyMC model already holds its own; use pm.set_data"
            )
        import pymc as pm

        return ModelProblem(pm.modelcontext(model))
    problem = StanProblem(model if isinstance(model, StanProgram) else StanProgram(model), data)
    _ = problem.start  # what is wrong with program or data is said at once, not by every method
    return problem


def _is_pymc_model(model: object) -> TypeGuard[pm.Model]:
    """Whether it is one; while PyMC is not imported there is none."""
    pymc = sys.modules.get("pymc")
    return pymc is not None and isinstance(model, pymc.Model)
