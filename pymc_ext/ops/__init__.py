"""PyTensor Ops with their kernels."""

import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before it compiles
