"""Errors of an approximation's moments and quantiles against reference draws.

One row a scalar, labelled as ArviZ labels it (``theta[0]``, ``L[1, 0]``). Every error comes in two
units: the reference's posterior standard deviation (is it large?) and the Monte Carlo standard
error of the reference's own estimate (is it distinguishable from none?).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import arviz as az
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bridge.measures.limits import CONSTANT_QUANTITY
from bridge.targets.draws import InferenceData
from pymc_ext.maths.types import Array
from pymc_ext.options import as_numbers

__all__ = ["QUANTILES", "MomentSummary", "moment_errors", "reference_moments", "worst"]

QUANTILES = {"q5": 0.05, "q50": 0.5, "q95": 0.95}
STATISTICS = ("mean", "sd", *QUANTILES)
Reference = InferenceData | Mapping[str, NDArray]  # of (chains, draws, *shape)


@dataclass(frozen=True)
class MomentSummary:
    """The largest absolute errors over all scalars.

    Attributes
    ----------
    mean, sd, quantile
        In posterior standard deviations; ``quantile`` of all of `QUANTILES`.
    sd_ratio
        The sd over the reference's that is farthest from 1, by its logarithm.
    mean_mcse
        Of a mean, in Monte Carlo standard errors of the reference's own mean.
    """

    mean: float
    sd: float
    sd_ratio: float
    quantile: float
    mean_mcse: float


def moment_errors(
    draws: Mapping[str, NDArray],
    reference: Reference | pd.DataFrame,
    weights: Array | None = None,
) -> pd.DataFrame:
    """Errors of mean, sd and quantiles of every scalar against reference draws.

    Parameters
    ----------
    draws : mapping of name to array (N, *shape)
        Draws of the approximation, constrained space. Names beyond the reference's are ignored.
    reference : InferenceData, mapping of name to array (chains, draws, *shape), or DataFrame
        The reference draws, or what `reference_moments` made of them (several approximations of
        one posterior need it once).
    weights : array (N,), optional
        Importance weights of the draws (`bridge.measures.khat`); normalised here.

    Returns
    -------
    pandas.DataFrame
        One row a scalar. For each statistic s of mean, sd, q5, q50, q95: ``s`` and
        ``s_reference``; ``s_error = (s - s_reference) / sd_reference``; ``s_error_mcse``, the
        same difference over the reference's Monte Carlo standard error. ``constant`` marks
        scalars the reference does not let vary (a zero of a Cholesky factor): their errors are 0
        where the approximation has the same constant and infinite where it has not.

    Raises
    ------
    ValueError
        If a variable is missing or has another shape, a draw is not finite, or the weights are
        negative, not finite or of another length.
    TypeError
        If draws or reference are something else.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> reference = {"mu": rng.normal(size=(4, 1000))}
    >>> errors = moment_errors({"mu": rng.normal(0.5, 1, size=4000)}, reference)
    >>> round(float(errors.loc["mu", "mean_error"]), 1)  # half a posterior sd
    0.5
    """
    if not isinstance(draws, Mapping):
        raise TypeError(
            "draws must be arrays by name, such as target.constrain(theta), got "
            f"{type(draws).__name__}"
        )
    if not isinstance(reference, pd.DataFrame):
        reference = reference_moments(reference)
    columns = _columns(draws, reference)
    ours = _summarise(columns, None if weights is None else _normalise(weights, len(columns)))
    table: dict[str, Array] = {}
    for s in STATISTICS:
        truth = reference[s].to_numpy()
        difference = _difference(ours[s], truth, reference)
        table |= {s: ours[s], f"{s}_reference": truth}
        table[f"{s}_error"] = _in_units(difference, reference["sd"].to_numpy())
        table[f"{s}_error_mcse"] = _in_units(difference, reference[f"{s}_mcse"].to_numpy())
    table["constant"] = reference["constant"].to_numpy()
    return pd.DataFrame(table, index=reference.index)


def reference_moments(reference: Reference) -> pd.DataFrame:
    """Mean, sd and quantiles of reference draws with their Monte Carlo standard errors (ArviZ).

    Parameters
    ----------
    reference : InferenceData or mapping of name to array (chains, draws, *shape)

    Returns
    -------
    pandas.DataFrame
        One row a scalar: mean, sd, q5, q50, q95, each with ``_mcse``, and ``constant``.
        ``attrs["shapes"]`` holds the shapes of the variables.
    """
    arrays = _arrays(reference)
    rows: dict[str, dict[str, float]] = {}
    for name, array in arrays.items():
        if array.ndim < 2 or not np.isfinite(array).all():
            raise ValueError(
                f"reference draws of {name} must be finite and (chains, draws, ...), "
                f"got shape {array.shape}"
            )
        scalars = array.reshape(*array.shape[:2], -1)
        for i, label in enumerate(_labels(name, array.shape[2:])):
            rows[label] = _reference_row(scalars[..., i])
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.attrs["shapes"] = {name: array.shape[2:] for name, array in arrays.items()}
    return table


def worst(errors: pd.DataFrame) -> MomentSummary:
    """The largest errors of a table of `moment_errors`."""

    def largest(*columns: str) -> float:
        return float(errors[list(columns)].abs().max().max())

    ratios = 1 + errors["sd_error"].to_numpy()
    with np.errstate(divide="ignore"):  # an sd of zero is infinitely far off
        farthest = int(np.argmax(np.abs(np.log(ratios))))
    return MomentSummary(
        mean=largest("mean_error"),
        sd=largest("sd_error"),
        sd_ratio=float(ratios[farthest]),
        quantile=largest(*(f"{q}_error" for q in QUANTILES)),
        mean_mcse=largest("mean_error_mcse"),
    )


def _arrays(reference: Reference) -> dict[str, NDArray]:
    if isinstance(reference, Mapping) and not hasattr(reference, "posterior"):  # no DataTree
        return {name: as_numbers(f"draws of {name}", x) for name, x in reference.items()}
    if not hasattr(reference, "posterior"):
        raise TypeError(
            "reference must be ArviZ data with a posterior, or arrays (chains, draws, ...) by "
            f"name, got {type(reference).__name__}"
        )
    variables = cast(InferenceData, reference)["posterior"].data_vars.items()
    return {str(k): np.asarray(v.transpose("chain", "draw", ...), float) for k, v in variables}


def _labels(name: str, shape: tuple[int, ...]) -> list[str]:
    """ArviZ's labels, by position: theta[0], L[1, 0], or the bare name of a scalar."""
    if not shape:
        return [name]
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _reference_row(scalar: Array) -> dict[str, float]:
    row: dict[str, float] = {k: v[0] for k, v in _summarise(scalar.reshape(-1, 1), None).items()}
    if row["sd"] == 0:
        return row | {f"{s}_mcse": 0.0 for s in STATISTICS} | {"constant": True}
    row |= {"mean_mcse": _mcse_mean(scalar), "sd_mcse": _mcse_sd(scalar)}
    for s, prob in QUANTILES.items():
        row[f"{s}_mcse"] = float(az.mcse(scalar, method="quantile", prob=prob))
    return row | {"constant": False}


