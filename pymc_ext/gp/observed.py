"""A Gaussian process that a model has data of: its evidence as a term of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.tensor import TensorVariable

from pymc_ext.gp.arrays import Inputs, Matrix, as_matrix, fixed_columns, n_columns, n_rows
from pymc_ext.gp.failures import Failures, OnFailure
from pymc_ext.gp.graph import HyperparameterGraph
from pymc_ext.gp.likelihoods.likelihood import Likelihood
from pymc_ext.gp.ops import SiteEvidence
from pymc_ext.gp.posterior import Prior
from pymc_ext.gp.rules import CVI, Rule
from pymc_ext.gp.solver import Solver, make_prior
from pymc_ext.maths.types import Array

Function = Callable[..., TensorVariable]  # of pm.gp.mean or pm.gp.cov, of the rows of inputs


class Observed:
    """What `px.gp.Approximate`, which says its parameters, knows of its data."""

    def __init__(
        self,
        *,
        mean_func: Function | None = None,
        cov_func: Function,
        likelihood: Likelihood,
        rule: Rule | None = None,
        learning: str | None = None,
        on_failure: OnFailure | None = None,
    ):
        if not isinstance(likelihood, Likelihood):
            raise TypeError(f"likelihood must be a px.gp likelihood, got {likelihood!r}")
        rule = CVI() if rule is None else rule
        if not isinstance(rule, Rule):
            raise TypeError(f"rule must be a px.gp rule such as EP(), got {rule!r}")
        if not callable(cov_func):
            raise TypeError(f"cov_func must be a pm.gp.cov function, got {cov_func!r}")
        if mean_func is not None and not callable(mean_func):
            raise TypeError(
                f"mean_func must be a function such as pm.gp.mean.Constant(1.0), got {mean_func!r}"
            )
        self.mean_func = pm.gp.mean.Zero() if mean_func is None else mean_func
        self.cov_func = cov_func
        self.solver = Solver(likelihood, rule, learning)
        self.likelihood = self.solver.likelihood
        self.evidence = SiteEvidence(self.solver, Failures(on_failure))
        self.inputs: tuple[TensorVariable, ...] = ()  # (y, φ, *prior inputs) once there are data
        self.observed: TensorVariable | None = None  # the model's variable, once there are data
        self._at: Matrix | None = None
        self._graph: HyperparameterGraph | None = None
        self._graph_of: tuple[object, ...] = ()  # what it was made of

    @property
    def failures(self) -> list[str]:
        """Reasons of the evaluations in this process that failed without an error.

        See ``on_failure``; of `pm.sample` on several cores those are the start's only: every
        process logs its first failure, ``cores=1`` keeps all.
        """
        return self.evidence.failures.reasons

    def marginal_likelihood(
        self, name: str, X: Inputs, y: Inputs, Xu: Inputs | None = None, **kwargs: object
    ) -> TensorVariable:
        """Observe ``y`` with the latents integrated out; adds one variable to the model.

        Parameters
        ----------
        name
            Name of the observed variable.
        X : (n, d)
            Inputs, array or `pm.Data`.
        y : (n,)
            Observations in the likelihood's support, array or `pm.Data`.
        Xu : (m, d), optional
            Inducing inputs: array (fixed) or variable (learned). The sparse model then costs n m².
            1e-10 of their mean variance is added to their covariance, 1e-6 where that is singular.
        **kwargs
            Passed to the variable: ``dims``.

        Returns
        -------
        TensorVariable
            The observed variable, (n,); its log density is the evidence, all normalisers included.
            As with `pm.gp.Marginal`, `pm.sample_posterior_predictive` draws it from the prior of
            the latents: for predictions given the observations use `sample_predictions`.

        Raises
        ------
        ValueError
            If shapes disagree, or inputs or observations are not finite or out of the support.
        """
        if self.inputs:
            raise ValueError("this GP has data already: make a second px.gp.Approximate")
        X, y_data = as_matrix(X, "X"), self._observations(y)
        n = n_rows(X)
        if n is not None and n_rows(y_data) is not None and n != n_rows(y_data):
            raise ValueError(f"X has {n} rows, y has {n_rows(y_data)} entries: they must agree")
        phi = self._phi()
        self._check_columns(X)
        self.X, self.Xu = X, None if Xu is None else as_matrix(Xu, "Xu", n_columns(X))
        prior = self._prior(fixed_columns(X), None if self.Xu is None else fixed_columns(self.Xu))
        self._at = X if self.Xu is None else self.Xu
        for key, given in (("X", X), ("Xu", self.Xu)):
            if isinstance(given, SharedVariable):
                self.evidence.failures.data[key] = given
        self.inputs = (pt.as_tensor_variable(y_data), phi, *prior)
        signature = "(p),(n),(n,n)->(n)" if Xu is None else "(p),(n),(m,m),(n,m),(n)->(n)"
        self.observed = pm.CustomDist(
            name,
            phi,
            *prior,
            logp=lambda value, *parameters: self.evidence(value, *parameters),
            random=self._draw_prior,
            signature=signature,
            observed=y_data,
            **kwargs,
        )
        return self.observed

    def _check_columns(self, X: Matrix) -> None:
        """A covariance of more inputs than X has columns fails late and with an unclear error."""
        wanted, got = getattr(self.cov_func, "input_dim", None), n_columns(X)
        if isinstance(wanted, int) and got is not None and wanted > got:
            raise ValueError(f"cov_func has input_dim={wanted}, X has {got} columns")

    def _observations(self, y: Inputs) -> Matrix:
        if isinstance(y, SharedVariable):
            self.likelihood.check(y.get_value())
            data = cast("TensorVariable", y)
            return data.astype("float64") if data.dtype != "float64" else data
        if isinstance(y, TensorVariable):
            raise TypeError("y must be an array or pm.Data, got a random or symbolic variable")
        return self.likelihood.check(y)

    def _phi(self) -> TensorVariable:
        values = [self.likelihood.parameters[name] for name in self.likelihood.names]
        for name, value in zip(self.likelihood.names, values, strict=True):
            if ndim := pt.as_tensor_variable(value).ndim:
                raise ValueError(f"{name} must be a scalar, got {ndim} axes")
        if all(isinstance(v, int | float) for v in values):
            self.likelihood.check_parameters(np.array(values, dtype=float))
        return pt.stack(values).astype("float64") if values else pt.zeros(0)

    def input_values(self) -> Array:
        """X as it is now, (n, d)."""
        return self.X if isinstance(self.X, np.ndarray) else np.asarray(self.X.eval())

    def prior_graphs(self, X: TensorVariable) -> tuple[TensorVariable, ...]:
        """φ (P,) and the prior's inputs at other rows X (b, d), with the data's inducing inputs.

        These are the mean (b,) and covariance (b, b); with m inducing inputs the mean, their
        covariance (m, m), that of rows with them (b, m) and the rows' variances (b,).
        """
        return self._phi(), *self._prior(X, self.Xu)

    def _prior(self, X: Matrix, Xu: Matrix | None) -> tuple[TensorVariable, ...]:
        mean = pt.as_tensor_variable(self.mean_func(X))
        if mean.ndim != 1:
            raise ValueError(
                f"mean_func must give one number a row of X, (n,), got {mean.ndim} axes: take "
                "pm.gp.mean.Constant, Linear or one like them"
            )
        if Xu is None:
            return mean, self.cov_func(X)
        return mean, self.cov_func(Xu), self.cov_func(X, Xu), self.cov_func(X, diag=True)

    def _draw_prior(
        self, *args: ArrayLike, rng: np.random.Generator, size: ArrayLike | None = None
    ) -> Array:
        phi, *inputs = (np.asarray(a) for a in args)
        prior = make_prior(tuple(inputs))
        shape = () if size is None else tuple(np.atleast_1d(size))
        draws = [self._draw_one(prior, phi, rng) for _ in range(int(np.prod(shape)))]
        return np.reshape(draws, (*shape, *draws[0].shape))

    def _draw_one(self, prior: Prior, phi: Array, rng: np.random.Generator) -> Array:
        f = [prior.draw(rng) for _ in range(self.likelihood.n_latent)]
        latents = f[0] if self.likelihood.n_latent == 1 else np.stack(f, axis=1)
        return self.likelihood.draw(rng, latents, phi)

    def graph(self, model: pm.Model) -> HyperparameterGraph:
        """The model's hyperparameters as a flat vector, compiled once until the model changes."""
        parts = (
            model, *model.basic_RVs, *model.potentials, *model.rvs_to_initial_values.values(),
        )  # fmt: skip
        old = self._graph_of
        if len(old) != len(parts) or any(a is not b for a, b in zip(old, parts, strict=True)):
            self._graph, self._graph_of = HyperparameterGraph(self, model), parts
        assert self._graph is not None
        return self._graph
