"""Mathematics without a model: functions of arrays and graphs that import nothing else of ours.

In numbers: `bernstein_numpy` (monotone polynomials of a sigmoid; where they start in
`bernstein_coefficients`), `flow_kernels` (a flow's loops, by numba), `map_kernels` (one point of a
hierarchical map), `expected_softplus_numpy` (E log(1 + e^X) of a normal X, its weights in
`expected_softplus_series`), `jaakkola` (a bound on it), `lowrank` (I + u vᵀ),
`trust_region` (the mode of a function with gradient and Hessian), `adam` (its step, in graphs too),
`psis` and `convergence` (what draws are worth). In numbers or as PyTensor graphs:
`stretched_tails`, `autoregressive` (a masked network); as graphs alone, for derivatives of any
order: `bernstein_basis`. Where a graph is evaluated often, take the Op of `pymc_ext.ops`, whose
kernels are checked against the functions here.

To add one: a file here with its notation in the first lines, and a test in
``tests/pymc_ext/maths`` against SciPy or mpmath. ``tests/test_architecture.py`` checks its imports.

>>> from pymc_ext.maths.bernstein_numpy import basis
>>> basis(np.zeros(1), 2)
array([[0.25, 0.5 , 0.25]])
"""
