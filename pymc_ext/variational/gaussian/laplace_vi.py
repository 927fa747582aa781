r"""Laplace's approximation as a method of ``pm.fit``."""

from __future__ import annotations

import pymc as pm

from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.gaussian.approximation import LaplaceApproximation
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.modes import LaplaceFit, ModeSearch
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.types import Hyperparameters, Start


class LaplaceVI(AlgorithmVI):
    r"""Laplace approximation as a PyMC inference: ``pm.fit(method=LaplaceVI())``.

    .. math:: q = N(\theta^*, (-\nabla^2 \log\tilde p(\theta^*))^{-1})

    where log p̃ is the model's log density on the **unconstrained** space with the log-Jacobian of
    the transforms, and θ* its highest mode among those reached by trust-region Newton. Second
    derivatives are fourth-order differences of scores (relative errors around 1e-12); where these
    show a kink, the exact Hessian is compiled.

    Parameters
    ----------
    search
        From how many points modes are looked for, and what counts as one.
    hyperparameters
        Free variables (or names) set to the point values that maximise the Laplace estimate of the
        evidence (empirical Bayes); their prior counts on the constrained scale, without Jacobian.
    model
        None takes the model of the ``with`` context.
    start
        Initial values by variable name on the constrained scale.
    random_seed
        Seeds the jitter, the fresh draws and draws without a seed (``pm.fit`` ignores its own).

    Raises
    ------
    NoModeError
        From ``fit``, if the density has no mode that can be reached; a ValueError.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.LaplaceVI(random_seed=1))
    >>> approx.result.log_marginal_laplace, approx.result.log_marginal_is

    References
    ----------
    Tierney & Kadane (1986), doi:10.1080/01621459.1986.10478240; Gianniotis, eq. 2.
    """

    def __init__(
        self,
        *,
        search: ModeSearch | None = None,
        hyperparameters: Hyperparameters = (),
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = Laplace(ModeSearch() if search is None else search)
        super().__init__(
            algorithm,
            model=model,
            hyperparameters=hyperparameters,
            start=start,
            random_seed=random_seed,
            approximation=LaplaceApproximation,
        )

    def keep(self, fitted: Fitted[Posterior]) -> None:
        if isinstance(fitted.state, LaplaceFit):
            self.approx.laplace = fitted.state
