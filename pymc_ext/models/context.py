"""The model that a call is about: given, or that of ``with model:``."""

from __future__ import annotations

import pymc as pm

LONGEST = 80  # characters of what is shown of something else
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
            f"model must be a pm.Model, or None for that of `with model:`, got {_in_words(found)}"
        )
    return found


def _in_words(model: object) -> str:
    """What was given in its place, in one line; of a bambi model how to give its own."""
    kind = type(model)
    if kind.__name__ == "Model" and kind.__module__.partition(".")[0] == "bambi":
        return (
            "a bambi model: after its build() give its backend.model, or call bridge.fit, which "
            "takes it as it is"
        )
    if isinstance(model, type):
        return f"the class {model.__name__}: give a model of it"
    text = repr(model)
    return text if len(text) < LONGEST and "\n" not in text else kind.__name__
