"""``fit`` on the command line: a Stan program, without PyMC."""

from __future__ import annotations

import argparse
from math import prod
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bridge.advice.answer import Advice
from bridge.advice.fit import LADDER, NoAnswerError, fit
from bridge.command_line.requests import by_name, prior_names
from bridge.measures.limits import KHAT_USABLE
from bridge.methods.images import IMAGES
from bridge.methods.named_draws import NamedDraws
from pymc_ext.variational.core.saved.posterior import save
from stan_models import StanDensity

NOT_TRUSTED = 3  # exit status where the draws of NUTS are not to be trusted, or there are none
MOST_ROWS = 40  # of a summary on the terminal, but that every scalar has one


def fit_command(arguments: argparse.Namespace, console: Console) -> int:
    """The first approximation to trust; 3 where not even the draws of NUTS are, or there is no
    density to save."""
    try:
        advice = fit(
            arguments.program,
            arguments.data,
            methods=arguments.methods or LADDER,
            khat=KHAT_USABLE if arguments.khat is None else arguments.khat,
            draws=arguments.draws,
            ess=arguments.ess,
            effort=arguments.effort,
            want=arguments.want,
            posterior_predictive=by_name(arguments.posterior_predictive, "--posterior-predictive"),
            observed_data=arguments.observed_data,
            log_likelihood=arguments.log_likelihood,
            log_prior=arguments.log_prior,
            prior=prior_names(arguments.prior),
            random_seed=arguments.seed,
            progressbar=True,
        )
    except NoAnswerError as error:
        console.print(str(error), highlight=False, markup=False)
        return NOT_TRUSTED
    console.print(advice.reasons, highlight=False, markup=False)
    posterior = advice.idata["posterior"]
    values = {str(name): draws.values for name, draws in posterior.data_vars.items()}
    _print_summary(NamedDraws(values, {}), arguments.out, console)
    advice.idata.to_netcdf(str(arguments.out))
    of_file = "; indices above are the program's, from 1, and the file's count from 0"
    arrays = any(value.ndim > 2 for value in values.values())
    console.print(f"draws written to {arguments.out}{of_file if arrays else ''}")
    has_all = arguments.save_density is None or _save_density(advice, arguments, console)
    return 0 if advice.trusted and has_all else NOT_TRUSTED


def _save_density(advice: Advice, arguments: argparse.Namespace, console: Console) -> bool:
    """Keep q, and say what it is worth; whether there is one."""
    law = advice.density
    if law is None:
        console.print(f"no density to save: {_why_none(advice, arguments.want)}", highlight=False)
        return False
    console.print(f"density written to {save(arguments.save_density, law)}", highlight=False)
    elbo = law.notes["elbo"]
    divergence = max(law.notes["log_marginal_is"] - elbo, 0.0)  # the estimate may be less
    text = f" its own draws, unweighted: ELBO {elbo:.3f}, KL(q‖p) {divergence:.3f}"
    console.print(f"{text}; {law.notes['verdict']}", highlight=False, markup=False)
    return True


def _why_none(advice: Advice, want: str) -> str:
    """What kept the answer from having a law that a file holds, and the way out."""
    if advice.method == IMAGES:
        return (
            "the labellings are images of one fit by a change that is not linear in its "
            "coordinates, which no file keeps: give the components an order, as by ordered[K]"
        )
    way_out = "" if want == "density" else ": try --want density"
    return f"{advice.method} gave draws alone{way_out}"


def _print_summary(draws: NamedDraws, file: Path, console: Console) -> None:
    """A row a scalar, named as in the program; arrays as long as there is room for them, the others
    in a line each."""
    sizes = {name: prod(value.shape[2:]) for name, value in draws.values.items()}
    arrays = {name: size for name, size in sizes.items() if size > 1}
    room = MOST_ROWS - (len(sizes) - len(arrays))
    left_out = []
    for name, size in arrays.items():  # parameters are the first
        if size <= room:
            room -= size
        else:
            left_out.append(name)
    shown = [name for name in sizes if name not in left_out]
    table = Table("", "mean", "sd", "5%", "95%", box=None)
    for name, *numbers in draws.summary(shown, StanDensity.labels):
        table.add_row(name, *(f"{x:.4g}" for x in numbers))
    if table.row_count:
        console.print(table, highlight=False)
    for name in left_out:
        console.print(f" {name}: {sizes[name]:,} values, in {file}", highlight=False, markup=False)
