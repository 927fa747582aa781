"""PyTensor Ops with kernels of their own, for every backend.

`expected_softplus` is E log(1 + e^X) of a normal X, elementwise; `bernstein` the increasing
Bernstein polynomial of a sigmoid with its log derivative; both have exact gradients. `callback`
serves Ops that are Python by design (`pymc_ext.gp.ops`); `compiler`, imported first, takes numba
where there is no C++ compiler.

To add one: the kernel in NumPy in `pymc_ext.maths`; here the Op, whose ``perform`` calls it, with
the same kernel in C (``name.c``, which the Op reads), ``name_numba.py``, registered on import, and
``name_jax.py``, registered on first use. All that changes the result belongs to ``__props__`` or to
the inputs. ``tests/pymc_ext/ops/test_callback.py`` finds the Op and asks for its numba kernel.

>>> from pymc_ext.ops.expected_softplus import expected_softplus
>>> expected_softplus(np.array([-1.0, 0.0, 1.0]), 1.0).eval().round(3)
array([0.407, 0.806, 1.407])
"""

import pymc_ext.ops.compiler  # noqa: F401  # chooses PyTensor's backend before it compiles
