"""Small made-up data of the shape each model asks for: the ports are tested without a corpus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Data = dict[str, Any]
N = 12


def earnings(rng: np.random.Generator) -> Data:
    male = np.arange(N) % 2
    return {"N": N, "earn": rng.lognormal(size=N), "height": rng.uniform(1, 3, N), "male": male}


def kidiq(rng: np.random.Generator) -> Data:
    return {
        "N": N,
        "kid_score": rng.normal(size=N),
        "mom_hs": np.arange(N) % 2,
        "mom_iq": 100 + rng.normal(size=N),
        "mom_work": 1 + np.arange(N) % 4,
    }


def mesquite(rng: np.random.Generator) -> Data:
    names = ("weight", "diam1", "diam2", "canopy_height", "total_height", "density")
    return {"N": N, "group": np.arange(N) % 2} | {name: rng.lognormal(size=N) for name in names}


def nes(rng: np.random.Generator) -> Data:
    names = ("partyid7", "real_ideo", "race_adj", "educ1", "gender", "income")
    return {"N": N, "age_discrete": 1 + np.arange(N) % 4} | {n: rng.normal(size=N) for n in names}


def series(rng: np.random.Generator) -> Data:
    return {"T": 13, "K": 3, "y": rng.normal(size=13), "sigma1": 0.5}


def blr(rng: np.random.Generator) -> Data:
    return {"N": N, "D": 3, "X": rng.normal(size=(N, 3)), "y": rng.normal(size=N)}


def diamonds(rng: np.random.Generator) -> Data:
    X = np.column_stack([np.ones(N), rng.normal(size=(N, 3))])
    return {"N": N, "K": 4, "X": X, "Y": rng.normal(size=N)}


def kilpisjarvi(rng: np.random.Generator) -> Data:
    prior = {"pmualpha": 0.5, "psalpha": 2.0, "pmubeta": -0.5, "psbeta": 0.3}
    return {"N": N, "x": np.arange(N), "y": rng.normal(size=N)} | prior


def mixture(rng: np.random.Generator) -> Data:
    return {"N": N, "y": rng.normal(size=N)}


def poisson(rng: np.random.Generator) -> Data:
    return {"N": 5, "x": np.linspace(-4, 4, 5), "k": rng.poisson(5, 5)}


def two_states(rng: np.random.Generator) -> Data:
    return {"N": N, "K": 2, "y": 3 + 4 * rng.normal(size=N)}


def drives(rng: np.random.Generator) -> Data:
    alpha = np.array([[4, 2], [2, 3]])
    u, v = rng.exponential(size=(2, N))
    return {"N": N, "K": 2, "u": u, "v": v, "alpha": alpha}


def hares(rng: np.random.Generator) -> Data:
    y = np.array([30, 4]) * rng.lognormal(size=(6, 2))
    return {"N": 6, "ts": np.arange(1, 7), "y_init": np.array([30, 4]), "y": y}


def doses(rng: np.random.Generator) -> Data:
    times = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
    return {"t0": 0, "D": 30, "V": 2, "N_t": 5, "times": times, "C_hat": 10 * rng.lognormal(size=5)}


EARNINGS = ("earn_height", "log10earn_height", "logearn_height", "logearn_height_male")
EARNINGS += ("logearn_interaction", "logearn_logheight_male")
KIDIQ = ("momhs", "momiq", "momhsiq", "interaction", "interaction_c", "interaction_c2", "mom_work")
MESQUITE = ("mesquite", "logmesquite", "logmesquite_logvolume")
MESQUITE += ("logmesquite_logva", "logmesquite_logvas")

GENERATORS: dict[str, Callable[[np.random.Generator], Data]] = {
    **dict.fromkeys(EARNINGS, earnings),
    **{f"kidscore_{name}": kidiq for name in KIDIQ},
    **dict.fromkeys(MESQUITE, mesquite),
    "nes": nes,
    "arK": series,
    "garch11": series,
    "blr": blr,
    "diamonds": diamonds,
    "kilpisjarvi": kilpisjarvi,
    "low_dim_gauss_mix": mixture,
    "gp_pois_regr": poisson,
    "hmm_example": two_states,
    "hmm_drive_0": drives,
    "lotka_volterra": hares,
    "one_comp_mm_elim_abs": doses,
}

MARKOV = ("hmm_example", "hmm_drive_0")
# Values the solvers are compared around: those of the posteriors.
ODE: dict[str, Data] = {
    "lotka_volterra": {
        "theta": [0.55, 0.028, 0.8, 0.024],
        "z_init": [34.0, 5.9],
        "sigma": [0.25, 0.25],
    },
    "one_comp_mm_elim_abs": {"k_a": 0.75, "K_m": 0.5, "V_m": 1.0, "sigma": 0.13},
}
