"""Starts of chains of a model with discrete variables, far from one another."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
from numpy.typing import NDArray

DRAWN = 200  # of the prior, among which starts are chosen
# Interquartile ranges from a median, or units where that range is less, beyond which a number lies
# far out (Tukey 1977, Exploratory Data Analysis): of missing counts, whose rate is the exponential
# of something, the farthest draws were thousands, where a chain that steps by ones stays.
FAR_OUT = 3.0


def spread_starts(
    model: pm.Model, chains: int, seed: int
) -> list[dict[str, NDArray] | None] | None:
    """Values of the discrete variables for each chain; None where there are none, or their prior
    cannot be drawn from.

    PyMC starts all chains at the same ones, so that chains that stay there agree: R̂ knows nothing
    of another mode. These are draws of the prior at which the model has a density, each as far as
    may be from those before it in prior sds, and none far out in a tail where others will do; a
    chain for which there is none has PyMC's own start.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     _ = pm.DiscreteUniform("switch", 0, 49)
    >>> at = sorted(int(start["switch"]) for start in spread_starts(model, 4, 1))
    >>> at[0] < 2, 10 < at[1] < at[2] < 40, at[3] > 47
    (True, True, True)
    """
    discrete = [rv for rv in model.free_RVs if not rv.dtype.startswith("float")]
    if not discrete:
        return None
    try:
        with (
            warnings.catch_warnings()
        ):  # of PyMC 6: that is slower, and takes a second all the same
            warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
            drawn = pm.draw(discrete, draws=DRAWN, random_seed=seed)
    except NotImplementedError:  # below a variable that has no prior to draw from, as pm.Flat
        return None
    flat = np.concatenate([np.reshape(x, (DRAWN, -1)) for x in drawn], axis=1).astype(float)
    apart = flat - np.median(flat, axis=0)
    range_of_half = np.subtract(*np.quantile(flat, [0.75, 0.25], axis=0))
    far_out = (np.abs(apart) > FAR_OUT * np.maximum(range_of_half, 1.0)).any(axis=1)
    scaled = apart / np.maximum(flat.std(axis=0), 1e-300)
    nearest, chosen = (scaled**2).sum(axis=1), list[int]()
    point, log_p = model.initial_point(), model.compile_logp()
    names = {rv.name: str(model.rvs_to_values[rv].name) for rv in discrete}

    def start(at: int) -> dict[str, NDArray]:
        return {rv.name: np.asarray(x[at]) for rv, x in zip(discrete, drawn, strict=True)}

    for _ in range(chains):
        for at in np.lexsort((-nearest, far_out)):
            values = start(at)
            if np.isfinite(log_p(point | {names[name]: x for name, x in values.items()})):
                break
        else:
            break
        chosen.append(int(at))
        far = ((scaled - scaled[at]) ** 2).sum(axis=1)
        nearest = far if len(chosen) == 1 else np.minimum(nearest, far)
    return [*map(start, chosen), *[None] * (chains - len(chosen))]
