"""Arrays of draws as PyMC's MultiTrace, from which PyMC makes InferenceData."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.backends import NDArray as NDArrayTrace
from pymc.backends.base import MultiTrace
from pytensor.tensor import TensorVariable

Array = NDArray[np.floating]


def _no_recording(*_: object) -> None:
    raise RuntimeError("draws are written as arrays, not recorded one by one")


def make_trace(
    model: pm.Model,
    variables: Sequence[TensorVariable],
    values: Sequence[Array],
    stats: Mapping[str, Array],
) -> MultiTrace:
    """Arrays with a leading draw axis as PyMC's MultiTrace, one chain."""
    trace = NDArrayTrace(
        model=model,
        vars=list(variables),
        fn=_no_recording,
        var_shapes={v.name: x.shape[1:] for v, x in zip(variables, values, strict=True)},
        var_dtypes={v.name: x.dtype for v, x in zip(variables, values, strict=True)},
    )
    n = len(next(iter(stats.values())))
    trace.setup(draws=n, chain=0, sampler_vars=[{name: x.dtype for name, x in stats.items()}])
    for variable, value in zip(variables, values, strict=True):
        trace.samples[variable.name][...] = value
    for name, x in stats.items():
        trace._stats[0][name][...] = x
    trace.draw_idx = n
    trace.close()
    return MultiTrace([trace])
