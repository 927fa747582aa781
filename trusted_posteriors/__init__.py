"""The whole suite behind one import: ``import trusted_posteriors as tp``.

Every public name of `pymc_ext` (families, `sample`, `gp`, ...) and of `bridge` (`fit`, `compare`,
`calibrate`, ...) is one of ``tp``; ``tp.stan`` is `stan_models`, ``tp.cases`` is
`posteriordb_cases`. Names are imported when they are first asked for, so that this import loads
neither PyMC nor PyTensor.

To add a name: export it from the package that defines it; it is here by that.

>>> import trusted_posteriors as tp
>>> tp.fit is bridge.fit, tp.LaplaceVI is px.LaplaceVI
(True, True)
"""

from __future__ import annotations

import sys
from importlib import import_module

import bridge  # before pymc_ext: it refuses another project's of that name
import pymc_ext

_MODULES = {"cases": "posteriordb_cases", "stan": "stan_models"}

__all__ = [*_MODULES, *bridge.__all__, *pymc_ext.__all__]


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return import_module(_MODULES[name])
    for package in (bridge, pymc_ext):
        if name in package.__all__:
            return getattr(package, name)
    # with name and obj, Python suggests the near name
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted(__all__)
