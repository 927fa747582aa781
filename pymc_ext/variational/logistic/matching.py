r"""Likelihood matching as a PyMC inference: a Gaussian posterior in closed form, no iteration."""

from __future__ import annotations

import time

import numpy as np
import pymc as pm
from numpy.typing import NDArray
from pymc.model import modelcontext
from scipy.linalg import cholesky, solve_triangular

from pymc_ext.matching.alpha import AlphaChoice, maximise_alpha
from pymc_ext.matching.predict import (
    N_DRAWS,
    expected_log_probabilities,
    expected_log_softmax,
    normal_draws,
)
from pymc_ext.matching.table import check_method, match_beta, match_gamma
from pymc_ext.maths.normal import LOG_2PI
from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.core.inference import DeterministicInference
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.gaussian.groups import GaussianGroup
from pymc_ext.variational.logistic.affine import AffinityError, split_affine
from pymc_ext.variational.logistic.numbers import (
    GaussianPrior,
    LogisticData,
    data_reader,
    prior_reader,
)
from pymc_ext.variational.logistic.softmax import matching_terms

Array = NDArray[np.floating]


class MatchingVI(DeterministicInference):
    r"""Closed-form Gaussian posterior of a logistic or softmax model: ``pm.fit(method=...)``.

    .. math:: q(\theta) \propto p(\theta) \prod_i N(f_i(\theta); m_i, v_i)

    where each observation's Gaussian over its logits f_i comes once from the table of matched
    likelihoods. For observations that are Bernoulli, Binomial or Categorical and whose logits are
    **affine in variables with a Gaussian prior**, read from the model's graph.

    Parameters
    ----------
    method
        ``"variational"``, ``"laplace"``, ``"moment"`` or ``"moment-ori"``, see
        `pymc_ext.matching`.
    alpha
        Pseudo-count α > 0 of every class, or ``"elbo"`` (default) for the α of the largest ELBO: a
        fixed one distorts the posterior on few rows.
    invariant
        Softmax does not see a common shift of an observation's logits, but K independent Gaussian
        sites do. True integrates the shift out of the sites, with a flat density (the ELBO rises by
        several nats on small data); False keeps the paper's independent sites, as
        `MatchedClassifier` does. Models with a reference class (a logit that is the same whatever
        θ) need it and get it in either case.
    n_draws
        Sobol draws for E log softmax in the ELBO, a power of two.
    model
        None takes the model of the ``with`` context.
    random_seed
        Seeds the fresh draws and draws from q (``pm.fit`` ignores its own).

    Raises
    ------
    AffinityError
        A ValueError: a likelihood, prior or Potential that matching does not cover.
    ValueError
        An argument is out of range, or (from ``fit``) data are not valid.

    Examples
    --------
    >>> with pm.Model():
    ...     beta = pm.Normal("beta", 0, 1, shape=X.shape[1])
    ...     pm.Bernoulli("y", logit_p=X @ beta, observed=y)
    ...     approx = pm.fit(method=px.MatchingVI("variational", alpha="elbo"))
    >>> approx.result.elbo

    References
    ----------
    Bui, "Likelihood approximations via Gaussian approximate inference", sections 3.2, 3.3 and
    appendix B.
    """

    def __init__(
        self,
        method: str = "variational",
        alpha: float | str = "elbo",
        *,
        invariant: bool = True,
        n_draws: int = N_DRAWS,
        model: pm.Model | None = None,
        random_seed: int | None = None,
    ) -> None:
        check_method(method)
        if alpha != "elbo":
            alpha = _check_alpha(alpha)
        normal_draws(n_draws, 2)  # validates
        model = modelcontext(model)
        self.method, self.alpha = method, alpha
        self.invariant, self.n_draws = bool(invariant), n_draws
        self.terms, self.n_latents = matching_terms(model)
        split = split_affine(model, self.terms)
        if split.given:
            reasons = "; ".join(f"{rv.name}: {split.why[str(rv.name)]}" for rv in split.given)
            raise AffinityError(
                f"matching needs every free variable in the Gaussian linear part ({reasons}): fix "
                "these variables, or use ViperVI"
            )
        approx = VectorisedApproximation(GaussianGroup, model=model, random_seed=random_seed)
        if approx.has_minibatch:
            raise ValueError("matching is closed form and needs all data: remove pm.Minibatch")
        super().__init__(approx, random_seed=random_seed)
        self.alpha_choice: AlphaChoice | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name in records, such as ``matching-variational``."""
        return f"matching-{self.method}"

    def optimise(self, n: int, monitor: Monitor) -> FitResult:
        begin, compiled = time.perf_counter(), self.approx.compile_seconds
        problem = _Problem(
            self.method,
            prior_reader(self.approx)(),
            data_reader(self.approx, self.terms, self.random_seed)(),
            self.n_latents,
            self.n_draws,
            self.invariant,
        )
        alpha = self._choose_alpha(problem) if isinstance(self.alpha, str) else self.alpha
        mean, R = problem.posterior(alpha)
        elbo = problem.elbo(mean, R)
        self.approx.group.set_base(mean, _inverse(R).T, R.T)
        monitor(-elbo)
        fresh = self.fresh_draws()
        compile_seconds = self.approx.compile_seconds - compiled
        return FitResult(
            method=self.name,
            converged=True,
            stop_reason="closed form",
            iterations=1,
            seconds=time.perf_counter() - begin - compile_seconds,
            compile_seconds=compile_seconds,
            random_seed=self.random_seed,
            train_elbo=elbo,
            fresh=fresh,
            notes=(f"alpha = {alpha:.6g}",),
        )

    def _choose_alpha(self, problem: _Problem) -> float:
        def value(alpha: float) -> float:
            return problem.elbo(*problem.posterior(alpha))

        self.alpha_choice = maximise_alpha(value, "elbo")
        return self.alpha_choice.alpha


def matched_start(
    model: pm.Model | None = None, method: str = "variational", alpha: float | str = "elbo"
) -> dict[str, Array]:
    """Posterior means by likelihood matching, as the ``start`` of another family.

    Parameters
    ----------
    model, method, alpha
        As in `MatchingVI`.

    Returns
    -------
    dict
        Values by variable name (these variables are unconstrained).

    Raises
    ------
    AffinityError
        If `MatchingVI` does not cover the model.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.LaplaceVI(start=px.matched_start()))
    """
    inference = MatchingVI(method, alpha, model=model)
    approx = inference.fit(progressbar=False)
    theta = approx.mean.eval()
    group = approx.group
    return {
        name: theta[where].reshape(shape).astype(dtype)
        for name, where, shape, dtype in group.ordering.values()
    }


def _check_alpha(alpha: object) -> float:
    array = np.asarray(alpha)
    if array.ndim or array.dtype.kind not in "iuf" or not (np.isfinite(array) and array > 0):
        raise ValueError(f"alpha must be a positive number or 'elbo', got {alpha!r}")
    return float(array)


def _inverse(R: Array) -> Array:
    return solve_triangular(R, np.eye(len(R)), lower=True)


class _Problem:
    """Numbers of one fit: logits = offset + X θ, one row an observation and latent."""

    def __init__(
        self,
        method: str,
        prior: GaussianPrior,
        data: LogisticData,
        K: int,
        n_draws: int,
        invariant: bool,
    ) -> None:
        self.method, self.prior, self.data, self.K, self.n_draws = method, prior, data, K, n_draws
        rows = data.X.reshape(-1, K, data.X.shape[1])
        reference = np.all(rows == 0, axis=(0, 2)).any()
        self.integrate_shift = K > 1 and bool(invariant or reference)

    def sites(self, alpha: float) -> tuple[Array, Array]:
        """Mean and variance of the Gaussian site of each row."""
        d = self.data
        if self.K == 1:
            return match_beta(alpha + d.y, alpha + d.trials - d.y, self.method)
        return match_gamma(alpha + d.y, 1.0, self.method)

    def posterior(self, alpha: float) -> tuple[Array, Array]:
        """Mean (D,) of q and the lower Cholesky factor R (D, D) of its precision."""
        m, v = self.sites(alpha)
        X, d = self.data.X, self.data.weight / v
        target = m - self.data.offset
        precision = self.prior.precision + (X * d[:, None]).T @ X
        linear = self.prior.slope + X.T @ (d * target)
        if self.integrate_shift:  # flat shift s_i of row i: V⁻¹ − V⁻¹11ᵀV⁻¹/(1ᵀV⁻¹1)
            total = d.reshape(-1, self.K).sum(axis=1)
            U = (X * d[:, None]).reshape(-1, self.K, X.shape[1]).sum(axis=1)
            precision -= (U / total[:, None]).T @ U
            linear -= U.T @ ((d * target).reshape(-1, self.K).sum(axis=1) / total)
        R = cholesky(precision, lower=True)
        return solve_triangular(R.T, solve_triangular(R, linear, lower=True)), R

    def elbo(self, mean: Array, R: Array) -> float:
        """ELBO of N(mean, (RRᵀ)⁻¹) under the exact likelihood, all normalisers included."""
        inverse = _inverse(R)
        d = self.data
        theta = d.offset + d.X @ mean
        A = d.X @ inverse.T
        if self.K == 1:
            log_p = expected_log_probabilities(theta[:, None], (A**2).sum(axis=1)[:, None])
            data = d.weight @ (d.y * log_p[:, 1] + (d.trials - d.y) * log_p[:, 0]) + d.constant
        else:
            A = A.reshape(-1, self.K, len(mean))
            covariance = A @ np.swapaxes(A, 1, 2)
            log_p = expected_log_softmax(theta.reshape(-1, self.K), covariance, self.n_draws)
            data = (d.weight * d.y) @ log_p.ravel()
        P = self.prior.precision
        quadratic = mean @ P @ mean + ((inverse @ P) * inverse).sum()
        prior = self.prior.constant + self.prior.slope @ mean - 0.5 * quadratic
        entropy = 0.5 * len(mean) * (1 + LOG_2PI) - np.log(np.diag(R)).sum()
        return float(data + prior + entropy)
