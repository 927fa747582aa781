"""Targets: log p̃ of a posterior on R^D, whoever wrote the model.

`target` says what a `Target` is: its name, its dimension D, its parameters' names, log p̃ and its
gradient at rows of unconstrained points, and the way to the constrained values and back. Take
`pymc.pymc_target` for a PyMC model (compiled once, vectorised over draws), `stan.stan_target` for a
compiled Stan program and `density.DensityTarget` for any other density;
`agreement.check_agreement` proves that two of them are one posterior. `draws` says what this
package asks of ArviZ's data.

Add one: a file with a class that has the members of `target.Target`; nothing to derive from or to
register. Constants and log-Jacobians belong to its density, so that it integrates to the evidence.

>>> target = bridge.pymc_target(model)
>>> target.log_density(np.zeros((3, target.dimension))).shape
(3,)
"""
