"""Peers: approximations of other packages, to be compared with (extra ``peers``).

One file a package: `pymc_extras` works on a problem's PyMC model, `blackjax`, `numpyro` and
`nutpie_flow` on a JAX function of its log density, which PyMC models and
`px.CallableDensity(jax=True)` have. `shared` is what they have in common. A package is imported
when a method of it runs; where it is missing the run is a record that says so. None of them runs
unless it is asked for.

Each gives draws with log q, but for chains and particles, and takes the package's own defaults;
where it has none, what was chosen is said in the class and stands in every record (``options``).

Add one: a file with its methods, a line in `bridge.methods.table` and one in
``tests/bridge/methods/peers/test_peers.py``.

>>> from bridge.methods.table import METHODS
>>> METHODS["numpyro-normal"].description
'AutoNormal of NumPyro, 20,000 steps; needs numpyro'
"""
