"""Stan programs compiled, cached and run: real Stan as the baseline of every comparison.

`StanProgram` is a program, `StanDensity` (``program.density(data)``) its log density with gradient
and transforms; `nuts`, `advi`, `laplace` and `pathfinder` run Stan's own methods on it. Take `nuts`
for the truth, the others for what they are worth beside it. `StanChain` is one chain of NUTS in
this process, in the `Coordinates` of an approximation if it is given them. ``program_path(name)``
gives the programs kept here. Importing this package loads neither cmdstanpy nor ArviZ; what needs
them does so when called.

To add a method of Stan: a file with a function of ``(program, data, *, random_seed, ...)`` that
calls CmdStan in `runs.cmdstan_run`, reads `results.Draws` and returns
`approximations.approximation_result`; export it in `baselines` and here; add it to
``tests/stan_models/test_baselines.py``. To add a program: a ``.stan`` file in ``programs/``.

>>> from stan_models import StanProgram, nuts
>>> idata = nuts(StanProgram("eight_schools.stan"), data, random_seed=1)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from stan_models.errors import (
    StanCompileError,
    StanDataError,
    StanError,
    StanRunError,
    ToolchainError,
)

if TYPE_CHECKING:
    from stan_models.baselines import advi, laplace, nuts, pathfinder
    from stan_models.chains import StanChain
    from stan_models.coordinates import Coordinates
    from stan_models.density import StanDensity
    from stan_models.program import StanProgram
    from stan_models.programs import program_names, program_path

_HOMES = {
    "Coordinates": "stan_models.coordinates",
    "StanChain": "stan_models.chains",
    "StanDensity": "stan_models.density",
    "StanProgram": "stan_models.program",
    "advi": "stan_models.baselines",
    "laplace": "stan_models.baselines",
    "nuts": "stan_models.baselines",
    "pathfinder": "stan_models.baselines",
    "program_names": "stan_models.programs",
    "program_path": "stan_models.programs",
}

__all__ = [
    "Coordinates",
    "StanChain",
    "StanCompileError",
    "StanDataError",
    "StanDensity",
    "StanError",
    "StanProgram",
    "StanRunError",
    "ToolchainError",
    "advi",
    "laplace",
    "nuts",
    "pathfinder",
    "program_names",
    "program_path",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'stan_models' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
