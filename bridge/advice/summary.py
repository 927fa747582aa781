r"""What is read off draws, a row a quantity, each number with its Monte Carlo error.

Of weighted draws the errors are those of the weights, by the delta method; a quantile's is half the
distance of the quantiles at :math:`p \pm s`, where

.. math:: s^2 = \sum_n w_n^2 (1[x_n \le q] - p)^2,

which is bounded, so that its k̂ is that of the weights at most. Of chains they are by effective
draws: Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), arXiv:1903.08008, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bridge.targets.draws import InferenceData, group_names, labels_by_coords
from pymc_ext.maths.convergence import (
    bulk_ess_and_rhat,
    is_constant,
    mean_error,
    quantile_error,
    sd_error,
    tail_ess,
)
from pymc_ext.maths.types import Array
from pymc_ext.sampling.heavy import NO_MEAN, Heavy
from pymc_ext.variational.core.precision import weighted_precision
from pymc_ext.variational.core.weights import KHAT_USABLE

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["of_chains", "of_weights", "summary_of"]

QUANTILES = {"q5": 0.05, "median": 0.5, "q95": 0.95}


def of_weights(x: Array, log_ratios: Array, weights: Array) -> dict[str, Array]:
    """Columns of a summary, from weighted draws.

    Parameters
    ----------
    x
        Draws of K quantities, (N, K).
    log_ratios
        log p̃ − log q, (N,).
    weights
        Smoothed, summing to 1, (N,).

    Examples
    --------
    >>> x = np.random.default_rng(1).standard_normal((10_000, 1))
    >>> found = of_weights(x, np.zeros(10_000), np.full(10_000, 1e-4))
    >>> found["mcse_mean"].round(3), found["mcse_median"].round(3)  # 1/√N and √(π/2N)
    (array([0.01]), array([0.012]))
    """
    known = weighted_precision(x, log_ratios, weights)
    constant = is_constant(x[None, weights > 0])
    quantiles = [_quantiles(column, weights) for column in x.T]
    values, errors = np.array(quantiles).reshape(-1, 2, len(QUANTILES)).transpose(1, 2, 0)
    return {
        **_numbers(known.mean, known.sd, values),
        **_errors(
            np.where(constant, 0.0, known_error(known.mean_error * known.sd, known.mean_khat)),
            np.where(constant, 0.0, known_error(known.sd_error * known.sd, known.sd_khat)),
            errors,
        ),
        "khat_mean": np.where(constant, -np.inf, known.mean_khat),
        "khat_sd": np.where(constant, -np.inf, known.sd_khat),
    }


def known_error(error: Array, khat: Array) -> Array:
    """A Monte Carlo error; NaN where k̂ of its quantity says that no weights tell it."""
    return np.where(khat < KHAT_USABLE, error, np.nan)


def of_chains(x: Array) -> dict[str, Array]:
    """The same from draws of chains, (chains, draws, K)."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean, sd = x.mean(axis=(0, 1)), x.std(axis=(0, 1))
        values = np.quantile(x, list(QUANTILES.values()), axis=(0, 1))
    errors = np.array([quantile_error(x, p) for p in QUANTILES.values()])
    bulk, rhat = bulk_ess_and_rhat(x)
    return {
        **_numbers(mean, sd, values),
        **_errors(mean_error(x), sd_error(x) * sd, errors),
        "ess_bulk": bulk,
        "ess_tail": tail_ess(x),
        "rhat": rhat,
    }


def summary_of(
    idata: InferenceData, heavy: Sequence[Heavy] = (), var_names: Sequence[str] | None = None
) -> pd.DataFrame:
    """A row a scalar of ``posterior``: by the weights that ``sample_stats`` has, else of chains.

    Parameters
    ----------
    idata
        Draws; of one chain where they are weighted.
    heavy
        Quantities whose sd, or mean and sd, draws do not tell: these are NaN, and k̂ is at least
        that of the draws' own tail.
    var_names
        Which variables; all by default.

    Raises
    ------
    ValueError
        A name that is no variable of ``posterior``, or only such as hold no numbers.
    """
    import pandas as pd

    posterior = idata["posterior"]
    statistics = idata["sample_stats"] if "sample_stats" in group_names(idata) else {}
    names = [str(name) for name in posterior.data_vars]
    unknown = [name for name in var_names or () if name not in names]
    if unknown:
        raise ValueError(
            f"var_names must be of {', '.join(names)}, got {', '.join(map(repr, unknown))}"
        )
    chosen = [posterior[name] for name in (names if var_names is None else var_names)]
    chosen = [x for x in chosen if x.dtype.kind in "fiub"]
    if not chosen:
        raise ValueError("no variable that was asked for has numbers: name others in var_names")
    from_one = "stan_version" in posterior.attrs  # as Stan counts
    rows = [label for x in chosen for label in labels_by_coords(x, from_one)]
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], -1)
    columns = [x.values.reshape(shape).astype(float) for x in chosen]
    values = np.concatenate([np.empty((*shape[:2], 0)), *columns], axis=-1)
    if "log_weight" in statistics:
        lp, lq, log_w = (statistics[name].values.ravel() for name in ("lp", "lq", "log_weight"))
        with np.errstate(invalid="ignore"):  # −∞ less −∞: a draw without weight
            log_ratios = np.where(np.isneginf(log_w), -np.inf, lp - lq)
        found = of_weights(values[0], log_ratios, np.exp(log_w))
    else:
        found = of_chains(values)
    frame = pd.DataFrame(found, index=pd.Index(rows, name="quantity"))
    untold = {quantity.name: quantity.khat >= NO_MEAN for quantity in heavy}
    frame.loc[frame.index.isin(untold), ["sd", "mcse_sd"]] = np.nan
    without_mean = [name for name, both in untold.items() if both]
    frame.loc[frame.index.isin(without_mean), ["mean", "mcse_mean"]] = np.nan
    if "khat_sd" in frame:  # of weights
        for quantity in heavy:  # k̂ by the weights is −∞ where these hardly differ
            row = frame.index == quantity.name
            frame.loc[row, "khat_sd"] = np.fmax(frame.loc[row, "khat_sd"], quantity.khat)
            frame.loc[row, "khat_mean"] = np.fmax(frame.loc[row, "khat_mean"], quantity.khat / 2)
    return frame


def _numbers(mean: Array, sd: Array, quantiles: Array) -> dict[str, Array]:
    return {"mean": mean, "sd": sd, **dict(zip(QUANTILES, quantiles, strict=True))}


def _errors(of_mean: Array, of_sd: Array, of_quantiles: Array) -> dict[str, Array]:
    named = {f"mcse_{name}": x for name, x in zip(QUANTILES, of_quantiles, strict=True)}
    return {"mcse_mean": of_mean, "mcse_sd": of_sd, **named}


def _quantiles(x: Array, weights: Array) -> tuple[Array, Array]:
    """Of one quantity, and their errors; NaN where a draw that has a weight is not finite."""
    p = np.array(list(QUANTILES.values()))
    if not np.isfinite(x[weights > 0]).all():
        return np.full(len(p), np.nan), np.full(len(p), np.nan)
    order = np.argsort(x)
    ordered, w = x[order], weights[order]
    shares = np.cumsum(w) - 0.5 * w
    values = np.interp(p, shares, ordered)
    below = x[:, None] <= values
    s = np.sqrt(weights**2 @ (below - p) ** 2)
    ends = [np.interp(p + sign * s, shares, ordered) for sign in (-1, 1)]
    return values, 0.5 * (ends[1] - ends[0])
