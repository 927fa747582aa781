"""What the methods of all peers have in common."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bridge.errors import NoModelError
from bridge.methods.method import Fit, LogDensity, Method, Problem, RunMethod
from bridge.methods.options import options_text
from bridge.targets.target import Target
from pymc_ext.maths.types import Array
from pymc_ext.sampling.options import START_RADIUS

if TYPE_CHECKING:
    from pymc_ext.density.in_jax import JaxLogDensity

__all__ = [
    "compiled",
    "fit_of",
    "imported",
    "in_jax",
    "peer",
    "quiet",
    "starts",
]

Found = TypeVar("Found")
DRAWS_TOGETHER = 1000  # that JAX makes at once, which bounds its memory


def peer(name: str, text: str, package: str, run: RunMethod, sampler: bool = False) -> Method:
    """A method that runs where it is asked for, and says in lists what it needs."""
    described = f"{text}; needs {package}"
    return Method(name, described, "pymc", run, default=False, general=False, sampler=sampler)


def imported(module: str, package: str) -> ModuleType:
    """A module of a peer.

    Raises
    ------
    ImportError
        It is not installed, or cannot be imported; says how to get it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            f"this method needs {package}, which cannot be imported ({error}): "
            "pip install 'trusted-posteriors[peers]'"
        ) from error


@contextmanager
def quiet(package: str) -> Iterator[None]:
    """What a peer warns of or logs below an error is no part of a comparison's output."""
    logger = logging.getLogger(package)
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def in_jax(problem: Problem) -> tuple[Target, JaxLogDensity]:
    """The target, and its log p̃ as a JAX function of one point (D,).

    Raises
    ------
    NoModelError
        There is none: a Stan program, a density in NumPy, or a model with an operation that JAX
        does not have.
    ImportError
        JAX is not installed.
    """
    imported("jax", "jax").config.update("jax_enable_x64", True)
    from pymc_ext.density.in_jax import jax_log_density
    from pymc_ext.density.model import PyMCDensity

    target = problem.target
    given = getattr(target.density, "jax_function", None)
    if given is not None:
        return target, given
    if not isinstance(target.density, PyMCDensity):
        raise NoModelError(
            f"no JAX function of the log density of {target.name}: methods of NumPyro and BlackJAX "
            "and nutpie's flow work on models written in PyMC and on densities with jax=True; "
            "choose others, such as batch-match or bernstein"
        )
    try:
        return target, jax_log_density(target.density)
    except NotImplementedError as error:
        raise NoModelError(
            f"no JAX function of the log density of {target.name}: {error}; choose methods that "
            "do not need JAX, such as batch-match or bernstein"
        ) from error


def compiled(function: Callable[..., Found], *arguments: object) -> tuple[Found, float, float]:
    """What JAX's compilation of a function gives for arguments, the seconds of compiling and of
    running."""
    import jax

    begin = time.perf_counter()
    made = jax.jit(function).lower(*arguments).compile()
    start = time.perf_counter()
    found = jax.block_until_ready(made(*arguments))
    return found, start - begin, time.perf_counter() - start


def starts(paths: int, dimension: int, seed: int) -> Array:
    """Where paths begin, (paths, D)."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-START_RADIUS, START_RADIUS, (paths, dimension))


def fit_of(
    target: Target,
    theta: Array,
    lq: Array | None,
    *,
    package: str,
    seconds: float,
    compile_seconds: float | None,
    options: Mapping[str, object],
    log_q: LogDensity | None = None,
    gradients: int | None = None,
    losses: Array | None = None,
    info: Mapping[str, object] | None = None,
) -> Fit:
    """A `Fit` of draws θ (N, D) with log q (N,), None where there is none.

    Where log p̃ is undefined a draw has no weight, as for our own families.

    Raises
    ------
    RuntimeError
        Draws, or log q of them, are not finite: the fit ran away.
    """
    finite = np.isfinite(theta).all(axis=1)
    bad = int(np.sum(~finite if lq is None else ~finite | ~np.isfinite(lq)))
    if bad:
        what = "particles" if lq is None else "q, or their log q,"
        raise RuntimeError(
            f"{bad} of {len(theta)} draws of {package}'s {what} are not finite: its "
            "fit ran away; try another method, or smaller steps"
        )
    with np.errstate(all="ignore"):
        lp = target.log_density(theta)
    outside = int(np.sum(~np.isfinite(lp)))
    if lq is None and outside:  # which a weight would leave out
        raise RuntimeError(
            f"log p̃ is not finite at {outside} of {len(theta)} particles of {package}: they left "
            "the support; map bounded variables to the real line, as PyMC and Stan do"
        )
    undefined = int(np.isnan(lp).sum())
    lp = np.where(np.isnan(lp), -np.inf, lp)
    return Fit(
        target=target,
        theta=theta[None],
        lp=lp[None],
        lq=None if lq is None else lq[None],
        log_q=log_q,
        seconds=seconds,
        compile_seconds=compile_seconds,
        gradient_evaluations=gradients,
        losses=losses,
        info={
            "engine": f"{package} {version(package)}",
            **({"undefined": undefined} if undefined else {}),
            **(info or {}),
            "options": options_text(**options),
        },
    )
