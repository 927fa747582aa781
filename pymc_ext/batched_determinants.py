"""Determinants of many matrices at once, which PyTensor 2.38 does not compile where a log is taken.

Its rewrite of log(det(x)) takes ``x`` for one matrix and ends in a bare AssertionError where there
is one for each draw, as of ``pm.LKJCorr``. PyTensor 3 has mended it.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

MENDED = int(version("pytensor").split(".")[0]) >= 3
REWRITE = "slogdet_specialization"


def mode_for(outputs: Iterable[Variable], mode: str | Mode | None) -> str | Mode | None:
    """The mode in which graphs are compiled: without that rewrite where it would fail.

    Parameters
    ----------
    outputs
        Of the graphs.
    mode
        What was asked for; None is PyTensor's own.
    """
    if MENDED or not any(_is_batched_determinant(v) for v in ancestors(outputs)):
        return mode
    return get_mode(mode).excluding(REWRITE)


def _is_batched_determinant(variable: Variable) -> bool:
    core = getattr(variable.owner and variable.owner.op, "core_op", None)  # of a Blockwise
    return type(core).__name__ == "Det" and variable.type.ndim > 0
