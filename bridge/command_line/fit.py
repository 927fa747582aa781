"""``fit`` on the command line: a Stan program, without PyMC."""

from __future__ import annotations

import argparse
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from bridge.advice import LADDER, NoAnswerError, fit
from bridge.measures.limits import KHAT_USABLE
from bridge.methods.named_draws import NamedDraws

NOT_TRUSTED = 3  # exit status where the draws of NUTS are not to be trusted, or there are none
MOST_ROWS = 40  # of a summary on the terminal


def fit_command(arguments: argparse.Namespace, console: Console) -> int:
    """The first approximation to trust; 3 where not even the draws of NUTS are."""
    try:
        with console.status("fitting ..."):
            advice = fit(
                arguments.program,
                arguments.data,
                methods=arguments.methods or LADDER,
                khat=KHAT_USABLE if arguments.khat is None else arguments.khat,
                draws=arguments.draws,
                ess=arguments.ess,
                effort=arguments.effort,
                want=arguments.want,
                random_seed=arguments.seed,
                progressbar=False,
            )
    except NoAnswerError as error:
        console.print(str(error), highlight=False, markup=False)
        return NOT_TRUSTED
    console.print(advice.reasons, highlight=False, markup=False)
    if isinstance(advice.draws, NamedDraws):
        _print_summary(advice.draws, console)
        replace(advice.draws, attributes=advice.attributes).to_netcdf(arguments.out)
    else:
        import arviz as az

        summary = az.summary(advice.idata, kind="stats")
        console.print(summary.to_string(max_rows=MOST_ROWS), highlight=False, markup=False)
        advice.idata.to_netcdf(arguments.out)
    console.print(f"draws written to {arguments.out}")
    return 0 if advice.trusted else NOT_TRUSTED


def _print_summary(draws: NamedDraws, console: Console) -> None:
    table = Table("", "mean", "sd", "5%", "95%", box=None)
    rows = draws.summary()
    for name, *numbers in rows[:MOST_ROWS]:
        table.add_row(name, *(f"{x:.4g}" for x in numbers))
    console.print(table, highlight=False)
    if len(rows) > MOST_ROWS:
        console.print(f"... and {len(rows) - MOST_ROWS} more in the file", highlight=False)
