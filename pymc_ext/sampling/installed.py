"""Which sampler of any density runs by default."""

from __future__ import annotations

from importlib.util import find_spec

from pymc_ext.sampling.protocol import Sampler

__all__ = ["installed_sampler"]


def installed_sampler() -> Sampler:
    """nutpie's; where that is not installed PyMC's own, which takes some times as long."""
    if find_spec("nutpie") is not None:
        from pymc_ext.sampling.nutpie import NutpieNUTS

        return NutpieNUTS()
    from pymc_ext.sampling.pymc_nuts import PyMCNUTS

    return PyMCNUTS()
