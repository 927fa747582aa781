"""Gaussians and mixtures of them, for any density that has scores.

- :class:`~.laplace.Laplace`: the mode and its curvature, in a fraction of a second; try it first.
- :class:`~.mixed.Mixed`: its mean, and part of its covariance, moved to maximise the ELBO: where
  the mode is not where the mass is. ``"lr"`` of few columns for most, ``"eig"`` in between.
- :class:`~.mixed.Diagonal`: independent components; for very many dimensions.
- :class:`~.batch_match.BatchMatch`: the best full-rank Gaussian, from scores alone; where Laplace
  has no mode, and wherever an ELBO matters. :class:`~.pathfinder.Pathfinder`: its first part.
- :class:`~.mixture.Mixture`: several modes. :class:`~.monte_carlo.MonteCarlo`: fresh draws at every
  step, also on ``pm.Minibatch`` data; slower and noisier than the others.

``*_vi.py`` are their methods of ``pm.fit``. To add a family that moves on fixed draws, write a
:class:`~..elbo.objective.Family` (draws; the loss's gradient from scores) and a
:class:`~..elbo.fixed_draws.FixedDrawsAlgorithm` that says where it starts; export it in
``pymc_ext/__init__.pyi`` and give it a line in ``tests/contracts.py``.

>>> from pymc_ext.density import CallableDensity
>>> from pymc_ext.variational.gaussian.mixed import Mixed
>>> density = CallableDensity(lambda x: -2 * x[:, 0] ** 2, lambda x: -4 * x, dimension=1)
>>> Mixed("eig").fit(density, random_seed=1).q.std
array([0.5])
"""
