"""Posteriors to judge approximations by: data, Stan program, PyMC port and reference draws.

``load_case(name)`` reads one case from the database inside this package, from a clone of
posteriordb (https://github.com/stan-dev/posteriordb) or from its GitHub repository.
"""

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
