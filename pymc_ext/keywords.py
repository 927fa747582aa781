"""Keywords that a function does not take: a sentence that says which one does."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping


def refuse_keywords(
    function: Callable[..., object],
    name: str,
    unknown: Mapping[str, object],
    instead: Mapping[str, str],
    otherwise: str = "",
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
    otherwise
        What to say of one that is like none, beside what there is.
    """
    if not unknown:
        return
    first = next(iter(unknown))
    known = [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]
    meant = did_you_mean([first], known, "{}=")
    advice = instead.get(first) or meant or f"it takes {known}{otherwise and f'; {otherwise}'}"
    raise TypeError(f"{name} takes no {first}=: {advice}")


def did_you_mean(unknown: Iterable[str], known: Iterable[str], shown: str = "{}") -> str:
    """A question that names what is like something unknown; empty where nothing is.

    >>> did_you_mean(["egi"], ["mu", "eig", "lr"], "{!r}")
    "did you mean 'eig'?"
    >>> did_you_mean(["nosuch"], ["cauchy"])
    ''
    """
    known = list(known)
    near = [name for word in unknown for name in difflib.get_close_matches(word, known, n=1)]
    names = ", ".join(shown.format(name) for name in dict.fromkeys(near))
    return f"did you mean {names}?" if near else ""
