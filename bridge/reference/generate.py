"""Make a case's reference draws with Stan NUTS and admit them by posteriordb's criteria."""

from __future__ import annotations

import datetime
import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from numpy.typing import NDArray

from bridge.errors import NoModelError
from bridge.reference.admission import (
    KEPT_DRAWS,
    AdmissionError,
    admission_checks,
    diagnose,
    require_admitted,
    too_dependent,
)
from bridge.targets.draws import InferenceData
from posteriordb_cases import Case, list_cases, load_case, write_reference_draws
from posteriordb_cases.database import require_folder
from posteriordb_cases.writer import write_refusal
from pymc_ext.seeds import check_seed
from stan_models.errors import StanRunError

__all__ = ["AdmissionError", "generate"]

THINNING = (10, 30, 100)  # tried in this order until the draws are independent enough
ADAPT_DELTAS = (0.95, 0.99, 0.999)  # tried in this order until no transition diverges
_log = logging.getLogger(__name__)


class Control(TypedDict):
    """posteriordb's ``control`` of a sampler."""

    adapt_delta: float


class Settings(TypedDict):
    """posteriordb's ``method_arguments``."""

    chains: int
    iter: int
    warmup: int
    thin: int
    seed: int
    control: Control


def generate(
    name: str,
    *,
    database: str | os.PathLike[str] | None = None,
    random_seed: int = 1,
    chains: int = 10,
    warmup: int = 10_000,
    thin: int | None = None,
    adapt_delta: float | None = None,
    timeout: float | None = None,
) -> Path:
    """Sample a case with Stan NUTS, check the draws and write them into its database.

    Where posteriors share one reference (both parametrisations of the eight schools), the program
    of the posterior that the reference is named after is sampled. A posterior that names no
    reference is its own from then on. Draws that are not admitted are not written; a record beside
    where their info would be (``.refused.json``) says why, with the diagnostics.

    Parameters
    ----------
    name
        Name or alias of the case.
    database
        A database on this machine that can be written, as in ``load_case``.
    random_seed
        Seed of Stan.
    chains, warmup
        Number of chains, which must divide 10,000, and the iterations each adapts for.
    thin
        Every ``thin``-th draw is kept, of as many as make 10,000 kept ones. None tries 10, 30 and
        100 until the draws are independent enough.
    adapt_delta
        Target acceptance rate of NUTS, in (0, 1). None tries 0.95, 0.99 and 0.999 until no
        transition diverges.
    timeout
        Seconds after which each chain of a run is given up; three to nine runs are tried.

    Returns
    -------
    Path
        The zip archive of draws; the info file with diagnostics and checks lies beside it.

    Raises
    ------
    AdmissionError
        If a check fails: says which, by how much and what to change.
    NoModelError
        If the case has no Stan program.
    StanError
        If the program does not compile, or Stan fails or takes longer than ``timeout``.
    ValueError
        If the case is unknown, or a count is out of range.
    PermissionError
        If the database cannot be written.

    Examples
    --------
    >>> path = generate("gaussian_correlated", database="my/posteriordb")  # doctest: +SKIP

    References
    ----------
    Magnusson et al. (2025), "posteriordb: Testing, benchmarking and developing Bayesian
    inference algorithms", AISTATS. arXiv:2407.04967
    """
    require_folder(database)
    check_seed(random_seed)
    case = load_case(name, database).reference_source
    _check_arguments(case, chains, thin, adapt_delta)
    made_of = case.made_of  # before sampling: files may change meanwhile
    thins: Sequence[int] = THINNING if thin is None else (thin,)
    deltas: Sequence[float] = ADAPT_DELTAS if adapt_delta is None else (adapt_delta,)
    begin = time.monotonic()
    while True:
        settings = _settings(chains, warmup, thins[0], random_seed, deltas[0])
        try:
            fit = _sample(case, settings, timeout)
        except StanRunError as error:  # a program that is not valid is soon told again
            of_limit = "" if timeout is None else f" (timeout: {timeout:g} s)"
            refused = _info(case, made_of, settings, time.monotonic() - begin)
            refused |= {"refused": f"{error}{of_limit}"}
            write_refusal(case.database, refused)
            raise
        kept = _kept(case, fit, thins[0])
        diagnostics = diagnose(kept, fit["sample_stats"])
        checks = admission_checks(diagnostics)
        thin_more = too_dependent(checks) and len(thins) > 1
        step_less = not checks["no_divergent_transitions"] and len(deltas) > 1
        if not (thin_more or step_less):
            break
        _log.info(
            "%s: not admitted with %s (%s), trying again",
            case.name, settings, ", ".join(name for name, ok in checks.items() if not ok),
        )  # fmt: skip
        thins, deltas = thins[thin_more:], deltas[step_less:]
    info = _info(case, made_of, settings, time.monotonic() - begin) | {
        "diagnostics": diagnostics,
        "checks_made": checks,
        "versions": _versions(fit),
    }
    try:
        require_admitted(case.name, checks, diagnostics)
    except AdmissionError as error:
        write_refusal(case.database, info | {"refused": str(error)})
        raise
    path = write_reference_draws(case.database, kept, info)
    _log.info("reference draws of %s pass all checks, written to %s", case.name, path)
    return path


