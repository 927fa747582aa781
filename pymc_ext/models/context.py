"""The model that a call is about: given, or that of ``with model:``."""

from __future__ import annotations

import pymc as pm

TO_THE_FAMILY = "pass model= to the family, and to pm.fit as well, which do not share it"


def context(model: pm.Model | None, give: str = "pass model=") -> pm.Model:
    """The model given, or that of the context; TypeError without either, or for anything else.

    Parameters
    ----------
    model
        What the user gave.
    give
        How to give one, in words.
    """
    try:
        found = pm.modelcontext(model)
    except TypeError as error:
        raise TypeError(f"no model: {give}, or call inside `with model:`") from error
    if not isinstance(found, pm.Model):
        raise TypeError(
            f"model must be a pm.Model, or None for that of `with model:`, got {found!r}"
        )
    return found
