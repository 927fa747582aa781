"""Indices out of range, where compiled code says nothing: it reads, or writes, whatever lies there.

Numba's looks at no bounds, PyTensor's C code not at those of one entry that is a constant.
"""

from __future__ import annotations

import logging

import numpy as np
import pytensor
from pytensor.compile.mode import Mode, get_default_mode
from pytensor.graph.basic import Apply
from pytensor.graph.traversal import ancestors
from pytensor.tensor import TensorVariable

from pymc_ext.density.check import NotEvaluatedError
from pymc_ext.pytensor_versions import NumbaLinker, PerformLinker, Subtensor

_log = logging.getLogger(__name__)


def require_indices(logp: TensorVariable, theta: TensorVariable, dimension: int) -> None:
    """Raise NotEvaluatedError where an index is out of range at θ = 0 and nobody else would say so.

    The graph is run once as it is, operation by operation, in Python: some tenths of a second.
    """
    arrays = isinstance(get_default_mode().linker, NumbaLinker)
    if not any(_indexes(v.owner, arrays) for v in ancestors([logp]) if v.owner is not None):
        return
    as_it_is = Mode(PerformLinker(), None)  # type: ignore[arg-type]
    f = pytensor.function([theta], logp, mode=as_it_is, on_unused_input="ignore")
    try:
        with np.errstate(all="ignore"):
            f(np.zeros(dimension))
    except IndexError as error:
        raise NotEvaluatedError(error) from error
    except Exception as error:  # what else is wrong is said by whoever evaluates it
        _log.debug("indices are not known to be in range: %s", error)


def _indexes(node: Apply, arrays: bool) -> bool:
    """Whether an operation takes an entry at one place, or at an array of places."""
    op = node.op
    if isinstance(op, Subtensor):
        return not all(isinstance(index, slice) for index in op.idx_list)
    return arrays and "Subtensor" in type(op).__name__
