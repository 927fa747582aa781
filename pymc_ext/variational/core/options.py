"""Options as values: what an algorithm says where it is given something else."""

from __future__ import annotations


def require_type(label: str, value: object, kind: type) -> None:
    """TypeError unless ``value`` is a ``kind``.

    >>> from pymc_ext.variational.gaussian.modes import ModeSearch
    >>> require_type("search", 3, ModeSearch)
    Traceback (most recent call last):
    ...
    TypeError: search must be a ModeSearch(...), got 3
    """
    if not isinstance(value, kind):
        raise TypeError(f"{label} must be a {kind.__name__}(...), got {value!r}")
