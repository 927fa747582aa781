"""Mathematics without a model: functions of arrays and graphs that import nothing else of ours.

On NumPy arrays, for numbers: `bernstein_numpy` (monotone polynomials of a sigmoid; where they start
in `bernstein_coefficients`),
`expected_softplus_numpy` (E log(1 + e^X) of a normal X, its weights in `expected_softplus_series`)
and `trust_region` (the mode of a function with gradient and Hessian). As PyTensor graphs, for
derivatives of any order: `bernstein_basis`, `lowrank` (I + u vᵀ), `stretched_tails` and
`autoregressive` (a masked network). Where a graph is evaluated often, take the Op of
`pymc_ext.ops`, whose kernels are checked against the functions here.

To add one: a file here with its notation in the first lines, and a test in
``tests/pymc_ext/maths`` against SciPy or mpmath. ``tests/test_architecture.py`` checks its imports.

>>> from pymc_ext.maths.bernstein_numpy import basis
>>> basis(np.zeros(1), 2)
array([[0.25, 0.5 , 0.25]])
"""
