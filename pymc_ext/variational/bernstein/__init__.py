"""Bernstein flows: every component of θ an increasing polynomial whose shape those before it set.

For what the hierarchical map, on which they are trained, does not hold (bends, dependence that is
not linear), and where a normalised density is wanted: seconds there, minutes from the identity.

- :mod:`.vi` is the method of ``pm.fit``, :mod:`.algorithm` its algorithm for any density.
- :mod:`.shape` holds a flow's options; :mod:`.latents`, :mod:`.input_maps` and :mod:`.tails` hold
  its choices, one class each; :mod:`.flow` is q in numbers (:mod:`.triangular`,
  :mod:`.inversion`), :mod:`.graph` the same as a graph for JAX, :mod:`.whitening` the coordinates
  it works in.
- :mod:`.training` takes the steps, :mod:`.polish` lowers k̂ afterwards.

To add a latent law or an input map, write its class and name it in ``LATENTS`` or ``MAPS``; a
family made of flows goes by the way of every family (:mod:`pymc_ext.variational`).

>>> from pymc_ext.density import CallableDensity
>>> from pymc_ext.variational.bernstein.algorithm import Bernstein
>>> from pymc_ext.variational.bernstein.shape import FlowShape
>>> density = CallableDensity(lambda x: -(x**2).sum(1), lambda x: -2 * x, dimension=2)
>>> fitted = Bernstein(FlowShape(order=5), polish=None).fit(density, n=1000, random_seed=1)
>>> fitted.q.forward(np.zeros((1, 2)))[0].shape
(1, 2)
"""
