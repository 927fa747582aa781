"""PyMC ports, one file per posteriordb model name, each with ``model(data) -> pm.Model``.

Scales are written ``np.float64(5)``: PyTensor gives a Python number the smallest type that holds
it, so that ``log(5)`` would be taken in single precision and the log density be off by 6e-8.

A port says ``SLOW = True`` where its gradient at a batch of points takes minutes to compile, or
many times as long as the Stan program's to run: scans, solvers, stacks of factorisations.

A port whose parameters posteriordb's reference draws do not hold, only what is made of them, has
``recover(draws, data)``: the missing parameters by name, from named draws (N, *shape) of the
variables that its ``RECOVERED_FROM`` names.

To add one: ``NAME.py`` here, found by its name; `_regression`, `_markov`, `_ode` and `_scan` have
what ports share. ``NAME.stan`` beside it if posteriordb's own is not there; a line in
``tests/posteriordb_cases/synthetic.py``, from which the port is compared with the Stan program.

>>> from posteriordb_cases.models import bernoulli_beta
>>> prior = {"prior_successes": 1.0, "prior_failures": 1.0}
>>> bernoulli_beta.model({"y": np.array([1, 0, 1]), **prior}).free_RVs
[p]
"""
