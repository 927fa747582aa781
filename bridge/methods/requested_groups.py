"""Groups made on request: ``log_likelihood``, ``log_prior``, ``prior``.

A PyMC model has them of PyMC's own functions, a bambi model of bambi's. A Stan program has what it
generates: ``log_lik``, ``lprior``, and draws of the prior under names that the user gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from bridge.methods.named_groups import (
    LOG_LIK,
    Finish,
    moved_there,
    require_generated,
    require_shapes,
)
from bridge.methods.problems import BambiProblem, GivenProblem, ModelProblem, StanProblem
from bridge.targets.draws import InferenceData
from pymc_ext.options import require_flag

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Requested", "requests_of"]

LPRIOR = "lprior"  # what brms generates, and priorsense looks for


@dataclass(frozen=True)
class Requested:
    """Which groups are asked for.

    Parameters
    ----------
    log_likelihood
        log p(y_n | θ) of each observed row.
    log_prior
        log p of each variable, on its own scale.
    prior
        Draws of the prior; of a Stan program the generated quantities that are such, by the names
        of what they are draws of.

    Raises
    ------
    TypeError
        One is something else.
    """

    log_likelihood: bool = False
    log_prior: bool = False
    prior: bool | Mapping[str, str] = False

    def __post_init__(self) -> None:
        require_flag("log_likelihood", self.log_likelihood)
        require_flag("log_prior", self.log_prior)
        if not isinstance(self.prior, Mapping):
            require_flag("prior", self.prior, "of a Stan program names, as {'mu': 'mu_prior'}")

    def __bool__(self) -> bool:
        return bool(self.log_likelihood or self.log_prior or self.prior)

    @property
    def names(self) -> list[str]:
        """The groups."""
        return [name for name in ("log_likelihood", "log_prior", "prior") if getattr(self, name)]


def requests_of(
    problem: GivenProblem, requested: Requested, draws: int, random_seed: int
) -> Finish | None:
    """What adds them to draws in their final form; None where nothing is to be added.

    Parameters
    ----------
    problem
        Whose posterior it is.
    requested
        What was asked for.
    draws
        Of the prior, in one chain. They are made at once, so that a prior that cannot be drawn from
        is refused before any fit.
    random_seed
        Of these.

    Raises
    ------
    ValueError
        The problem has no such group; it says what to do instead.
    """
    if not requested:
        return None
    if isinstance(problem, StanProblem):
        return _of_program(problem, requested)
    if isinstance(requested.prior, Mapping):
        raise ValueError(
            f"prior={dict(requested.prior)} names generated quantities of a Stan program: give "
            "prior=True"
        )
    if isinstance(problem, BambiProblem):
        return _of_bambi(problem, requested, draws, random_seed)
    if isinstance(problem, ModelProblem):
        return _of_model(problem, requested, draws, random_seed)
    raise ValueError(
        f"{', '.join(requested.names)} cannot be had of a density, which knows neither its prior "
        "nor its likelihood: give a pm.Model or a Stan program, or leave it out"
    )


# ---------------------------------------------------------------- PyMC and bambi


def _of_model(problem: ModelProblem, requested: Requested, draws: int, seed: int) -> Finish:
    from pymc_ext.models.prior import prior_draws

    model = problem.model
    if requested.log_likelihood and not model.observed_RVs:
        raise ValueError(
            "log_likelihood needs observed variables, and the model has none: leave it out"
        )
    prior = prior_draws(model, draws, seed) if requested.prior else None

    def finish(idata: InferenceData) -> InferenceData:
        from pymc.stats import compute_log_likelihood, compute_log_prior

        if requested.log_likelihood:
            compute_log_likelihood(idata, model=model, progressbar=False)
        if requested.log_prior:
            compute_log_prior(idata, model=model, progressbar=False)
        return _with_prior(idata, prior)

    return finish


def _of_bambi(problem: BambiProblem, requested: Requested, draws: int, seed: int) -> Finish:
    from pymc_ext.arviz_versions import as_dataset

    formula = problem.formula
    if requested.log_prior:
        raise ValueError(
            "log_prior cannot be had in bambi's form, whose intercept is not that of the PyMC "
            "model that has the priors: leave it out, or fit model.backend.model"
        )
    prior = None
    if requested.prior:
        from pymc_ext.models.prior import drawing_from_prior

        # without the response, whose draws of a wide prior are beyond what NumPy's counts hold
        names = [str(variable.name) for variable in problem.model.unobserved_RVs]
        with drawing_from_prior():
            drawn = formula.prior_predictive(draws, var_names=names, random_seed=seed)
        prior = as_dataset(drawn["prior"])

    def finish(idata: InferenceData) -> InferenceData:
        if requested.log_likelihood:
            formula.compute_log_likelihood(idata)
        return _with_prior(idata, prior)

    return finish


def _with_prior(idata: InferenceData, prior: xr.Dataset | None) -> InferenceData:
    from pymc_ext.arviz_versions import add_group

    if prior is not None:
        add_group(idata, "prior", prior)
    return idata


# ---------------------------------------------------------------- Stan


def _of_program(problem: StanProblem, requested: Requested) -> Finish | None:
    generated = problem.density.generated_names
    if requested.log_likelihood and LOG_LIK not in generated:
        raise ValueError(
            f"log_likelihood is the generated quantity {LOG_LIK} of a Stan program, got a program "
            f"that generates {generated}: add vector[N] {LOG_LIK}, with the log density of each row"
        )
    if requested.log_prior and LPRIOR not in generated:
        raise ValueError(
            f"log_prior is the generated quantity {LPRIOR} of a Stan program, got a program that "
            f"generates {generated}: add real {LPRIOR}, with the log density of its prior"
        )
    if requested.prior and not isinstance(requested.prior, Mapping):
        raise ValueError(
            "a Stan program does not say how to draw from its prior: add a generated quantity that "
            "does, such as real mu_prior = normal_rng(0, 5), and name it: "
            "prior={'mu': 'mu_prior'} (on the command line --prior mu=mu_prior)"
        )
    groups = {}
    if requested.log_prior:
        groups["log_prior"] = {LPRIOR: LPRIOR}
    if isinstance(requested.prior, Mapping):
        require_generated(problem, requested.prior, "prior")
        known = problem.density.quantity_shapes
        unknown = [name for name in requested.prior if name not in known]
        if unknown:
            raise ValueError(
                f"prior must map names of the program's quantities to draws of their priors, got "
                f"{dict(requested.prior)} and no {unknown}; it has {list(known)}"
            )
        require_shapes(problem, requested.prior, known, "prior")
        groups["prior"] = dict(requested.prior)
    return partial(_moved, groups=groups) if groups else None


def _moved(idata: InferenceData, groups: Mapping[str, Mapping[str, str]]) -> InferenceData:
    for group, names in groups.items():
        idata = moved_there(idata, names, group)
    return idata
