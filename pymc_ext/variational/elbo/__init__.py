"""The ELBO on given draws, of any family whose loss has a gradient from scores alone.

A :class:`~.objective.Family` is moved by :class:`~.fixed_draws.FixedDrawsAlgorithm` on
:func:`~.normals.fixed_normals`, or on fresh ones by an algorithm of its own (Monte Carlo). To add
one, write ``posterior``, ``draws`` and ``loss``; :mod:`pymc_ext.variational.gaussian` has examples.

>>> from pymc_ext.variational.elbo.normals import fixed_normals
>>> fixed_normals(64, 2, "sobol", np.random.default_rng(1)).mean(axis=0).round(9) + 0.0
array([0., 0.])
"""
