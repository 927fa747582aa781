"""What is discrete in a model: free variables are refused, as a family is a density on R^D, and
sums over others that pymc-extras takes for exact and are not."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pymc as pm

from pymc_ext.pymc_versions import NotConstantValueError
from pymc_ext.requirements import how_to_get_pymc_extras

logger = logging.getLogger(__name__)
MISSING = "_unobserved"  # how PyMC names the missing entries of an observed variable


def refuse_discrete(model: pm.Model) -> None:
    """ValueError where a free variable of the model is discrete; it names a way out.

    Examples
    --------
    >>> with pm.Model() as mixture:
    ...     kind = pm.Bernoulli("kind", 0.5)
    >>> refuse_discrete(mixture)
    Traceback (most recent call last):
    ...
    ValueError: families need continuous parameters, got discrete free variables ['kind']: ...
    """
    sentence = about_discrete(model)
    if sentence is not None:
        raise ValueError(sentence)


def about_discrete(model: pm.Model) -> str | None:
    """Which free variables of the model are discrete and what to do, in one sentence; None where
    there are none."""
    names = [rv.name for rv in model.free_RVs if not rv.dtype.startswith("float")]
    if not names:
        return None
    missing = [name.removesuffix(MISSING) for name in names if name.endswith(MISSING)]
    latent = [name for name in names if not name.endswith(MISSING)]
    ways = []
    if latent:
        get = "" if find_spec("pymc_extras") else f" ({how_to_get_pymc_extras()})"
        ways.append(
            f"sum them out by pymc_extras.marginalize(model, {latent}) where they take finitely "
            f"many values{get}, or use pm.sample"
        )
    if missing:
        ways.append(f"leave out the rows in which {missing} are missing")
    return (
        f"families need continuous parameters, got discrete free variables {names}: "
        f"{'; '.join(ways)}"
    )


@contextmanager
def chains_of_known_length() -> Iterator[None]:
    """ValueError, in words, where log p sums a Markov chain out whose length is symbolic."""
    try:
        yield
    except NotConstantValueError as error:
        raise ValueError(
            "the length of a DiscreteMarkovChain that is summed out must be a constant, got one "
            "that is not, as dims= gives it: freeze the model before, by pymc_extras.marginalize("
            "freeze_dims_and_data(model), names), from pymc.model.transform.optimization"
        ) from error


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
    from pymc_ext.models.hidden import HiddenVariable, InexactSumError

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
