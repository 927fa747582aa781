"""Posteriors to judge approximations by: data, Stan program, PyMC port and reference draws.

``load_case(name)`` reads one case from the database inside this package, from a clone of
posteriordb (https://github.com/stan-dev/posteriordb) or from its GitHub repository. A `Case` has
the ``data``, the ``stan_code``, the PyMC port ``model()``, ``reference_draws()`` and what is known
of the posterior exactly.

To add a case to our database: ``posteriors/DATA-MODEL.json``, the data with their info, the model's
info and its ``.stan`` file, as posteriordb has them; a port in `posteriordb_cases.models`; its log
density written apart from it in ``tests/posteriordb_cases/densities.py``. `write_reference_draws`
keeps draws that ``python -m bridge generate`` has made and admitted.

>>> from posteriordb_cases import load_case
>>> case = load_case("eight_schools")
>>> [variable.name for variable in case.model().free_RVs]
['theta_trans', 'mu', 'tau']
"""

import trusted_posteriors_namesake  # noqa: F401  # refuses a pymc_ext that is not ours

# isort: split
from posteriordb_cases.case import Case, NoPortError, list_cases, load_case
from posteriordb_cases.database import EMBEDDED, resolve_database
from posteriordb_cases.writer import write_reference_draws

__all__ = [
    "EMBEDDED",
    "Case",
    "NoPortError",
    "list_cases",
    "load_case",
    "resolve_database",
    "write_reference_draws",
]


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import metadata  # takes 20 ms, which an import need not

    return metadata.version("trusted-posteriors")
