"""``list`` on the command line: cases and methods."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.table import Table

from bridge.methods.method import Method
from bridge.methods.table import METHODS, installed_methods
from posteriordb_cases import list_cases, load_case


def list_command(arguments: argparse.Namespace, console: Console) -> int:
    """Cases and methods."""
    table = Table(title="cases")
    for heading in ("case", "Stan", "PyMC", "reference", "exact log Z"):
        table.add_column(heading, no_wrap=True)
    for name in list_cases(arguments.database):
        case = load_case(name, database=arguments.database)
        marks = (
            "yes" if has else "–"
            for has in (case.stan_code is not None, case.has_port, case.reference_fault is None)
        )
        evidence = (case.exact or {}).get("log_evidence")
        table.add_row(name, *marks, "–" if evidence is None else f"{evidence:.4f}")
    console.print(table)
    table = Table("method", "what it is", "default", title="methods")
    for name, method in (METHODS | installed_methods()).items():
        if isinstance(method, Method):
            default = "yes" if name in METHODS and method.default else "–"
            table.add_row(name, method.description, default)
        else:
            table.add_row(name, str(method), "broken")
    console.print(table)
    return 0
