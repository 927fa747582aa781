"""The fitted law in whose coordinates a flow works."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pymc_ext.density import CountedDensity
from pymc_ext.interrupts import Interrupts, is_interrupt
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.base import Affine, FlowBase, Hierarchy, OrderedMap
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.core.algorithm import Algorithm, run_algorithm
from pymc_ext.variational.core.monitor import Monitor, ended_by_interrupt, nothing_yet
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.ill_posed.runaway import RunawayError

logger = logging.getLogger(__name__)

Places = NDArray[np.integer]
FittedBase = Gaussian | LowRankGaussian | OrderedMap
ROUNDED = 1e-8  # of a correlation: by what its two entries may differ where it is symmetric


class Whitening(NamedTuple):
    """The base, None for the identity at the start, a note on the choice, and whether Ctrl-C ended
    the fit of it: q is the best that it had found by then."""

    q: FittedBase | None
    note: str = ""
    interrupted: bool = False


class _Fitted(NamedTuple):
    """A base with its fresh draws, and whether Ctrl-C ended its fit."""

    q: FittedBase
    fresh: FreshDraws
    interrupted: bool


class Base(ABC):
    """What a flow's ``base=`` asks for.

    Attributes
    ----------
    name
        In the name of the method; empty where nothing is fitted, or what is has no name.
    """

    name: str

    @property
    def is_map(self) -> bool:
        """Whether it is the hierarchical map, whose order of conditioning the flow takes."""
        return False

    @property
    def may_be_map(self) -> bool:
        """Whether it may be that map, of which there is no graph."""
        return self.is_map

    @abstractmethod
    def whiten(self, density: CountedDensity, start: Array, seed: int | None) -> Whitening:
        """The law, fitted where it has to be; its effort is counted by ``density``.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C before there was any.
        """


class Identity(Base):
    """The start plus y."""

    name = ""

    def whiten(self, density: CountedDensity, start: Array, seed: int | None) -> Whitening:
        return Whitening(None)


@dataclass(frozen=True)
class Given(Base):
    """A law that is there already."""

    q: FittedBase
    name: str = field(default="", init=False)

    @property
    def is_map(self) -> bool:
        return isinstance(self.q, OrderedMap)

    def whiten(self, density: CountedDensity, start: Array, seed: int | None) -> Whitening:
        if self.q.dimension != density.dimension:
            D, d = density.dimension, self.q.dimension
            raise ValueError(
                f"base=(mean, cov) must have shapes ({D},) and ({D}, {D}), got ({d},) and "
                f"({d}, {d}), or a q of so many coordinates: give one fitted to this model, or "
                "leave out base="
            )
        return Whitening(self.q)


@dataclass(frozen=True)
class AlgorithmBase(Base):
    """The law of an algorithm, imported when it is wanted: a flow's files are enough.

    Where there is no mode it is batch and match's, and the note says so.
    """

    name: str
    home: str
    of: str

    @property
    def algorithm(self) -> Algorithm[FittedBase]:
        """What fits it."""
        module = import_module(f"pymc_ext.variational.{self.home}")
        algorithm: Algorithm[FittedBase] = getattr(module, self.of)()
        return algorithm

    def whiten(self, density: CountedDensity, start: Array, seed: int | None) -> Whitening:
        try:
            fitted, note = _fit(self, density, start, seed), ""
        except NoModeError as error:
            note = f"base match, as there is no Laplace approximation: {error}"
            logger.warning(note)
            fitted = _fit(MATCH, density, start, seed)
        return Whitening(fitted.q, note, fitted.interrupted)


class HierarchicalBase(AlgorithmBase):
    """The hierarchical map."""

    @property
    def is_map(self) -> bool:
        return True


class ByDefault(Base):
    """The hierarchical map, or the identity where there is none: it takes exact log densities,
    without parameters beside θ."""

    name = ""

    @property
    def may_be_map(self) -> bool:
        return True

    def whiten(self, density: CountedDensity, start: Array, seed: int | None) -> Whitening:
        if density.noisy or density.extra_size:
            return Whitening(None)
        try:
            fitted = _fit(HIERARCHICAL, density, start, seed)
            return Whitening(fitted.q, interrupted=fitted.interrupted)
        except RunawayError:
            raise  # the posterior is improper, for any family
        except (ValueError, ArithmeticError) as error:
            note = f"base identity, as there is no hierarchical map: {error}"
            logger.warning(note)
            return Whitening(None, note)


class Best(Base):
    """The one with the highest ELBO of its own on fresh draws."""

    name = "auto"

    @property
    def may_be_map(self) -> bool:
        return True

    def whiten(self, density: CountedDensity, start: Array, seed: int | None) -> Whitening:
        eye, rng = np.eye(density.dimension), stream(seed, Purpose.FRESH)
        plain = fresh_draws(Gaussian(start, eye, eye), density, rng)
        candidates: dict[str, tuple[float, FittedBase | None]] = {"identity": (plain.elbo, None)}
        interrupted = False
        for base in (LAPLACE, MATCH, HIERARCHICAL):
            try:
                fitted = _fit(base, density, start, seed)
            except (NoModeError, ValueError) as error:  # no mode; or q ran away
                logger.info("base %s is not available: %s", base.name, error)
                continue
            except KeyboardInterrupt:
                if len(candidates) == 1:  # the start, which nothing was fitted to
                    raise
                interrupted = True
                break
            candidates[base.name] = (fitted.fresh.elbo, fitted.q)
            if interrupted := fitted.interrupted:
                break
        name = max(candidates, key=lambda key: np.nan_to_num(candidates[key][0], nan=-np.inf))
        elbos = ", ".join(f"{key} {value[0]:.4g}" for key, value in candidates.items())
        note = f"base {name}, by fresh ELBO ({elbos})"
        return Whitening(candidates[name][1], note, interrupted)


LAPLACE = AlgorithmBase("laplace", "gaussian.laplace", "Laplace")
MATCH = AlgorithmBase("match", "gaussian.batch_match", "BatchMatch")
HIERARCHICAL = HierarchicalBase("hierarchical", "hierarchical.algorithm", "Hierarchical")
BASES: dict[str, Base] = {
    "identity": Identity(),
    "laplace": LAPLACE,
    "match": MATCH,
    "hierarchical": HIERARCHICAL,
    "auto": Best(),
}
BaseOption = str | FittedBase | tuple[ArrayLike, ArrayLike]


def base_of(option: BaseOption | None, ordering: Sequence[str] | None = None) -> Base:
    """What ``base=option`` asks for, beside an ``ordering`` of a user's own; ValueError where that
    is nothing."""
    base = _asked_for(option, ordering)
    if ordering is not None and base.is_map:
        raise ValueError(
            "base='hierarchical' brings an order of its own: leave out FlowShape(ordering=...), or "
            "take base='match'"
        )
    return base


def _asked_for(option: BaseOption | None, ordering: Sequence[str] | None) -> Base:
    if option is None:
        return ByDefault() if ordering is None else BASES["identity"]  # the map has its own order
    if isinstance(option, FittedBase):
        return Given(option)
    if isinstance(option, str) and option in BASES:
        return BASES[option]
    if isinstance(option, tuple | list) and len(option) == 2:
        return Given(given_base(*option))
    if hasattr(option, "result") and hasattr(option, "q"):  # of pm.fit, or of an algorithm
        raise ValueError(
            f"base must be the q of a fit, got the {type(option).__name__} that holds it: give its "
            ".q, as base=approx.q"
        )
    if isinstance(option, BernsteinFlow):
        raise ValueError(
            "base must be a Gaussian or a hierarchical map, got a flow: go on from it by refine(n) "
            "of its BernsteinVI, or give the base that it was fitted on"
        )
    raise ValueError(
        f"base must be one of {tuple(BASES)}, None ('hierarchical' where that can be), a fitted q, "
        f"or a pair (mean, cov), got {option!r}"
    )


def flow_base(q: FittedBase, order: Places) -> FlowBase:
    """q as a map of normals; a Gaussian, which has no order of its own, in ``order``."""
    if isinstance(q, OrderedMap):
        return Hierarchy(q)
    return Affine.of(order, q.mean, q.cov)


def _fit(base: AlgorithmBase, density: CountedDensity, start: Array, seed: int | None) -> _Fitted:
    """A base fitted with the density's other parameters as they are.

    Ctrl-C ends the whole fit, also where the base takes it as the end of its own, or comes through
    one as it judges what it found. Raises KeyboardInterrupt where there is no base yet.
    """
    with density.extras_fixed(), Monitor.silent() as monitor, Interrupts() as interrupts:
        try:
            fitted = run_algorithm(
                base.algorithm, density, start, random_seed=seed, monitor=monitor
            )
        except (KeyboardInterrupt, SystemError, ValueError, ArithmeticError) as error:
            if interrupts.seen or is_interrupt(error):
                raise nothing_yet(KeyboardInterrupt()) from None
            raise
    result = fitted.result
    assert result.fresh is not None
    interrupted = interrupts.seen or ended_by_interrupt(result.stop_reason)
    return _Fitted(fitted.q, result.fresh, interrupted)


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
        least = np.linalg.eigvalsh(S)[0]
        raise ValueError(
            "the covariance given as base must be positive definite, got a smallest eigenvalue of "
            f"{least:.2g}: leave out base=, take base='match', or add a little to the diagonal"
        ) from error
