"""Stan programs compiled, cached and run: real Stan as the baseline of every comparison.

>>> from stan_models import StanProgram, nuts
>>> idata = nuts(StanProgram("eight_schools.stan"), data, random_seed=1)

Importing this package loads neither cmdstanpy nor ArviZ; what needs them does so when called.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stan_models.errors import (
    StanCompileError,
    StanDataError,
    StanError,
    StanRunError,
    ToolchainError,
)

if TYPE_CHECKING:
    from stan_models.baselines import advi, laplace, nuts, pathfinder
    from stan_models.density import StanDensity
    from stan_models.program import StanProgram
    from stan_models.programs import program_names, program_path

_HOMES = {
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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'stan_models' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
