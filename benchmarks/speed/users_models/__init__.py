"""Models of applied fields as a user wrote them for this project, with simulated data.

Time series, polls, pharmacology, ecology, insurance, survival, psychometrics, marketing and sports:
32 models with the priors, the centring and the names of variables that their author chose. None of
them but `mrp` was looked at when defaults were chosen, so that they say how those do on models not
seen before. `MODELS` has them by name, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable

import pymc as pm

from benchmarks.speed.users_models.counts import (
    cjs,
    dirichlet_multinomial,
    nb_exposure,
    network_meta,
    occupancy,
    piecewise_exp,
    weibull_frailty,
    zip_re,
)
from benchmarks.speed.users_models.groups import (
    ab_beta_binomial,
    best_groups,
    beta_reg,
    dose_response,
    hurdle_gamma,
    lkj_slopes,
    michaelis,
    mrp,
    von_bertalanffy,
)
from benchmarks.speed.users_models.latent import (
    bradley_terry,
    graded_response,
    meas_error,
    mixture_ordered,
    one_factor,
    ordinal_judges,
    reg_horseshoe,
    skew_hetero,
)
from benchmarks.speed.users_models.series import (
    changepoint,
    gp_marginal,
    local_linear_trend,
    mmm,
    pspline,
    stoch_vol,
    structural_season,
)

MODELS: dict[str, Callable[[], pm.Model]] = {
    # series
    "local_linear_trend": local_linear_trend,
    "structural_season": structural_season,
    "stoch_vol": stoch_vol,
    "changepoint": changepoint,
    "gp_marginal": gp_marginal,
    "pspline": pspline,
    "mmm": mmm,
    # groups
    "mrp": mrp,
    "michaelis": michaelis,
    "von_bertalanffy": von_bertalanffy,
    "dose_response": dose_response,
    "best_groups": best_groups,
    "lkj_slopes": lkj_slopes,
    "beta_reg": beta_reg,
    "ab_beta_binomial": ab_beta_binomial,
    "hurdle_gamma": hurdle_gamma,
    # counts
    "cjs": cjs,
    "occupancy": occupancy,
    "zip_re": zip_re,
    "nb_exposure": nb_exposure,
    "dirichlet_multinomial": dirichlet_multinomial,
    "piecewise_exp": piecewise_exp,
    "weibull_frailty": weibull_frailty,
    "network_meta": network_meta,
    # latent
    "ordinal_judges": ordinal_judges,
    "graded_response": graded_response,
    "one_factor": one_factor,
    "meas_error": meas_error,
    "bradley_terry": bradley_terry,
    "mixture_ordered": mixture_ordered,
    "reg_horseshoe": reg_horseshoe,
    "skew_hetero": skew_hetero,
}
