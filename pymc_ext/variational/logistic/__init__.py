"""Gaussians for models whose logits are affine in variables with a Gaussian prior.

The expected log likelihood of such a model is one-dimensional integrals, so that the ELBO is a
deterministic function; the affine part is read from the model's graph (:mod:`.affine`,
:mod:`.softmax`), and a model that is not covered raises :class:`AffinityError`.

- :class:`~.viper.ViperVI`: the exact expected softplus; take it.
- :class:`~.jaakkola.JaakkolaVI`: a quadratic bound; for comparison, its q is too narrow.
- :class:`~.matching.MatchingVI`: no iteration, softmax too; a start, or very many classes.

Each is an algorithm on a :class:`~.density.LogisticDensity`, which is read from the graph, with its
plug-in for ``pm.fit``. To add a bound, write a subclass of :class:`~.algorithm.ClosedForm` with the
bound as a graph and in numbers, and a :class:`~.closed_form_vi.ClosedFormVI` with its options;
export it in ``pymc_ext/__init__.pyi``, with a line in ``tests/contracts.py``. Rows of a file
(:mod:`pymc_ext.rows`) are read block by block in :mod:`.streamed`.

>>> with model:
...     approx = pm.fit(method=px.ViperVI(), progressbar=False)
>>> approx.result.converged, approx.result.elbo_se
(True, 0.0)
"""
