"""Gaussians and mixtures of them: from a mode, and on from there.

`laplace` (at the mode; `modes` looks for it), `mixed` (parts of that Gaussian refitted, and the
mean-field one), `mixture` (one at each mode). The last two are fitted on `fixed_draws`: a `Family`
(`whitened`) gives draws and the gradient of its loss from scores, its scales are a `Noise`
(`noise`), and what comes out is a Gaussian in numbers (`posteriors`). ``*_vi`` are the methods of
``pm.fit``; `monte_carlo_vi` is the stochastic one of the papers.

To add one that is fitted on fixed draws: a `Noise`, or a `Family` with ``draws``, ``loss`` and
``posterior``, and an algorithm whose ``prepare`` gives it with its starts.

>>> from pymc_ext.variational.gaussian.mixed import Mixed
>>> density = px.CallableDensity(lambda x: -(x**4).sum(1), lambda x: -4 * x**3, dimension=1)
>>> bool(Mixed("eig", base="unit", random_seed=1).fit(density).result.converged)
True
"""
