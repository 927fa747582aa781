"""Exact answers: chains in the coordinates of a fitted approximation, judged, with what they cost.

`run.sample` lets chains run on a density in the coordinates of a q with a pullback
(:class:`pymc_ext.density.TransportMap`), block by block, until the draws are worth what was asked:
of `hmc`, which go in step, where it is told to, and of a sampler, in `threads`, where these do not
do; where the coordinates do not serve, chains go on with the sampler's own adaptation.
`options.Sampling` holds the options, `result.Sampled` the answer, `diagnostics` the limits it is
judged by, `heavy` what no draws tell, `starts` where chains begin, `symmetry` what orders of labels
leave the same (`symmetry_search` finds them). `pymc.sample` is ``px.sample``,
for what ``pm.fit`` gave.

`attempts` decides what follows a block, which `blocks` draws; `prediction` tells beforehand what it
will cost, `modes` whether chains keep to modes of their own, and `tails` whether they miss an end.

A sampler is an object with ``chain(...)`` that returns a chain (`protocol`); `nutpie` and
`pymc_nuts` run on any density, Stan's own is handed over by ``bridge``. To add one: a file with
these two classes, and a line in ``tests/pymc_ext/sampling/test_samplers.py``.

>>> from pymc_ext.density import CallableDensity
>>> from pymc_ext.sampling.nutpie import NutpieNUTS
>>> from pymc_ext.sampling.run import sample
>>> from pymc_ext.variational.gaussian.laplace import Laplace
>>> density = CallableDensity(lambda x: -(x**4).sum(1), lambda x: -4 * x**3, dimension=2)
>>> q = Laplace().fit(density, start=[0.5, 0.5]).q  # doctest: +SKIP
>>> sample(density, q, NutpieNUTS(), seed=1).trusted  # doctest: +SKIP
True
"""
