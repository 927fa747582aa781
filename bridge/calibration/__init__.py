"""Calibration: are the posteriors of a method those of the model, over data that the model makes?

`calibrate.calibrate` draws parameters from the prior, data given them, fits each data set, and asks
where the parameters lie among the fit's draws. `of_pymc` and `of_stan` make parameters and data
(`files` reads models), `study` lets a model compiled once take other data, `run` is one simulation,
`on_record` the file of them, `bands` tests ranks (simultaneous ECDF bands, symmetry), `result`
holds what was found and `figure` shows it.

Add a test quantity: a line in `run.quantities`. Add a kind of model: a class with the members of
`study.Study`.

>>> with pm.Model() as flips:
...     p = pm.Beta("p", 1, 1)
...     heads = pm.Binomial("heads", 10, p, observed=0)
>>> found = bridge.calibrate(flips, "laplace", simulations=20, random_seed=1)
>>> found.quantities
('p', 'log_lik', 'lp')
"""
