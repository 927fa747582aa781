"""A case with everything the methods need of it, made when first asked for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from bridge.errors import IncompleteReferenceError, NoModelError
from bridge.measures.evidence import LogEvidence, log_evidence
from bridge.measures.moments import reference_moments
from bridge.stan.stan_to_pymc import stan_model
from bridge.stan.start import stan_start
from bridge.targets.draws import InferenceData
from bridge.targets.pymc import model_start, pymc_target
from bridge.targets.stan import stan_target
from bridge.targets.target import Target
from posteriordb_cases import Case
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    import pymc as pm

    from stan_models import StanProgram
    from stan_models.density import Data


@cache
def can_compile_stan() -> bool:
    """Whether cmdstanpy and a C++ compiler are here."""
    from stan_models import ToolchainError
    from stan_models.toolchain.compiler import require_compiler

    try:
        require_compiler()
    except ToolchainError:
        return False
    return find_spec("cmdstanpy") is not None


@dataclass(frozen=True)
class CaseProblem:
    """A case seen from Stan and from PyMC, with reference draws on either's unconstrained space.

    A `bridge.methods.method.Problem` that knows the truth, which judging needs.

    Raises
    ------
    NoModelError
        On use, where the case has no Stan program (nor, for methods of PyMC, a port).
    """

    case: Case

    @property
    def has_program(self) -> bool:
        return self.case.stan_code is not None

    @property
    def data(self) -> Data:
        return self.case.data

    @cached_property
    def program(self) -> StanProgram:
        from stan_models import StanProgram

        if self.case.stan_code is None:
            raise NoModelError(
                f"{self.case.name}: its database has no Stan program at "
                f"models/stan/{self.case.model_name}.stan; give a database that has one with "
                "--database, or choose methods that start with pymc-"
            )
        return StanProgram(self.case.stan_code, name=self.case.model_name)

    @cached_property
    def stan_target(self) -> Target:
        return stan_target(self.program.density(self.data), name=self.case.name)

    @property
    def uses_port(self) -> bool:
        """Whether methods of PyMC run on the port, rather than on the Stan program in PyMC.

        They do where there is one, unless it says that it is slow and a Stan program is at hand,
        with the means to compile it.
        """
        slow = self.case.port_is_slow and self.case.stan_code is not None
        return self.case.has_port and not (slow and can_compile_stan())

    @cached_property
    def model(self) -> pm.Model:
        """The PyMC port, or the Stan program as a PyMC model: see `uses_port`."""
        return self.case.model() if self.uses_port else stan_model(self.program, self.data)

    @cached_property
    def target(self) -> Target:
        """log p̃ on the unconstrained space of `model`."""
        if self.uses_port:
            return pymc_target(self.model, name=self.case.name)
        return self.stan_target

    @cached_property
    def start(self) -> Array:
        """Where fits on `target` start, unconstrained, shape (D,)."""
        if self.uses_port:
            return model_start(self.model)
        return stan_start(self.program.density(self.data))

    @cached_property
    def reference(self) -> InferenceData:
        """InferenceData of the reference draws, constrained space."""
        return self.case.reference_draws()

    @cached_property
    def reference_moments(self) -> pd.DataFrame:
        """Moments of the reference draws with their Monte Carlo standard errors."""
        return reference_moments(self.reference)

    @cached_property
    def _reference_theta(self) -> dict[int, Array]:
        return {}

    def reference_theta(self, target: Target) -> Array:
        """The reference draws on ``target``'s unconstrained space, shape (chains, draws, D).

        Raises
        ------
        IncompleteReferenceError
            The reference lacks parameters of the target, and the case cannot recover them.
        """
        key = id(target)
        if key not in self._reference_theta:
            posterior = self.reference["posterior"]
            arrays = {str(name): posterior[name].values for name in posterior.data_vars}
            chains, draws = next(iter(arrays.values())).shape[:2]
            flat = {k: v.reshape(chains * draws, *v.shape[2:]) for k, v in arrays.items()}
            flat = self.case.recover(flat)
            lacking = [name for name in target.parameter_names if name not in flat]
            if lacking:
                raise IncompleteReferenceError(
                    f"the reference draws hold {sorted(arrays)} and not {', '.join(lacking)}"
                )
            theta = target.unconstrain(flat)
            self._reference_theta[key] = np.asarray(theta).reshape(chains, draws, -1)
        return self._reference_theta[key]

    @cached_property
    def _log_evidence(self) -> dict[int, LogEvidence]:
        return {}

    def log_evidence(self, target: Target) -> LogEvidence:
        """log Z of ``target`` by bridge sampling from the reference draws."""
        key = id(target)
        if key not in self._log_evidence:
            self._log_evidence[key] = log_evidence(target, self.reference_theta(target))
        return self._log_evidence[key]
