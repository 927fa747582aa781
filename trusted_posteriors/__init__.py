"""The whole suite behind one import: ``import trusted_posteriors as tp``.

Every public name of `pymc_ext` (families, `sample`, `gp`, ...) and of `bridge` (`fit`, `compare`,
`calibrate`, ...) is one of ``tp``; ``tp.stan`` is `stan_models`, ``tp.cases`` is
`posteriordb_cases`, ``tp.px`` is `pymc_ext`. ``tp.fit`` is that of `bridge`, which judges what it
hands back; the fit of one family is ``tp.px.fit``. Names are imported when they are first asked
for, so that this import loads neither PyMC nor PyTensor.

To add a name: export it from the package that defines it; it is here by that.

>>> import trusted_posteriors as tp
>>> tp.fit is bridge.fit, tp.LaplaceVI is px.LaplaceVI, tp.px.fit is px.fit
(True, True, True)
"""

from __future__ import annotations

import sys
from importlib import import_module

import trusted_posteriors_namesake  # noqa: F401  # refuses a pymc_ext that is not ours

# isort: split
import bridge
import pymc_ext

_MODULES = {"cases": "posteriordb_cases", "px": "pymc_ext", "stan": "stan_models"}
_OF_BRIDGE = {"fit"}  # names that both packages have, and that are bridge's here

__all__ = [
    *_MODULES,
    *bridge.__all__,
    *(name for name in pymc_ext.__all__ if name not in _OF_BRIDGE),
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return bridge.__version__
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
