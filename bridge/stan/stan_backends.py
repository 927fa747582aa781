"""The Ops of a Stan program on PyTensor's numba and JAX backends: callbacks to the same C++."""

from __future__ import annotations

import contextlib
from functools import lru_cache

from bridge.stan.stan_op import StanOp
from pymc_ext.ops.callback import register_numba


@lru_cache(maxsize=1)
def register_backends() -> None:
    """Teach PyTensor the Ops on numba, and on JAX where it is installed."""
    register_numba(StanOp)
    with contextlib.suppress(ImportError):
        import bridge.stan.stan_jax  # noqa: F401  # which registers them
