"""PyMC's Gaussian-process verbs for any factorising likelihood."""

from __future__ import annotations

from typing import cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from pytensor.tensor import TensorVariable
from scipy.special import ndtri

from pymc_ext.arviz_versions import ArvizData
from pymc_ext.gp.arrays import Inputs, as_matrix, n_columns
from pymc_ext.gp.observed import Observed
from pymc_ext.gp.ops import SiteWeights
from pymc_ext.gp.points import Point, numbers_at
from pymc_ext.gp.predictions import (
    latents_at,
    latents_over,
    posterior_draws,
    predictions,
    row_labels,
)
from pymc_ext.maths.types import Array
from pymc_ext.models.context import context
from pymc_ext.seeds import check_seed

JITTER = 1e-6  # of sampled conditionals only, as in pm.gp


class Approximate(Observed):
    r"""Gaussian process with any factorising likelihood, its latents integrated out approximately.

    .. math:: f \sim GP(m, k), \quad y_i \sim p(y_i \mid f(x_i), \phi), \quad
              \log p(y \mid \theta, \phi) \approx L(\lambda^*(\theta, \phi), \theta, \phi)

    The approximate evidence L is the model's term for ``y``, with exact gradients in every
    hyperparameter, so `pm.find_MAP`, `pm.fit` and `pm.sample` work on the hyperparameters alone.

    Parameters
    ----------
    mean_func, cov_func
        From `pm.gp.mean` (default zero) and `pm.gp.cov`, or any callable of the same form.
    likelihood
        `px.gp.BernoulliProbit`, `BernoulliLogit`, `StudentT`, `Poisson`, `NegativeBinomial`,
        `Categorical`, `Gaussian`; their parameters may be variables of the model.
    rule
        `px.gp.CVI` (default), `EP`, `Laplace`, `Matching`, `JaakkolaBound`.
    learning
        Evidence formula: "laplace", "ep", "elbo" or "sites"; None for the rule's own. The hybrid
        of Li, John & Solin is ``rule=CVI(), learning="ep"``.
    on_failure
        What the evidence does where the rule finds no fixed point, or the hyperparameters make no
        covariance: "raise", or "reject", which gives −∞ (and where only the gradient fails, 0) and
        records the reason in ``failures``. None: an error until the evidence is known somewhere,
        as the model is at fault then; later −∞, for the far points of `pm.sample`'s warm-up.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_ext as px
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> y = (X[:, 0] > 0.4).astype(int)
    >>> with pm.Model() as model:
    ...     ls = pm.InverseGamma("ls", 3, 1)
    ...     gp = px.gp.Approximate(
    ...         cov_func=4 * pm.gp.cov.Matern52(1, ls=ls), likelihood=px.gp.BernoulliProbit()
    ...     )
    ...     _ = gp.marginal_likelihood("y", X=X, y=y)
    >>> point = {"ls": 0.3}
    >>> p, _ = gp.predict(np.array([[0.0], [0.9]]), point=point, diag=True, pred_noise=True,
    ...                   model=model)
    >>> bool(p[0] < 0.5 < p[1])
    True

    References
    ----------
    Rasmussen & Williams (2006), chapter 3. Li, John & Solin (2023), arXiv:2306.04201.
    """

    def latent(self, Xnew: Inputs, diag: bool = False) -> tuple[TensorVariable, TensorVariable]:
        """Graphs of the latent's posterior mean and covariance (or variance) at ``Xnew`` (n*, d).

        These are (n*,) and (n*, n*), a variance (n*,). With L > 1 latents mean and variance gain a
        last axis L, the covariance a first one.

        Raises
        ------
        ValueError
            There are no data yet.
        """
        if not self.inputs:
            raise ValueError("no data yet: call marginal_likelihood first")
        Xnew = as_matrix(Xnew, "Xnew", n_columns(self.X))
        weights = SiteWeights(self.solver)(*self.inputs, return_list=True)
        w, F, G = cast("list[TensorVariable]", weights)
        cross = self.cov_func(Xnew, self._at)
        mean = self.mean_func(Xnew)
        mu = cross @ w + (mean if self.likelihood.n_latent == 1 else mean[:, None])
        taken, given = cross @ F, cross @ G
        if diag:
            change = pt.sum(given**2, axis=-1) - pt.sum(taken**2, axis=-1)
            return mu, pt.maximum(self.cov_func(Xnew, diag=True) + change, 0.0).T
        change = given @ given.mT - taken @ taken.mT
        return mu, self.cov_func(Xnew) + change

    def conditional(
        self, name: str, Xnew: Inputs, jitter: float = JITTER, **kwargs: object
    ) -> TensorVariable:
        """Latent function at new inputs as a variable of the model, N(μ*, S*), shape (n*,).

        For `pm.sample_posterior_predictive`: add it after sampling the hyperparameters.

        Parameters
        ----------
        name
            Name of the variable; with several latents its shape is (L, n*).
        Xnew : (n*, d)
        jitter
            Added to the covariance's diagonal.
        **kwargs
            Passed to `pm.MvNormal`: ``dims``.
        """
        mu, cov = self.latent(Xnew)
        cov = cov + jitter * pt.eye(cov.shape[-1])  # of every latent
        return pm.MvNormal(name, mu=mu.T, cov=cov, **kwargs)

    def predict(
        self,
        Xnew: Inputs,
        point: Point | None = None,
        diag: bool = False,
        pred_noise: bool = False,
        model: pm.Model | None = None,
    ) -> tuple[Array, Array]:
        """Mean and covariance at new inputs for given hyperparameters.

        Parameters
        ----------
        Xnew : (n*, d)
        point
            Hyperparameters, constrained, by name, as `pm.find_MAP` returns them.
        diag
            Variances (n*,) in place of the covariance.
        pred_noise
            False: of the latent f. True: of y, so p(y=1) for a Bernoulli; needs ``diag=True``.
        model
            Needed outside the model's context.

        Returns
        -------
        mean, covariance
            (n*,) and (n*, n*) or (n*,); for `Categorical` (n*, K) and (K, n*, n*) or (n*, K).

        Raises
        ------
        ValueError
            The point lacks a hyperparameter or has one outside its support, or the model is not
            the one the GP was built in.
        """
        if pred_noise and not diag:
            raise ValueError("pred_noise=True gives the variances of y only: pass diag=True")
        mu, cov, phi = self._numbers(Xnew, point, diag, model)
        return self.likelihood.predict(mu, cov, phi) if pred_noise else (mu, cov)

    def _numbers(
        self, Xnew: Inputs, point: Point | None, diag: bool, model: pm.Model | None
    ) -> tuple[Array, ...]:
        outputs = [*self.latent(Xnew, diag), self.inputs[1]]
        return tuple(numbers_at(outputs, point, context(model)))

    def log_predictive(
        self,
        Xnew: Inputs,
        ynew: ArrayLike,
        point: Point | None = None,
        model: pm.Model | None = None,
    ) -> Array:
        """log p(y* | y, θ) of every new observation, (n*,); arguments as in `predict`.

        Raises
        ------
        ValueError
            ``Xnew`` and ``ynew`` differ in their rows.
        """
        y = self.likelihood.check(ynew)
        mu, variance, phi = self._numbers(Xnew, point, True, model)
        if len(y) != len(mu):
            raise ValueError(f"Xnew has {len(mu)} rows, ynew has {len(y)} entries")
        return self.likelihood.tilted(mu, variance, y, phi).log_normaliser

    def quantiles(
        self,
        Xnew: Inputs,
        q: ArrayLike,
        point: Point | None = None,
        of: str = "mean",
        model: pm.Model | None = None,
    ) -> Array:
        """Quantiles of E[y | f] (class probability, rate) or of the latent, (len(q), n*).

        Exact under the approximate posterior, as E[y | f] grows with f.

        Parameters
        ----------
        Xnew : (n*, d)
        q
            Levels in (0, 1), a scalar or (k,).
        of
            "mean" or "latent".

        Raises
        ------
        ValueError
            A level is outside (0, 1), ``of`` is something else, or there are several latents.
        """
        q = np.atleast_1d(np.asarray(q, dtype=float))
        if not np.all((q > 0) & (q < 1)):
            raise ValueError(f"q must lie in (0, 1), got {q}")
        if of not in ("mean", "latent"):
            raise ValueError(f"of must be 'mean' or 'latent', got {of!r}")
        if self.likelihood.n_latent > 1:
            raise ValueError("quantiles need one latent: use sample_predictions for Categorical")
        mu, variance, phi = self._numbers(Xnew, point, True, model)
        f = mu + np.sqrt(variance) * ndtri(q)[:, None]
        return f if of == "latent" else self.likelihood.moments(f, phi)[0]

    def sample_predictions(
        self,
        Xnew: Inputs,
        idata: ArvizData | xr.Dataset | None = None,
        point: Point | None = None,
        draws: int = 1000,
        random_seed: int | None = None,
        dims: str | None = None,
        model: pm.Model | None = None,
    ) -> ArvizData:
        """Draws of f, E[y | f] and y at new inputs, hyperparameters integrated out or given.

        Parameters
        ----------
        Xnew : (n*, d)
        idata
            Posterior draws of the hyperparameters; one draw of f for each of them, which keeps its
            chain and draw.
        point, draws
            In their place: one set of hyperparameters and the number of draws.
        random_seed
            Seed of the draws of f and y.
        dims
            Name of the rows of Xnew, a dimension of the model whose coords they have or any other;
            None: the observed variable's name with "_new".

        Returns
        -------
        InferenceData (ArviZ 0) or DataTree
            Group ``posterior_predictive``: "f", "mean" (for Bernoulli the probability of 1) and
            "y", each (chain, draw, n*); f and mean of `Categorical` have a last axis "class".

        Raises
        ------
        ValueError
            The draws or the point lack a hyperparameter or have one outside its support, the model
            is not the GP's, or its dimension ``dims`` has another length.
        """
        if (idata is None) == (point is None):
            raise ValueError("give either idata or point")
        if draws < 1:
            raise ValueError(f"draws must be >= 1, got {draws!r}")
        model = context(model)
        check_seed(random_seed, generator=True)
        rng = np.random.default_rng(random_seed)
        outputs = [*self.latent(Xnew), self.inputs[1]]
        coords: dict[str, NDArray] = {}
        if point is not None:
            f, phi = latents_at(outputs, point, model, draws, rng)
        else:
            posterior = posterior_draws(idata)
            f, phi = latents_over(outputs, posterior, model, rng)
            coords = {name: posterior[name].values for name in ("chain", "draw")}
        if dims is not None:
            coords |= row_labels(model, dims, f.shape[2])
        parts = [self._observe(rng, f[c, d], phi[c, d]) for c, d in np.ndindex(f.shape[:2])]
        mean, y = (np.reshape([p[k] for p in parts], (*f.shape[:2], -1)) for k in (0, 1))
        if self.likelihood.n_latent > 1:
            mean = mean.reshape(f.shape)
        assert self.observed is not None
        rows = f"{self.observed.name}_new" if dims is None else dims
        return predictions({"f": f, "mean": mean, "y": y}, rows, coords)

    def _observe(self, rng: np.random.Generator, f: Array, phi: Array) -> tuple[Array, Array]:
        return self.likelihood.moments(f, phi)[0], self.likelihood.draw(rng, f, phi)
