"""PyMC ports, one file per posteriordb model name, each with ``model(data) -> pm.Model``.

Scales are written ``np.float64(5)``: PyTensor gives a Python number the smallest type that holds
it, so that ``log(5)`` would be taken in single precision and the log density be off by 6e-8.
"""
