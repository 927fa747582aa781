r"""Gaussian variational inference by the reparameterised Monte Carlo ELBO: the paper's VI-MC."""

from __future__ import annotations

from functools import partial

import pymc as pm

from pymc_ext.density.model import PyMCDensity
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.gaussian.monte_carlo import STEP, MonteCarlo
from pymc_ext.variational.plugin.stochastic_vi import StochasticVI
from pymc_ext.variational.plugin.types import Start


class MonteCarloVI(StochasticVI):
    r"""Gaussian variational inference on a Monte Carlo ELBO, for any PyMC model.

    .. math:: \mathrm{ELBO} \approx \frac1S \sum_s
              [\log\tilde p(\mu + L z_s) - \log q(\mu + L z_s)], \qquad z_s \sim N(0, I)

    with fresh z_s at every step of Adam; what :class:`ViperVI` is compared with. A step that is not
    finite is left out, and a gradient far longer than those before it is shortened.

    Parameters
    ----------
    covariance
        ``"full"`` or ``"diagonal"``, of q on the unconstrained space.
    draws
        S, draws per step; the paper uses 1000.
    learning_rate
        Of Adam, unless ``obj_optimizer`` is passed to ``pm.fit``.
    model, start, random_seed
        As in :class:`ViperVI`. ``pm.Minibatch`` data are allowed.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(2000, method=px.MonteCarloVI("full", random_seed=1))
    """

    def __init__(
        self,
        covariance: str = "full",
        *,
        draws: int = STEP.draws,
        learning_rate: float = STEP.learning_rate,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        step = StepOptions(draws, learning_rate=learning_rate)
        algorithm = MonteCarlo(covariance, step=step)
        super().__init__(algorithm, model=model, start=start, random_seed=random_seed)
        self.approx.use_density(partial(PyMCDensity, interpreted=False))  # thousands of steps
