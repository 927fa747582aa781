"""posteriordb's criteria for reference draws: diagnostics, checks, and what to do when one fails.

The criteria are those of posteriordb's REFERENCE_POSTERIOR_DEFINITION: 10,000 kept draws of at
least 4 chains, R-hat, bulk and tail effective sample size of every variable, E-FMI of every chain,
lag-1 autocorrelation, no divergent transition. Divergences and E-FMI are judged on all transitions
after warm-up, before thinning, which is stricter than posteriordb (thinned energies are nearly
independent and so always have an E-FMI near 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypedDict

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from scipy.stats import binom

from bridge.errors import BridgeError
from posteriordb_cases.draws import flatten
from pymc_ext.maths.convergence import energy_fmi
from pymc_ext.maths.types import Array

__all__ = ["KEPT_DRAWS", "AdmissionError", "admission_checks", "diagnose"]
__all__ += ["require_admitted", "too_dependent"]

KEPT_DRAWS = 10_000  # of a reference, by posteriordb's definition
R_HAT_BOUND = 1.01  # the largest R-hat of a variable, by posteriordb's definition
E_FMI_BOUND = 0.2  # the smallest E-FMI of a chain, by posteriordb's definition
LAG1_BOUND = 0.05  # the largest mean lag-1 autocorrelation of a variable, by the same

# Standard deviations, √(7 n) each, of the estimated ESS of n independent draws, within which a
# value is expected, and the share of independent series outside: .3 to 1 % of 1,500 normal series
# of 10,000 draws in 10 and in 4 chains, bulk and tail. Of hundreds of values some always lie there:
# as many may as do by chance with a probability of 0.95, posteriordb's, none twice as far out.
ESS_MARGIN, OUTSIDE, PROBABILITY, FARTHEST = 4.0, 1 / 150, 0.95, 2.0

_LONGER = "raise thin, or warmup"
_CALMER = "raise adapt_delta towards 1, or sample another parametrisation of the same posterior"
_ADVICE = {
    "ndraws_is_10k": f"keep {KEPT_DRAWS} draws",
    "nchains_is_gte_4": "choose chains >= 4",
    "ess_within_bounds": _LONGER,
    "r_hat_below_1_01": _LONGER,
    "efmi_above_0_2": "reparametrise the program: its energy distribution has heavy tails",
    "abs_mean_lag1_ac_below_0_05": _LONGER,
    "no_divergent_transitions": _CALMER,
}


class Diagnostics(TypedDict):
    """What posteriordb records of reference draws; lists have one entry a variable or a chain."""

    diagnostic_information: Mapping[str, Sequence[str]]
    ndraws: int
    nchains: int
    effective_sample_size_bulk: Sequence[float]
    effective_sample_size_tail: Sequence[float]
    r_hat: Sequence[float]
    divergent_transitions: Sequence[int]
    expected_fraction_of_missing_information: Sequence[float]
    mean_lag1_ac: Sequence[float]


class AdmissionError(BridgeError):
    """Reference draws fail one of posteriordb's checks; no draws were written."""


def diagnose(
    draws: Mapping[str, NDArray], sample_stats: Mapping[str, NDArray] | xr.Dataset
) -> Diagnostics:
    """Return posteriordb's diagnostics of kept draws and of the transitions behind them.

    Parameters
    ----------
    draws
        Variable name to kept draws, shape (chain, draw, *shape), constrained space.
    sample_stats
        ``energy`` and ``diverging`` of every transition, shape (chain, transition).
    """
    import arviz as az

    flat = flatten(draws)
    n_chains, n_draws = next(iter(flat.values())).shape
    energy = np.asarray(sample_stats["energy"])
    return {
        "diagnostic_information": {"names": list(flat)},
        "ndraws": n_chains * n_draws,
        "nchains": n_chains,
        "effective_sample_size_bulk": [float(az.ess(x, method="bulk")) for x in flat.values()],
        "effective_sample_size_tail": [_tail_ess(x) for x in flat.values()],
        "r_hat": [float(az.rhat(x)) for x in flat.values()],
        "divergent_transitions": np.asarray(sample_stats["diverging"]).sum(axis=1).tolist(),
        "expected_fraction_of_missing_information": energy_fmi(energy).tolist(),
        "mean_lag1_ac": [float(_lag1(x).mean()) for x in flat.values()],
    }


def _tail_ess(x: Array) -> float:
    """The smaller ESS of the 5% and 95% quantiles, which ArviZ 1.x no longer takes by itself."""
    import arviz as az

    return float(az.ess(x, method="tail", prob=(0.05, 0.95)))


