"""Posteriors that are no case: a model of PyMC or bambi, a Stan program with data, any density."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeGuard

from bridge.errors import NoModelError
from bridge.stan.start import stan_start
from bridge.targets.bambi import built_model, is_bambi, left_out, tidied
from bridge.targets.density import DensityTarget, density_start
from bridge.targets.draws import InferenceData
from bridge.targets.stan import stan_target
from bridge.targets.target import Target
from pymc_ext.density import Density
from pymc_ext.density.check import require_density, require_scores
from pymc_ext.maths.types import Array
from stan_models import StanProgram

if TYPE_CHECKING:
    import bambi
    import pymc as pm

    from bridge.targets.pymc import PyMCTarget
    from stan_models.density import Data, StanDensity

__all__ = [
    "BambiProblem",
    "DensityProblem",
    "GivenProblem",
    "ModelProblem",
    "StanProblem",
    "as_problem",
]


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
        raise NoModelError("a PyMC model has no Stan density: use `target`")

    @cached_property
    def target(self) -> PyMCTarget:
        from bridge.targets.pymc import pymc_target

        return pymc_target(self.model)

    @cached_property
    def start(self) -> Array:
        from bridge.targets.pymc import model_start

        return model_start(self.model)

    def as_it_is(self) -> Callable[[], AbstractContextManager[None]]:
        """Contexts in which the model has the data of now, whatever ``pm.set_data`` does."""
        from pymc_ext.density.as_it_was import AsItWas

        return AsItWas(self.model)

    def require_defined(self) -> None:
        """DensityError where log p̃ is finite nowhere near the start; it names the variables."""
        from pymc_ext.density.undefined import require_defined

        require_defined(self.target.density, self.start)

    def terms_at(self, theta: Array) -> str:
        """The variables and Potentials whose log p is not finite at θ (D,)."""
        from pymc_ext.density.undefined import undefined_terms

        return undefined_terms(self.target.density, theta)

    def nuts(self, draws: int, seed: int, progressbar: bool) -> InferenceData:
        """``draws`` draws of four chains, of discrete variables from starts far from one another;
        without a progress bar PyMC says nothing, as the verdict has its warnings."""
        import pymc as pm

        from pymc_ext.models.starts import spread_starts

        with self.model:
            return pm.sample(
                -(-draws // 4), chains=4, random_seed=seed, progressbar=progressbar,
                quiet=not progressbar, initvals=spread_starts(self.model, 4, seed),
            )  # fmt: skip


@dataclass(frozen=True)
class BambiProblem(ModelProblem):
    """A bambi model: its PyMC model, and draws as bambi hands them back."""

    formula: bambi.Model

    @cached_property
    def target(self) -> PyMCTarget:
        from bridge.targets.pymc import pymc_target

        return pymc_target(self.model, leave_out=left_out(self.formula))

    def finish(self, idata: InferenceData) -> InferenceData:
        """Draws of the PyMC model in bambi's form."""
        return tidied(self.formula, idata)


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
    def target(self) -> Target:
        return self.stan_target

    @cached_property
    def start(self) -> Array:
        return stan_start(self.density)

    def nuts(self, draws: int, seed: int, progressbar: bool) -> InferenceData:
        """``draws`` draws of four chains; Stan shows no progress."""
        from stan_models import nuts

        return nuts(self.program, self.data, draws=-(-draws // 4), chains=4, random_seed=seed)


@dataclass(frozen=True)
class DensityProblem:
    """A density of the user's own: log p̃ with its score, without a model or a program."""

    density: Density
    has_program = False

    @property
    def program(self) -> StanProgram:
        raise NoModelError("a density has no Stan program: give the program itself")

    @property
    def data(self) -> Data:
        return None  # the density holds its own

    @property
    def stan_target(self) -> Target:
        raise NoModelError("a density has no Stan program: use `target`")

    @property
    def model(self) -> pm.Model:
        raise NoModelError(
            "a density has no PyMC model: choose methods that work on densities, such as laplace, "
            "batch-match or hierarchical"
        )

    @cached_property
    def target(self) -> Target:
        return DensityTarget(self.density)

    @cached_property
    def start(self) -> Array:
        start = density_start(self.density)
        require_scores(self.density, start)
        return start


GivenProblem = ModelProblem | StanProblem | DensityProblem


def as_problem(
    model: pm.Model
    | bambi.Model
    | StanProgram
    | Density
    | str
    | os.PathLike[str]
    | GivenProblem
    | None,
    data: Data = None,
) -> GivenProblem:
    """The problem of a model (None: PyMC's of the context), of a Stan program, or of a density.

    One that was made before is given back, with what it has compiled.

    Raises
    ------
    ValueError
        Data are given with a model of PyMC or bambi, which has no free variable, or
        ``pm.Minibatch`` data.
    BambiVersionError
        A bambi model whose version cannot put draws into its form.
    StanCompileError, StanDataError, UndefinedDensityError
        Of a Stan program that no method can run on.
    TypeError
        There is no model, given or of the context, or it is none of these.
    DensityError
        A density that lacks a member.
    """
    if isinstance(model, GivenProblem):
        return model
    if model is None or is_bambi(model) or _is_pymc_model(model):
        if data is not None:
            raise ValueError(
                "data belong to a Stan program: a PyMC model already holds its own; use pm.set_data"
            )
        return _of_model(model)
    if not isinstance(model, StanProgram | str | os.PathLike):
        _require_posterior(model)
        require_density(model)
        if data is not None:
            raise ValueError("data belong to a Stan program: a density already holds its own")
        given = DensityProblem(model)
        _ = given.start  # checked before any method runs
        return given
    problem = StanProblem(model if isinstance(model, StanProgram) else StanProgram(model), data)
    _ = problem.start  # what is wrong with program or data is said at once, not by every method
    return problem


def _require_posterior(model: object) -> None:
    """Raise TypeError for a class, and for what has nothing of a density and is no function."""
    members = "dimension", "log_density", "log_density_gradient"
    what, instead = type(model).__name__, "give one of these"
    if isinstance(model, type):
        what = f"the class {model.__name__}"
        instead = "give one that was made, such as the m of `with pm.Model() as m:`"
    elif callable(model) or any(hasattr(model, name) for name in members):
        return
    elif isinstance(model, int | float):
        what += f" {model}"
    raise TypeError(
        "a posterior must be a pm.Model, a bambi model, a Stan program (its source, or the path of "
        f"a .stan file) or a density with {', '.join(members)}, got {what}: {instead}"
    )


def _of_model(model: pm.Model | bambi.Model | None) -> ModelProblem:
    """Of a PyMC model (None: that of the context), or of the one behind a bambi model."""
    from bridge.targets.pymc import require_samplable
    from pymc_ext.models.context import context
    from pymc_ext.models.correlations import with_correlations

    of_pymc = built_model(model) if is_bambi(model) else model
    own = context(of_pymc, "give a pm.Model, a Stan program or a density")
    require_samplable(own)
    return BambiProblem(own, model) if is_bambi(model) else ModelProblem(with_correlations(own))


def _is_pymc_model(model: object) -> TypeGuard[pm.Model]:
    """Whether it is one; while PyMC is not imported there is none."""
    pymc = sys.modules.get("pymc")
    return pymc is not None and isinstance(model, pymc.Model)
