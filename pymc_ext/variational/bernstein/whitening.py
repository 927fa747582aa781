"""The Gaussian N(μ, LLᵀ) in whose coordinates the flow works."""

from __future__ import annotations

import logging
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.variational.core.algorithm import Algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.mixed import Mixed
from pymc_ext.variational.gaussian.posteriors import Gaussian

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
Base = str | tuple[ArrayLike, ArrayLike]
BASES = ("identity", "laplace", "gaussian", "auto")
ITERATIONS = 10_000  # bound on the iterations behind a base: none has needed a tenth of them


class Whitening(NamedTuple):
    """The Gaussian to whiten with, None for the identity at the start, and a note on the choice."""

    q: Gaussian | None
    note: str = ""


def check_base(base: object) -> None:
    """ValueError unless ``base`` is one of the names or a pair (mean, cov)."""
    if isinstance(base, str):
        if base not in BASES:
            raise ValueError(f"base must be one of {BASES} or (mean, cov), got {base!r}")
    elif not (isinstance(base, tuple | list) and len(base) == 2):
        raise ValueError(f"base must be one of {BASES} or a pair (mean, cov), got {base!r}")


def resolve_base(
    base: Base, density: CountedDensity, start: Array, random_seed: int | None
) -> Whitening:
    """What ``base`` names, fitted where it has to be; its effort is counted by ``density``."""
    if not isinstance(base, str):
        return Whitening(given_base(base, density.dimension))
    if base == "identity":
        return Whitening(None)
    if base == "auto":
        return _best(density, start, random_seed)
    try:
        return Whitening(_fit(base, density, start, random_seed)[0])
    except NoModeError as error:
        note = f"base identity, as there is no Laplace approximation: {error}"
        logger.warning(note)
        return Whitening(None, note)


def _fit(
    name: str, density: CountedDensity, start: Array, random_seed: int | None
) -> tuple[Gaussian, FreshDraws]:
    """A Gaussian fitted with the density's other parameters as they are, and its fresh draws."""
    algorithm: Algorithm = Laplace(random_seed=random_seed)
    if name == "gaussian":
        algorithm = Mixed("lr", density.dimension, base="unit", random_seed=random_seed)
    with density.extras_fixed(), Monitor.silent() as monitor:
        fitted = algorithm.run(density, start, ITERATIONS, monitor)
    assert fitted.result.fresh is not None
    return fitted.q, fitted.result.fresh


def _best(density: CountedDensity, start: Array, random_seed: int | None) -> Whitening:
    """The base with the highest ELBO of its own on fresh draws."""
    eye = np.eye(density.dimension)
    rng = stream(random_seed, Purpose.FRESH)
    plain = fresh_draws(Gaussian(start, eye, eye), density, rng)
    candidates: dict[str, tuple[float, Gaussian | None]] = {"identity": (plain.elbo, None)}
    for name in ("laplace", "gaussian"):
        try:
            q, fresh = _fit(name, density, start, random_seed)
        except (NoModeError, ValueError) as error:  # no mode; or q ran away
            logger.info("base %s is not available: %s", name, error)
            continue
        candidates[name] = (fresh.elbo, q)
    name = max(candidates, key=lambda key: np.nan_to_num(candidates[key][0], nan=-np.inf))
    elbos = ", ".join(f"{key} {value[0]:.4g}" for key, value in candidates.items())
    return Whitening(candidates[name][1], f"base {name}, by fresh ELBO ({elbos})")


def given_base(base: tuple[ArrayLike, ArrayLike], D: int) -> Gaussian:
    """The pair (mean (D,), cov (D, D)) as a Gaussian; ValueError if it is none."""
    mean, cov = (np.asarray(part, dtype=float) for part in base)
    if mean.shape != (D,) or cov.shape != (D, D):
        raise ValueError(
            f"base=(mean, cov) must have shapes ({D},) and ({D}, {D}), got {mean.shape} and "
            f"{cov.shape}"
        )
    try:
        return Gaussian(mean, np.linalg.cholesky(cov))
    except np.linalg.LinAlgError as error:
        raise ValueError("the covariance given as base must be positive definite") from error
