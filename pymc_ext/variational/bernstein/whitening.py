"""The fitted law in whose coordinates a flow works."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.base import Affine, FlowBase, Hierarchy
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from pymc_ext.variational.ill_posed.runaway import RunawayError

FITTED = {  # what fits the base named, imported when one is wanted: a flow's files are enough
    "laplace": ("gaussian.laplace", "Laplace"),
    "match": ("gaussian.batch_match", "BatchMatch"),
    "hierarchical": ("hierarchical.algorithm", "Hierarchical"),
}
logger = logging.getLogger(__name__)

Places = NDArray[np.integer]
FittedBase = Gaussian | LowRankGaussian | HierarchicalMap
BaseOption = str | FittedBase | tuple[ArrayLike, ArrayLike]
ROUNDED = 1e-8  # of a correlation: by what its two entries may differ where it is symmetric
BASES = ("identity", "laplace", "match", "hierarchical", "auto")


class Whitening(NamedTuple):
    """The base, None for the identity at the start, and a note on the choice."""

    q: FittedBase | None
    note: str = ""


def check_base(
    base: BaseOption | None, ordering: Sequence[str] | None = None
) -> str | FittedBase | None:
    """None, a name, a fitted q, or the Gaussian that (mean, cov) is; ValueError for all else."""
    if base is None:
        return None
    named = isinstance(base, str) and base == "hierarchical"
    if ordering is not None and (named or isinstance(base, HierarchicalMap)):
        raise ValueError(
            "base='hierarchical' brings an order of its own: leave out FlowShape(ordering=...), or "
            "take base='match'"
        )
    if isinstance(base, FittedBase) or (isinstance(base, str) and base in BASES):
        return base
    if isinstance(base, tuple | list) and len(base) == 2:
        return given_base(*base)
    raise ValueError(
        f"base must be one of {BASES}, None ('hierarchical' where that can be), a fitted q, or a "
        f"pair (mean, cov), got {base!r}"
    )


def flow_base(q: FittedBase, order: Places) -> FlowBase:
    """q as a map of normals; a Gaussian, which has no order of its own, in ``order``."""
    if isinstance(q, HierarchicalMap):
        return Hierarchy(q)
    return Affine.of(order, q.mean, q.cov)


def resolve_base(
    base: str | FittedBase | None, density: CountedDensity, start: Array, random_seed: int | None
) -> Whitening:
    """What ``base`` names, fitted where it has to be; its effort is counted by ``density``.

    None is the hierarchical map, or the identity where there is none: it takes exact log densities,
    without parameters beside θ.
    """
    if base is None:
        return _by_default(density, start, random_seed)
    if not isinstance(base, str):
        if base.dimension != density.dimension:
            D, d = density.dimension, base.dimension
            raise ValueError(
                f"base=(mean, cov) must have shapes ({D},) and ({D}, {D}), got ({d},) and "
                f"({d}, {d})"
            )
        return Whitening(base)
    if base == "identity":
        return Whitening(None)
    if base == "auto":
        return _best(density, start, random_seed)
    try:
        return Whitening(_fit(base, density, start, random_seed)[0])
    except NoModeError as error:
        note = f"base match, as there is no Laplace approximation: {error}"
        logger.warning(note)
        return Whitening(_fit("match", density, start, random_seed)[0], note)


def _by_default(density: CountedDensity, start: Array, random_seed: int | None) -> Whitening:
    if density.noisy or density.extra_size:
        return Whitening(None)
    try:
        return Whitening(_fit("hierarchical", density, start, random_seed)[0])
    except RunawayError:
        raise  # the posterior is improper, for any family
    except (ValueError, ArithmeticError) as error:
        note = f"base identity, as there is no hierarchical map: {error}"
        logger.warning(note)
        return Whitening(None, note)


def base_algorithm(name: str) -> Algorithm[FittedBase]:
    """What fits the base that is named."""
    home, of = FITTED[name]
    algorithm: Algorithm[FittedBase] = getattr(import_module(f"pymc_ext.variational.{home}"), of)()
    return algorithm


def _fit(
    name: str, density: CountedDensity, start: Array, random_seed: int | None
) -> tuple[FittedBase, FreshDraws]:
    """A base fitted with the density's other parameters as they are, and its fresh draws."""
    algorithm = base_algorithm(name)
    with density.extras_fixed(), Monitor.silent() as monitor:
        fitted = run_algorithm(algorithm, density, start, random_seed=random_seed, monitor=monitor)
    assert fitted.result.fresh is not None
    return fitted.q, fitted.result.fresh


def _best(density: CountedDensity, start: Array, random_seed: int | None) -> Whitening:
    """The base with the highest ELBO of its own on fresh draws."""
    eye = np.eye(density.dimension)
    rng = stream(random_seed, Purpose.FRESH)
    plain = fresh_draws(Gaussian(start, eye, eye), density, rng)
    candidates: dict[str, tuple[float, FittedBase | None]] = {"identity": (plain.elbo, None)}
    for name in FITTED:
        try:
            q, fresh = _fit(name, density, start, random_seed)
        except (NoModeError, ValueError) as error:  # no mode; or q ran away
            logger.info("base %s is not available: %s", name, error)
            continue
        candidates[name] = (fresh.elbo, q)
    name = max(candidates, key=lambda key: np.nan_to_num(candidates[key][0], nan=-np.inf))
    elbos = ", ".join(f"{key} {value[0]:.4g}" for key, value in candidates.items())
    return Whitening(candidates[name][1], f"base {name}, by fresh ELBO ({elbos})")


def given_base(mean: ArrayLike, cov: ArrayLike) -> Gaussian:
    """N(mean (D,), cov (D, D)); ValueError if it is none."""
    m, S = np.asarray(mean, dtype=float), np.asarray(cov, dtype=float)
    if m.ndim != 1 or S.shape != (len(m), len(m)):
        raise ValueError(
            f"base=(mean, cov) must have shapes (D,) and (D, D), got {m.shape} and {S.shape}"
        )
    if not (np.isfinite(m).all() and np.isfinite(S).all()):
        raise ValueError("base=(mean, cov) must be finite, got NaN or infinity: leave out base=")
    sd = np.sqrt(np.abs(np.diag(S)))
    if (np.abs(S - S.T) > ROUNDED * np.outer(sd, sd)).any():  # a factor is of the lower half alone
        raise ValueError("the covariance given as base must be symmetric: give (S + S.T) / 2")
    try:
        return Gaussian(m, np.linalg.cholesky(S))
    except np.linalg.LinAlgError as error:
        raise ValueError("the covariance given as base must be positive definite") from error
