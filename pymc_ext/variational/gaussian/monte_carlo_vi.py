r"""Gaussian variational inference by the reparameterised Monte Carlo ELBO: the paper's VI-MC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import NDArray
from pymc.variational import updates
from pymc.variational.opvi import node_property
from pytensor.tensor import TensorVariable

from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.core.groups import TransformGroup
from pymc_ext.variational.core.pymc_loop import StochasticInference
from pymc_ext.variational.gaussian.groups import shared
from pymc_ext.variational.logistic.inference import check_covariance

Array = NDArray[np.floating]


class CholeskyGroup(TransformGroup):
    """θ = μ + T z, T lower triangular with diagonal e^s: every Gaussian."""

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        zeros = np.zeros((self.ddim, self.ddim))  # above the diagonal: not used
        return {"m": shared(start, "m"), "raw": shared(zeros, "raw")}

    @property
    def root(self) -> TensorVariable:
        """T, (D, D)."""
        raw = self.params_dict["raw"]
        return pt.tril(raw, -1) + pt.diag(pt.exp(pt.diagonal(raw)))

    def _log_det(self) -> TensorVariable:
        return pt.sum(pt.diagonal(self.params_dict["raw"]))

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        return self.params_dict["m"] + z @ self.root.T, self._log_det() + pt.zeros_like(z[:, 0])

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        centred = theta - self.params_dict["m"]
        z = pt.linalg.solve_triangular(self.root, centred.T, lower=True).T
        return standard_normal_logp(z) - self._log_det()

    @node_property
    def mean(self) -> TensorVariable:
        return self.params_dict["m"]

    @node_property
    def cov(self) -> TensorVariable:
        return self.root @ self.root.T

    @node_property
    def std(self) -> TensorVariable:
        return pt.sqrt(pt.sum(self.root**2, axis=1))


class LogScaleGroup(TransformGroup):
    """θ = μ + e^s z: independent components."""

    def create_shared_params(self, start: Array) -> dict[str, Any]:
        return {"m": shared(start, "m"), "s": shared(np.zeros(self.ddim), "s")}

    def transform(self, z: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
        s = self.params_dict["s"]
        return self.params_dict["m"] + pt.exp(s) * z, s.sum() + pt.zeros_like(z[:, 0])

    def log_density(self, theta: TensorVariable) -> TensorVariable:
        s = self.params_dict["s"]
        return standard_normal_logp((theta - self.params_dict["m"]) * pt.exp(-s)) - s.sum()

    @node_property
    def mean(self) -> TensorVariable:
        return self.params_dict["m"]

    @node_property
    def std(self) -> TensorVariable:
        return pt.exp(self.params_dict["s"])

    @node_property
    def cov(self) -> TensorVariable:
        return pt.diag(self.std**2)


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
            CholeskyGroup if covariance == "full" else LogScaleGroup,
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
