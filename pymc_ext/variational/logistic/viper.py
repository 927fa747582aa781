r"""VI-PER: closed-form Gaussian variational inference for logistic models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.tensor import TensorVariable

from pymc_ext.maths.expected_softplus_series import DEFAULT_TERMS, Acceleration, Series, series
from pymc_ext.maths.types import Array
from pymc_ext.ops.expected_softplus import expected_softplus, value_and_gradients
from pymc_ext.variational.logistic.algorithm import ClosedForm
from pymc_ext.variational.logistic.closed_form_vi import ClosedFormVI
from pymc_ext.variational.logistic.density import LogisticDensity
from pymc_ext.variational.logistic.newton import Softplus, curvature
from pymc_ext.variational.plugin.types import Start


@dataclass(frozen=True)
class Viper(ClosedForm):
    """Algorithm of :class:`ViperVI`, for densities of logistic models.

    Parameters
    ----------
    covariance, tolerance, draws, terms, acceleration
        As in :class:`ViperVI`.
    """

    label: ClassVar[str] = "viper"
    terms: int = DEFAULT_TERMS
    acceleration: Acceleration = "cohen-villegas-zagier"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.series.accelerated and self.terms % 2 == 0:
            raise ValueError(
                f"terms must be odd with acceleration='none', got {self.terms}: an even number "
                "gives a lower bound on the expected softplus, so no bound on the ELBO"
            )

    @property
    def series(self) -> Series:
        """Numbers of the sum."""
        return series(0, self.terms, self.acceleration)

    @property
    def bound(self) -> str:
        return "" if self.series.accelerated else f"{self.terms} terms"

    def graph(self, theta: TensorVariable, tau: TensorVariable) -> TensorVariable:
        return expected_softplus(theta, tau, self.terms, self.acceleration)

    def softplus(self, density: LogisticDensity) -> Softplus:
        theta, tau = pt.dvectors("theta", "tau")
        f = density.compile([theta, tau], value_and_gradients(theta, tau, self.series))
        f(np.ones(1), np.ones(1))  # numba compiles at the first call

        def softplus(theta: Array, tau: Array) -> tuple[Array, Array, Array]:
            value, slope, by_tau = f(theta, tau)
            return value, slope, curvature(by_tau, tau)

        return softplus


class ViperVI(ClosedFormVI):
    r"""Gaussian variational inference with an exact logistic term: ``pm.fit(method=ViperVI())``.

    .. math:: \mathrm{ELBO} = \sum_i [y_i \vartheta_i - \eta(\vartheta_i, \tau_i)]
              - \mathrm{KL}(q \,\|\, p), \qquad
              \eta(\vartheta, \tau) = E[\log(1 + e^X)],\ X \sim N(\vartheta, \tau^2)

    for observations that are Bernoulli, Binomial or Categorical with two classes and whose logit is
    **affine in variables with a Gaussian prior**. The model is written as usual: the affine part is
    read from its graph. The objective is deterministic. If all variables are linear it is maximised
    by natural-gradient Newton steps (with ``pm.Minibatch`` data, by stochastic natural gradient,
    ``n`` steps; rows of a file, ``pm.fit(method=ViperVI(tolerance=1e-6), rows=ParquetRows(...))``,
    take two or three passes). If others remain (scales, kernel hyperparameters, variables with
    another prior), q is a Gaussian over all variables, averaged over fixed Sobol draws of those and
    integrated in closed form over the linear ones.

    Parameters
    ----------
    covariance
        ``"full"`` (family Q′ of the paper) or ``"diagonal"`` (Q), of q on the unconstrained space.
        In hierarchical models a diagonal q of a non-centred model is far too narrow in the scale;
        take "full" there.
    terms, acceleration
        As in :func:`expected_softplus`; the defaults are exact to rounding. ``terms=23,
        acceleration="none"`` is the paper's bound with l = 12.
    tolerance
        Newton stops when the natural gradient promises less than this, in nats.
    draws
        Sobol draws of the variables that are not linear.
    model
        None takes the model of the ``with`` context.
    start
        Initial values by variable name, constrained scale.
    random_seed
        Seeds Sobol draws, minibatches and draws from q (``pm.fit`` ignores its own).

    Raises
    ------
    AffinityError
        A ValueError: the model has a likelihood, potential or prior that the bound does not cover;
        the message names the variable.
    ValueError
        Outcomes or predictors are not valid (also from ``fit``).

    Examples
    --------
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
    ...     pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     approx = pm.fit(method=px.ViperVI("full"))
    >>> approx.result.elbo

    References
    ----------
    Komodromos, Evangelou & Filippi (2024), Logistic Variational Bayes Revisited,
    arXiv:2406.00713.
    """

    def __init__(
        self,
        covariance: str = "full",
        *,
        terms: int = DEFAULT_TERMS,
        acceleration: Acceleration = "cohen-villegas-zagier",
        tolerance: float = 1e-10,
        draws: int = 128,
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        algorithm = Viper(covariance, tolerance, draws, terms, acceleration)
        super().__init__(algorithm, model=model, start=start, random_seed=random_seed)
