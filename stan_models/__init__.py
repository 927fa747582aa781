"""Stan programs compiled, cached and run: real Stan as the baseline of every comparison.

`StanProgram` is a program, `StanDensity` (``program.density(data)``) its log density with gradient
and transforms; `nuts`, `advi`, `laplace` and `pathfinder` run Stan's own methods on it. Take `nuts`
for the truth, the others for what they are worth beside it. `StanChain` is one chain of NUTS in
this process, in the `Coordinates` of an approximation if it is given them. ``program_path(name)``
gives the programs kept here. A public name is one line of ``__init__.pyi``,
imported when it is first asked for, so that this import loads neither cmdstanpy nor ArviZ.

To add a method of Stan: a file with a function of ``(program, data, *, random_seed, ...)`` that
calls CmdStan in `runs.cmdstan_run`, reads `results.Draws` and returns
`approximations.approximation_result`; export it in `baselines` and in ``__init__.pyi``; add it to
``tests/stan_models/test_baselines.py``. To add a program: a ``.stan`` file in ``programs/``.

>>> from stan_models import StanProgram, nuts
>>> idata = nuts(StanProgram("eight_schools.stan"), data, random_seed=1)
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import trusted_posteriors_namesake  # noqa: F401  # refuses a pymc_ext that is not ours

_STUB = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
_HOMES = {
    alias.name: f"{__name__}.{node.module}"
    for node in _STUB.body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = sorted(_HOMES)


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version("trusted-posteriors")
    if name not in _HOMES:
        raise AttributeError(f"module 'stan_models' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
