"""Stan's own methods as baselines: NUTS, ADVI, Laplace and Pathfinder, as ArviZ InferenceData.

Spaces and constants, the same for every method:

- group ``posterior``: parameters, transformed parameters and generated quantities, constrained,
  under Stan's names; its attribute ``generated_quantities`` lists the last, where there are any;
- group ``log_likelihood``: ``log_lik``, where the program has it, so that ``az.loo`` finds it;
- group ``unconstrained_posterior``: ``theta`` (chain, draw, D), where densities live;
- ``sample_stats["lp"]``: log p̃(θ) on the unconstrained space, with log Jacobian and all
  constants, recomputed because Stan's ``lp__`` drops constants;
- ``sample_stats["lq"]`` of an approximation: log q(θ) on the same space, normalised;
- group ``variational_parameters`` of an approximation: q = Σ_k weight_k N(mean_k, cov_k).

The attributes of ``posterior`` say what ran: engine, versions, method, seed, arguments, seconds
of wall time (compilation and the recomputed densities left out) and gradient evaluations where
Stan lets them be known exactly.
"""

from stan_models.approximations import advi, laplace
from stan_models.paths import pathfinder
from stan_models.sampling import nuts

__all__ = ["advi", "laplace", "nuts", "pathfinder"]
