"""The targets of the zoo by name."""

from __future__ import annotations

from collections.abc import Sequence

from posteriordb_cases.zoo import ZOO

__all__ = ["find_targets"]


def find_targets(names: Sequence[str] | None) -> list[str]:
    """The targets asked for; for None all.

    Raises
    ------
    KeyError
        No such target.
    """
    if names is None:
        return list(ZOO)
    unknown = [name for name in names if name not in ZOO]
    if unknown:
        raise KeyError(f"no such target of the zoo: {unknown}; there are {', '.join(ZOO)}")
    return list(names)
