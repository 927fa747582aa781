"""The Gaussian N(μ, LLᵀ) in whose coordinates the flow works."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.variational.core.base import VectorisedApproximation
from pymc_ext.variational.gaussian.laplace import LaplaceVI
from pymc_ext.variational.gaussian.mixed import MixedVI

logger = logging.getLogger(__name__)

Array = NDArray[np.floating]
BASES = ("identity", "laplace", "gaussian", "auto")
ITERATIONS = 10_000  # bound on the quasi-Newton iterations behind a base


def check_base(base: Any) -> None:
    """ValueError unless ``base`` is one of the names or a pair (mean, cov)."""
    if isinstance(base, str):
        if base not in BASES:
            raise ValueError(f"base must be one of {BASES} or (mean, cov), got {base!r}")
    elif not (isinstance(base, tuple | list) and len(base) == 2):
        raise ValueError(f"base must be one of {BASES} or a pair (mean, cov), got {base!r}")


def resolve_base(
    base: Any,
    approx: VectorisedApproximation,
    *,
    start: Mapping[str, Any] | None,
    random_seed: int | None,
) -> tuple[Array, Array, str]:
    """Mean (D,), covariance (D, D) in the model's order, and a note on the choice."""
    if not isinstance(base, str):
        return (*_given(base, approx.group.ddim), "")
    common: dict[str, Any] = {"model": approx.model, "start": start, "random_seed": random_seed}
    D = approx.group.ddim
    if base == "laplace":
        return _laplace_or_start(common, approx)
    if base == "gaussian":
        return *_moments(_gaussian(common, D)), ""
    return _best(common, approx)


def _laplace(common: Mapping[str, Any]) -> Any:
    return LaplaceVI(**common).fit(ITERATIONS, progressbar=False)


def _laplace_or_start(
    common: Mapping[str, Any], approx: VectorisedApproximation
) -> tuple[Array, Array, str]:
    """The Laplace approximation; the initial point and unit scales where there is no mode."""
    try:
        return *_moments(_laplace(common)), ""
    except NoModeError as error:
        note = f"base identity, as there is no Laplace approximation: {error}"
        logger.warning(note)
        return approx.group.start, np.eye(approx.group.ddim), note


def _gaussian(common: Mapping[str, Any], D: int) -> Any:
    inference = MixedVI("lr", rank=D, base="unit", **common)
    return inference.fit(ITERATIONS, progressbar=False)


def _moments(fitted: Any) -> tuple[Array, Array]:
    return np.asarray(fitted.mean.eval()), np.asarray(fitted.cov.eval())


def _best(common: Mapping[str, Any], approx: VectorisedApproximation) -> tuple[Array, Array, str]:
    """The base with the highest ELBO of its own on fresh draws."""
    D = approx.group.ddim
    candidates: dict[str, tuple[float, Array, Array]] = {
        "identity": (
            approx.evaluate(random_seed=common["random_seed"]).elbo,
            approx.group.start,
            np.eye(D),
        )
    }
    for name, fit in (("laplace", _laplace), ("gaussian", lambda c: _gaussian(c, D))):
        try:
            fitted = fit(common)
        except (NoModeError, TypeError) as error:  # no mode, or no second derivatives
            logger.info("base %s is not available: %s", name, error)
            continue
        candidates[name] = (fitted.result.elbo, *_moments(fitted))
    name = max(candidates, key=lambda key: _finite(candidates[key][0]))
    elbos = ", ".join(f"{key} {value[0]:.4g}" for key, value in candidates.items())
    return candidates[name][1], candidates[name][2], f"base {name}, by fresh ELBO ({elbos})"


def _finite(elbo: float) -> float:
    return elbo if np.isfinite(elbo) else -np.inf


def _given(base: Any, D: int) -> tuple[Array, Array]:
    mean, cov = (np.asarray(part, dtype=float) for part in base)
    if mean.shape != (D,) or cov.shape != (D, D):
        raise ValueError(
            f"base=(mean, cov) must have shapes ({D},) and ({D}, {D}), got {mean.shape} and "
            f"{cov.shape}"
        )
    try:
        np.linalg.cholesky(cov)
    except np.linalg.LinAlgError as error:
        raise ValueError("the covariance given as base must be positive definite") from error
    return mean, cov