def _check_arguments(case: Case, chains: int, thin: int | None, adapt_delta: float | None) -> None:
    if case.stan_code is None:
        raise NoModelError(
            f"case {case.name!r} has no Stan program at models/stan/{case.model_name}.stan in "
            f"{case.database}: give a database that has one"
        )
    if chains < 1 or KEPT_DRAWS % chains:
        raise ValueError(f"chains must divide {KEPT_DRAWS}, got {chains}")
    if thin is not None and thin < 1:
        raise ValueError(f"thin must be >= 1, got {thin}")
    if adapt_delta is not None and not 0 < adapt_delta < 1:
        raise ValueError(f"adapt_delta must be in (0, 1), got {adapt_delta}")
    if not os.access(case.database, os.W_OK):
        raise PermissionError(
            f"{case.database} cannot be written: give a database that can with --database"
        )


def _settings(
    chains: int, warmup: int, thin: int, random_seed: int, adapt_delta: float
) -> Settings:
    return {
        "chains": chains,
        "iter": warmup + KEPT_DRAWS // chains * thin,
        "warmup": warmup,
        "thin": thin,
        "seed": random_seed,
        "control": {"adapt_delta": adapt_delta},
    }


def _sample(case: Case, settings: Settings, timeout: float | None) -> InferenceData:
    from stan_models import StanProgram, nuts

    assert case.stan_code is not None  # checked by _check_arguments
    program = StanProgram(case.stan_code, name=case.model_name)
    return nuts(
        program,
        case.data,
        chains=settings["chains"],
        warmup=settings["warmup"],
        draws=settings["iter"] - settings["warmup"],
        random_seed=settings["seed"],
        adapt_delta=settings["control"]["adapt_delta"],
        timeout=timeout,
    )


def _kept(case: Case, fit: InferenceData, thin: int) -> dict[str, NDArray]:
    posterior = fit["posterior"]
    missing = [name for name in case.dimensions if name not in posterior]
    if missing:
        raise ValueError(
            f"{case.name}: dimensions name {', '.join(missing)}, which the Stan program has not"
        )
    return {name: posterior[name].values[:, thin - 1 :: thin] for name in case.dimensions}


def _info(
    case: Case, made_of: dict[str, str], settings: Settings, seconds: float
) -> dict[str, object]:
    """posteriordb's info file of reference draws, without diagnostics; the seconds are of all tries
    and what is computed of their draws."""
    return {
        "name": case.name,
        "made_of": made_of,
        "inference": {
            "method": "stan_sampling",
            "method_arguments": settings,
            "seconds": round(seconds, 1),
        },
        "diagnostics": None,
        "checks_made": None,
        "comments": _comments(case),
        "added_by": "python -m bridge generate",
        "added_date": datetime.date.today().isoformat(),
        "versions": None,
    }


def _comments(case: Case) -> str | None:
    """Which other posteriors of the database share the draws."""
    others = [
        other
        for other in list_cases(case.database)
        if other != case.name and load_case(other, case.database).reference_name == case.name
    ]
    if not others:
        return None
    return (
        f"Sampled with the program of {case.name}; {', '.join(others)} has the same posterior of "
        "the variables both have and shares these draws."
    )


def _versions(fit: InferenceData) -> dict[str, str]:
    attributes = fit["posterior"].attrs
    keys = ("engine", "stan_version", "cmdstanpy_version")
    return {key: str(attributes[key]) for key in keys if key in attributes}
