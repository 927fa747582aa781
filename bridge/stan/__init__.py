"""A Stan program inside PyTensor, for what needs a graph: ``pm.sample``, ``pm.fit``.

`stan_to_pymc.stan_model` makes the PyMC model; `stan_op` holds the Ops that call the compiled
program (density with gradient, density alone, products with the Hessian, constrained values);
`stan_backends` teaches them to PyTensor's numba and (`stan_jax`) JAX; `start` finds where fits may
start. Whoever needs log p̃ in NumPy takes `bridge.stan_target` instead: no graph, nothing to
compile.

Add an Op: a class in `stan_op` derived from `StanOp` with ``make_node``, ``infer_shape``,
``compute`` and ``pullback``; numba has it then, JAX needs a function in `stan_jax`.

>>> with bridge.stan_model("parameters { real x; } model { x ~ normal(1, 2); }"):
...     laplace = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
>>> float(laplace.mean.eval()[0].round(3))
1.0
"""
