"""Closed forms for models with a logistic or softmax likelihood, read from the model's graph.

`viper` (the exact expectation of softplus), `jaakkola` (its quadratic bound), `matching` (a
Gaussian for each likelihood term). `affine` finds where the logit is affine in the free variables
and says with ``AffinityError`` where it is not; `graph`, `softmax` and `hierarchical` say what it
finds; `inference` and `newton` are what the first two share.

To add a bound: a subclass of `inference`'s ``AffineInference`` with its terms, an export in
`pymc_ext` and a line in ``tests/contracts.py``.

>>> with model:
...     approx = pm.fit(method=px.ViperVI(random_seed=1), progressbar=False)
>>> approx.result.elbo_se  # in closed form
0.0
"""
