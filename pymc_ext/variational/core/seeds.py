"""Random numbers of a fit: one independent stream a purpose, so that no phase disturbs another."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

Seed = int | None | np.random.Generator


class Purpose(IntEnum):
    """What random numbers are for."""

    TRAIN = 0  # draws an objective is optimised on
    FRESH = 1  # draws of the fitted q, for its ELBO
    STARTS = 2  # jittered starts of a search
    INITIAL = 3  # random initial parameters
    CHECKS = 101  # draws that tell when training has levelled off
    JUDGE = 102  # draws by which stages of a flow are compared
    POLISH = 103  # draws of importance-weighted training
    STRETCH = 104  # draws to which tails are fitted
    GUARD = 105  # draws on which a flow and its base are compared
    DEFENCE = 106  # draws of a proposal with heavier tails
    SEARCH = 107  # draws and paths that look for modes outside q before chains start
    NECKS = 108  # draws of a proposal that reaches the necks of funnels
    FIELD = 109  # moves that show who depends on whom


def stream(random_seed: int | None, purpose: Purpose) -> np.random.Generator:
    """Independent generator for one purpose of a fit."""
    return np.random.default_rng(None if random_seed is None else [int(purpose), random_seed])
