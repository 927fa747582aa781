"""PyMC ports, one file per posteriordb model name, each with ``model(data) -> pm.Model``.

Scales are written ``np.float64(5)``: PyTensor gives a Python number the smallest type that holds
it, so that ``log(5)`` would be taken in single precision and the log density be off by 6e-8.

A port says ``SLOW = True`` where its gradient at a batch of points takes minutes to compile, or
many times as long as the Stan program's to run: scans, solvers, stacks of factorisations.

A port whose parameters posteriordb's reference draws do not hold, only what is made of them, has
``recover(draws, data)``: the missing parameters by name, from named draws (N, *shape) of the
variables that its ``RECOVERED_FROM`` names.
"""