def _mcse_mean(x: Array) -> float:
    """Standard error of the mean of (chains, draws).

    Not `az.mcse`: its mean and sd fail in ArviZ 0.23 where numba meets NumPy >= 2.4.
    """
    return float(x.std(ddof=1) / np.sqrt(az.ess(x, method="mean")))


def _mcse_sd(x: Array) -> float:
    """Standard error of the sd, se(variance) / (2 sd), from the ESS of the squared deviations."""
    squares = (x - x.mean()) ** 2
    return _mcse_mean(squares) / (2 * float(np.sqrt(squares.mean())))


def _columns(draws: Mapping[str, NDArray], reference: pd.DataFrame) -> Array:
    """The reference's scalars from named draws, shape (N, scalars)."""
    shapes = reference.attrs["shapes"]
    missing = [name for name in shapes if name not in draws]
    if missing:
        raise ValueError(f"draws lack the reference's variables {missing}: got {sorted(draws)}")
    parts = []
    for name, shape in shapes.items():
        value = as_numbers(f"draws of {name}", draws[name])
        if value.shape[1:] != shape or value.ndim == 0 or len(value) < 2:
            raise ValueError(
                f"draws of {name} must have shape {('N', *shape)} with N >= 2, got {value.shape}"
            )
        if not np.isfinite(value).all():
            bad = int(np.sum(~np.isfinite(value)))
            raise ValueError(
                f"draws of {name} must be finite: {bad} of {value.size} values are not"
            )
        parts.append(value.reshape(len(value), -1))
    if len({len(part) for part in parts}) != 1:
        raise ValueError(f"draws must share one length, got {sorted({len(p) for p in parts})}")
    return np.concatenate(parts, axis=1)


def _normalise(weights: Array, n: int) -> Array:
    weights = np.asarray(weights, dtype=float).ravel()
    if weights.size != n:
        raise ValueError(f"weights must have one entry a draw: expected {n}, got {weights.size}")
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() == 0:
        raise ValueError("weights must be finite, nonnegative and not all zero")
    return weights / weights.sum()


def _summarise(x: Array, weights: Array | None) -> dict[str, Array]:
    """Mean, sd and quantiles of every column of (N, scalars)."""
    probs = list(QUANTILES.values())
    if weights is None:
        mean, sd, quantiles = x.mean(axis=0), x.std(axis=0, ddof=1), np.quantile(x, probs, axis=0)
    else:
        mean = weights @ x
        spread, share = weights @ (x - mean) ** 2, 1 - np.sum(weights**2)
        sd = np.sqrt(spread / share if share > 0 else spread)  # one draw with all the weight: 0
        quantiles = _weighted_quantiles(x, weights, probs)
    sd = np.where(sd <= CONSTANT_QUANTITY * np.abs(x).max(axis=0), 0.0, sd)
    return {"mean": mean, "sd": sd, **dict(zip(QUANTILES, quantiles, strict=True))}


def _weighted_quantiles(x: Array, weights: Array, probs: list[float]) -> Array:
    """Quantiles (probs, scalars); linear between draws at the midpoints of their weights."""
    order = np.argsort(x, axis=0)
    middle = np.cumsum(weights[order], axis=0) - weights[order] / 2
    values = np.take_along_axis(x, order, axis=0)
    pairs = zip(middle.T, values.T, strict=True)
    return np.stack([np.interp(probs, m, v) for m, v in pairs], axis=1)


def _difference(ours: Array, truth: Array, reference: pd.DataFrame) -> Array:
    """Ours minus the truth; rounding noise on a constant is no difference."""
    difference = ours - truth
    noise = CONSTANT_QUANTITY * np.maximum(
        np.abs(reference["mean"].to_numpy()), np.finfo(float).tiny
    )
    exact = reference["constant"].to_numpy(dtype=bool) & (np.abs(difference) <= 10 * noise)
    return np.where(exact, 0.0, difference)


def _in_units(difference: Array, unit: Array) -> Array:
    """difference / unit, with 0 / 0 = 0 and x / 0 infinite: no error, or one beyond any unit."""
    scaled = np.where(difference == 0, 0.0, np.copysign(np.inf, difference))
    return np.divide(difference, unit, out=scaled, where=unit > 0)
