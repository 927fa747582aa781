r"""Gaussian variational inference by the reparameterised Monte Carlo ELBO: the paper's VI-MC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.variational import updates
from pytensor.tensor import TensorVariable

from pymc_ext.variational.core.base import StochasticInference, VectorisedApproximation
from pymc_ext.variational.gaussian.groups import DiagonalGroup, GaussianGroup
from pymc_ext.variational.logistic.inference import check_covariance


class CholeskyGroup(GaussianGroup):
    """A lower triangular, its diagonal e^s: every Gaussian."""

    def create_noise_params(self) -> dict[str, Any]:
        zeros = pm.pytensorf.floatX(
            np.zeros((self.ddim, self.ddim))
        )  # above the diagonal: not used
        return {"raw": pytensor.shared(zeros, "raw")}

    def _triangle(self) -> TensorVariable:
        raw = self.params_dict["raw"]
        return pt.tril(raw, -1) + pt.diag(pt.exp(pt.diagonal(raw)))

    def noise(self, z: TensorVariable) -> TensorVariable:
        return z @ self._triangle().T

    def noise_inverse(self, x: TensorVariable) -> TensorVariable:
        return pt.linalg.solve_triangular(self._triangle(), x.T, lower=True).T

    def noise_log_det(self) -> TensorVariable:
        return pt.sum(pt.diagonal(self.params_dict["raw"]))


class MonteCarloVI(StochasticInference):
    r"""Gaussian variational inference on a Monte Carlo ELBO, for any PyMC model.

    .. math:: \mathrm{ELBO} \approx \frac1S \sum_s
              [\log\tilde p(\mu + L z_s) - \log q(\mu + L z_s)], \qquad z_s \sim N(0, I)

    with fresh z_s at every step of Adam; what :class:`ViperVI` is compared with.

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
        draws: int = 1000,
        learning_rate: float = 0.02,
        model: pm.Model | None = None,
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        check_covariance(covariance)
        if not isinstance(draws, int | np.integer) or draws < 1:
            raise ValueError(f"draws must be an integer >= 1, got {draws!r}")
        if not learning_rate > 0:
            raise ValueError(f"learning_rate must be > 0, got {learning_rate}")
        self.name = f"monte-carlo-{covariance}"
        self.draws, self.learning_rate = draws, learning_rate
        approx = VectorisedApproximation(
            CholeskyGroup if covariance == "full" else DiagonalGroup,
            model=model,
            start=start,
            random_seed=random_seed,
        )
        super().__init__(approx, random_seed=random_seed)

    def fit(self, n: int = 10_000, *args: Any, **kwargs: Any) -> VectorisedApproximation:
        """As :meth:`pymc.Inference.fit`, with ``draws`` draws and Adam unless told otherwise."""
        kwargs.setdefault("obj_n_mc", self.draws)
        kwargs.setdefault("obj_optimizer", updates.adam(learning_rate=self.learning_rate))
        return super().fit(n, *args, **kwargs)