def admission_checks(diagnostics: Diagnostics) -> dict[str, bool]:
    """Return posteriordb's checks of diagnostics, by its names, and that nothing diverged."""
    e_fmi = np.array(diagnostics["expected_fraction_of_missing_information"])
    checks = {
        "ndraws_is_10k": diagnostics["ndraws"] == KEPT_DRAWS,
        "nchains_is_gte_4": diagnostics["nchains"] >= 4,
        "ess_within_bounds": _ess_are_of_independent_draws(diagnostics),
        "r_hat_below_1_01": np.all(np.array(diagnostics["r_hat"]) < R_HAT_BOUND),
        "efmi_above_0_2": np.all(e_fmi > E_FMI_BOUND),
        "abs_mean_lag1_ac_below_0_05": np.all(np.abs(diagnostics["mean_lag1_ac"]) < LAG1_BOUND),
        "no_divergent_transitions": sum(diagnostics["divergent_transitions"]) == 0,
    }
    return {name: bool(passed) for name, passed in checks.items()}


def too_dependent(checks: Mapping[str, bool]) -> bool:
    """Return whether a check fails that a longer, more thinned run would meet."""
    return any(_ADVICE[name].startswith(_LONGER) for name, ok in checks.items() if not ok)


def _ess_margin(n_draws: int) -> float:
    """How far from n the estimated ESS of n independent draws lies, but for `OUTSIDE`."""
    return ESS_MARGIN * float(np.sqrt(7 * n_draws))


def _ess_allowed(diagnostics: Diagnostics) -> int:
    """How many values may lie farther away, bulk and tail together."""
    return int(binom.ppf(PROBABILITY, 2 * len(diagnostics["r_hat"]), OUTSIDE))


def _ess_are_of_independent_draws(diagnostics: Diagnostics) -> bool:
    ess = (*diagnostics["effective_sample_size_bulk"], *diagnostics["effective_sample_size_tail"])
    off = abs(np.array(ess) - diagnostics["ndraws"]) / _ess_margin(diagnostics["ndraws"])
    few = np.sum(~(off <= 1)) <= _ess_allowed(diagnostics)  # NaN, of values that are equal, is off
    return bool(few and np.all(off <= FARTHEST))


def _lag1(x: Array) -> Array:
    """Lag-1 autocorrelation of every chain, from (chain, draw)."""
    centred = x - x.mean(axis=1, keepdims=True)
    return (centred[:, 1:] * centred[:, :-1]).sum(axis=1) / (centred**2).sum(axis=1)


def require_admitted(name: str, checks: Mapping[str, bool], diagnostics: Diagnostics) -> None:
    """Raise ``AdmissionError`` with the worst value and the remedy of every failed check."""
    failed = [check for check, passed in checks.items() if not passed]
    if failed:
        reasons = "; ".join(f"{check} ({_found(check, diagnostics)}): {_ADVICE[check]}"
                            for check in failed)  # fmt: skip
        raise AdmissionError(f"reference draws of {name} are not written, failed checks: {reasons}")


def _found(check: str, diagnostics: Diagnostics) -> str:
    """The worst value behind a check, in words."""
    names = diagnostics["diagnostic_information"]["names"]

    def worst(found: Sequence[float], score: Callable[[Array], Array]) -> str:
        values = np.array(found)
        at = int(np.argmax(score(values)))
        return f"{values[at]:.4g} for {names[at]}"

    def off_target(ess: Array) -> Array:
        return np.abs(ess - diagnostics["ndraws"])

    match check:
        case "ndraws_is_10k":
            return f"{diagnostics['ndraws']} draws"
        case "nchains_is_gte_4":
            return f"{diagnostics['nchains']} chains"
        case "ess_within_bounds":
            n, margin = diagnostics["ndraws"], _ess_margin(diagnostics["ndraws"])
            allowed, low, high = _ess_allowed(diagnostics), n - margin, n + margin
            but = f" but for {allowed} of {2 * len(names)} values" if allowed else ""
            bulk = worst(diagnostics["effective_sample_size_bulk"], off_target)
            tail = worst(diagnostics["effective_sample_size_tail"], off_target)
            return f"expected {low:.0f} to {high:.0f}{but}, got bulk {bulk}, tail {tail}"
        case "r_hat_below_1_01":
            return worst(diagnostics["r_hat"], lambda r: r)
        case "efmi_above_0_2":
            return f"{min(diagnostics['expected_fraction_of_missing_information']):.3g}"
        case "abs_mean_lag1_ac_below_0_05":
            return worst(diagnostics["mean_lag1_ac"], np.abs)
        case _:
            return f"{sum(diagnostics['divergent_transitions'])} divergent transitions"
