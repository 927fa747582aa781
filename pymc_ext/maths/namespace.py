"""NumPy under the names that PyTensor's ``tensor`` module has, so that one formula serves both."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np
from scipy import special

Elementwise = Any  # a NumPy array or a PyTensor variable: their operators share no type


class Namespace(Protocol):
    """Where a formula's functions come from: :data:`NUMPY`, or ``pytensor.tensor`` for graphs."""

    def log(self, x: Elementwise, /) -> Elementwise: ...
    def log1p(self, x: Elementwise, /) -> Elementwise: ...
    def expm1(self, x: Elementwise, /) -> Elementwise: ...
    def sqrt(self, x: Elementwise, /) -> Elementwise: ...
    def sin(self, x: Elementwise, /) -> Elementwise: ...
    def sign(self, x: Elementwise, /) -> Elementwise: ...
    def erf(self, x: Elementwise, /) -> Elementwise: ...
    def erfc(self, x: Elementwise, /) -> Elementwise: ...
    def erfinv(self, x: Elementwise, /) -> Elementwise: ...
    def sigmoid(self, x: Elementwise, /) -> Elementwise: ...
    def softplus(self, x: Elementwise, /) -> Elementwise: ...
    def zeros_like(self, x: Elementwise, /) -> Elementwise: ...
    def maximum(self, x: Elementwise, y: Elementwise, /) -> Elementwise: ...
    def switch(self, at: Elementwise, x: Elementwise, y: Elementwise, /) -> Elementwise: ...


_FUNCTIONS = SimpleNamespace(
    log=np.log,
    log1p=np.log1p,
    expm1=np.expm1,
    sqrt=np.sqrt,
    sin=np.sin,
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
NUMPY = cast("Namespace", _FUNCTIONS)
