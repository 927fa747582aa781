"""What is said of keywords of ``fit`` that a family does not take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import NoReturn

from pymc_ext.keywords import did_you_mean
from pymc_ext.variational.plugin.pymc_variational import Inference, ObjectiveFunction

ROWS = (
    "for rows of a file fit px.ViperVI or px.JaakkolaVI where the model is a logistic regression; "
    "else give the model's pm.Data the rows, or a pm.Minibatch of them to px.BernsteinVI or "
    "px.MonteCarloVI"
)
INSTEAD = {
    "rows": ROWS,
    "checkpoint": f"it is of passes over rows=; {ROWS}",
    "draws": "give them to approx.sample(draws), or fit by px.fit(method, draws=...)",
    "seed": "give random_seed= to the family",
    "random_seed": "give it to the family, as px.LaplaceVI(random_seed=1)",
}


def refuse_fit_keywords(inference: Inference, unknown: Mapping[str, object]) -> NoReturn:
    """TypeError: those of PyMC's stochastic loop are named as such, the others with what is near.

    Parameters
    ----------
    inference
        Whose ``fit`` was called.
    unknown
        Keywords that it does not take; at least one.
    """
    family = type(inference).__name__
    loop = sorted(unknown.keys() & inspect.signature(ObjectiveFunction.step_function).parameters)
    if loop:
        raise TypeError(
            f"{family}.fit optimises deterministically and does not take {loop}: these belong to "
            "PyMC's stochastic loop"
        )
    first, known = next(iter(unknown)), _keywords(inference)
    advice = INSTEAD.get(first) or did_you_mean([first], known, "{}=") or f"it takes {known}"
    raise TypeError(f"{family}.fit takes no {first}=: {advice}")


def _keywords(inference: Inference) -> list[str]:
    """What ``fit`` takes by name; what a class hands on to its base has its name there."""
    methods = (vars(kind)["fit"] for kind in type(inference).__mro__ if "fit" in vars(kind))
    named = {
        name: None
        for method in methods
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD and name != "self"
    }
    return list(named)
