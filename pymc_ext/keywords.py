"""Keywords that a function does not take: a sentence that says which one does."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping


def refuse_keywords(
    function: Callable[..., object],
    name: str,
    unknown: Mapping[str, object],
    instead: Mapping[str, str],
) -> None:
    """TypeError where there are any.

    Parameters
    ----------
    function, name
        What was called, and how it is called in the message.
    unknown
        Keywords that it does not take.
    instead
        What to write in place of some, such as those of ``pm.sample``.
    """
    if not unknown:
        return
    first = next(iter(unknown))
    known = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    near = difflib.get_close_matches(first, known, n=1)
    advice = instead.get(first) or (f"did you mean {near[0]}=?" if near else f"it takes {known}")
    raise TypeError(f"{name} takes no {first}=: {advice}")
