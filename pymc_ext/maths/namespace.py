"""NumPy under the names that PyTensor's ``tensor`` module has, so that one formula serves both."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from scipy import special

NUMPY = SimpleNamespace(
    exp=np.exp,
    log=np.log,
    log1p=np.log1p,
    expm1=np.expm1,
    sqrt=np.sqrt,
    sin=np.sin,
    abs=np.abs,
    sign=np.sign,
    maximum=np.maximum,
    switch=np.where,
    erf=special.erf,
    erfc=special.erfc,
    erfinv=special.erfinv,
    sigmoid=special.expit,
    softplus=lambda x: np.logaddexp(0.0, x),
    zeros_like=np.zeros_like,
)
