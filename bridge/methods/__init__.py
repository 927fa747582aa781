"""Methods: what approximates a posterior, each a name and a function to one common result.

`method` says what a `Problem` (what a method is given), a `Fit` (its answer) and a `Method` are;
one file a source: `stan` (Stan's own), `pymc` (PyMC's ADVI), `families` (ours), `warm_nuts` (exact
draws in an approximation's coordinates), and to compare with them `samplers` (nutpie's and PyMC's
own NUTS) and `peers` (other packages' approximations); `table` finds them by name; `problems` makes
a problem of a PyMC model or a Stan program, `named_draws` what users get of a fit. ``python -m
bridge list`` says what each is; README.md, which to choose.

Add one of ours: a line in its source's file. One of yours: a `bridge.Method` handed to
`bridge.fit`, `compare` or `sweep`, or registered by your package under the entry point group
``trusted_posteriors.methods``, the name being the method's; then its name will do.

>>> from bridge.methods.table import find_methods
>>> [method.name for method in find_methods(["laplace", "stan-nuts"])]
['laplace', 'stan-nuts']
"""
