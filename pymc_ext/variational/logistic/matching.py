r"""Likelihood matching: a Gaussian posterior in closed form, no iteration."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pymc as pm

from pymc_ext.density import CountedDensity
from pymc_ext.matching.alpha import maximise_alpha
from pymc_ext.matching.predict import N_DRAWS, expected_log_softmax, normal_draws
from pymc_ext.matching.table import check_method, match_beta, match_gamma
from pymc_ext.maths.normal import LOG_2PI
from pymc_ext.maths.types import Array
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import fresh_draws, moment
from pymc_ext.variational.core.result import FitResult
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.logistic.affine import AffineSplit, AffinityError, split_affine
from pymc_ext.variational.logistic.density import LogisticAlgorithm, LogisticVI
from pymc_ext.variational.logistic.newton import by_precision, exact_softplus, expand
from pymc_ext.variational.logistic.numbers import GaussianPrior, LogisticData
from pymc_ext.variational.logistic.softmax import matching_terms


@dataclass(frozen=True)
class Matching(LogisticAlgorithm[Gaussian]):
    """Algorithm of :class:`MatchingVI`, for densities of logistic and softmax models.

    Parameters
    ----------
    method, alpha, invariant, n_draws
        As in :class:`MatchingVI`.
    """

    method: str = "variational"
    alpha: float | str = "elbo"
    invariant: bool = True
    n_draws: int = N_DRAWS

    def __post_init__(self) -> None:
        check_method(self.method)
        alpha = np.asarray(self.alpha)
        number = alpha.ndim == 0 and alpha.dtype.kind in "iuf"
        if not (number and np.isfinite(alpha) and alpha > 0) and str(alpha) != "elbo":
            raise ValueError(f"alpha must be a positive number or 'elbo', got {self.alpha!r}")
        normal_draws(self.n_draws, 2)  # validates

    @property
    def name(self) -> str:
        """Name in records, such as ``matching-variational``."""
        return f"matching-{self.method}"

    @staticmethod
    def read(model: pm.Model) -> AffineSplit:
        """What the graph of ``model`` says. Raises AffinityError where it is not covered."""
        split = split_affine(model, matching_terms(model))
        if split.given:
            reasons = "; ".join(f"{rv.name}: {split.why[str(rv.name)]}" for rv in split.given)
            raise AffinityError(
                f"matching needs every free variable in the Gaussian linear part ({reasons}): fix "
                "these variables, or use ViperVI"
            )
        return split

    def run(
        self,
        density: CountedDensity,
        start: Array,
        *,
        seed: int | None,
        budget: int,
        monitor: Monitor,
        state: object | None = None,
    ) -> Fitted[Gaussian]:
        logistic = self.logistic(density)
        K = logistic.split.terms[0].rows
        problem = _Problem(self, logistic.prior(), logistic.data(), K)
        alpha = self.alpha
        if isinstance(alpha, str):
            alpha = maximise_alpha(lambda a: problem.elbo(problem.posterior(a)), "elbo").alpha
        q = problem.posterior(alpha)
        elbo = problem.elbo(q)
        with suppress(StopIteration):
            monitor(-elbo, lambda: q)
        result = FitResult(
            method=self.name,
            converged=True,
            stop_reason="closed form",
            iterations=1,
            train_elbo=elbo,
            fresh=fresh_draws(q, density, stream(seed, Purpose.FRESH)),
            notes=(f"alpha = {alpha:.6g}",),
        )
        return Fitted(q, result)


class _Problem:
    """Numbers of one fit: logits = offset + X θ, one row an observation and latent."""

    def __init__(self, options: Matching, prior: GaussianPrior, data: LogisticData, K: int) -> None:
        self.options, self.prior, self.data, self.K = options, prior, data, K
        rows = data.X.reshape(-1, K, data.X.shape[1])
        reference = np.all(rows == 0, axis=(0, 2)).any()
        self.integrate_shift = K > 1 and bool(options.invariant or reference)

    def sites(self, alpha: float) -> tuple[Array, Array]:
        """Mean and variance of the Gaussian site of each row."""
        d, method = self.data, self.options.method
        if self.K == 1:
            return match_beta(alpha + d.y, alpha + d.trials - d.y, method)
        return match_gamma(alpha + d.y, 1.0, method)

    def posterior(self, alpha: float) -> Gaussian:
        """q."""
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
        q = by_precision(linear, precision)
        return replace(q, mean=q.root @ (q.root.T @ linear))

    def elbo(self, q: Gaussian) -> float:
        """ELBO of q under the exact likelihood, all normalisers included."""
        d = self.data
        if self.K == 1:
            return expand(q, d, self.prior, exact_softplus).elbo
        theta = (d.offset + d.X @ q.mean).reshape(-1, self.K)
        A = (d.X @ q.root).reshape(-1, self.K, len(q.mean))
        log_p = expected_log_softmax(theta, A @ np.swapaxes(A, 1, 2), self.options.n_draws)
        prior = self.prior.expected(q.mean, q.cov)
        entropy = q.log_det + 0.5 * len(q.mean) * (1 + LOG_2PI)
        return float((d.weight * d.y) @ log_p.ravel() + prior + entropy)


class MatchingVI(LogisticVI):
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
        algorithm = Matching(method, alpha, invariant, n_draws)
        super().__init__(algorithm, model=model, random_seed=random_seed)


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
        Values by variable name, each of its own shape (these variables are unconstrained).

    Raises
    ------
    AffinityError
        If `MatchingVI` does not cover the model.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.LaplaceVI(start=px.matched_start()))
    """
    approx = MatchingVI(method, alpha, model=model).fit(progressbar=False)
    mean = moment(approx.q, "mean")
    return {
        name: mean[where].reshape(shape).astype(dtype)
        for name, where, shape, dtype in approx.density.layout
    }
