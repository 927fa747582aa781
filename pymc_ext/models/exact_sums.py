"""Sums within sums that pymc-extras takes for exact and are not: a model of them is another one."""

from __future__ import annotations

import logging
import sys

import pymc as pm

from pymc_ext.models.discrete import chains_of_known_length

__all__ = ["InexactSumError", "refuse_inexact_sums"]

logger = logging.getLogger(__name__)


class InexactSumError(ValueError):
    """A variable was summed out as if its entries were independent, which they are not."""


def refuse_inexact_sums(model: pm.Model) -> None:
    """InexactSumError where pymc-extras summed a variable out wrongly, another one within it.

    Its log p is compared with that of its entries one by one, at the model's initial point. A
    variable for which that is not possible is named by a warning. Other models cost nothing.
    """
    if "pymc_extras" not in sys.modules:  # which whatever it summed out has loaded
        return
    from pymc_ext.models.summed_out import hidden_names, with_hidden

    names = hidden_names(model)
    if len(names) < 2:
        return
    from pymc_ext.models.hidden import HiddenVariable

    with chains_of_known_length():
        full = with_hidden(model)
        point = full.initial_point()
        for place, name in enumerate(names[:-1]):
            try:
                HiddenVariable.of(full, name, names[place + 1 :], point)
            except InexactSumError:
                raise
            except ValueError as error:
                logger.warning("whether %r was summed out exactly is not known: %s", name, error)
