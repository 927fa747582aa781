"""Names for the types that users' arguments have throughout the families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.typing import ArrayLike
from pytensor.tensor import TensorVariable

Start = Mapping[str, ArrayLike]  # initial values by variable name, constrained scale
Hyperparameters = Sequence[str | TensorVariable]  # free variables or their names
CompileOptions = Mapping[str, object]  # of PyTensor's compilation: mode, ...
