r"""``px.diagnose``: whether what ``pm.fit`` gave may be trusted, by how much it is off, what to do.

From N fresh draws of q with weights w ∝ p̃/q: Pareto k̂ and the effective draws, the gap

.. math:: \log \hat Z - \mathrm{ELBO} \approx \mathrm{KL}(q \| p), \qquad
          \hat Z = \frac1N \sum_n \tilde p(\theta_n) / q(\theta_n),

the Monte Carlo error and k̂ of each mean and sd, and mass outside q, which no draw of q can show: by
paths from dispersed points and, where weights vary, by short chains from the edge of q. Where
weights have a variance, ELBO and CUBO enclose log Z, and χ² bounds the errors of all means, as far
as q reaches.

Vehtari, Simpson, Gelman, Yao and Gabry (2024), JMLR 25(72), arXiv:1507.02646; Yao, Vehtari, Simpson
and Gelman (2018), arXiv:1802.02538.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import pymc as pm

from pymc_ext.density import CountedDensity, Density
from pymc_ext.density.coordinates import as_transport
from pymc_ext.density.model import PyMCDensity
from pymc_ext.density.protocol import coordinate_names, value_names
from pymc_ext.maths.psis import psislw
from pymc_ext.maths.types import Array
from pymc_ext.options import require_count, require_integer, require_memory, require_number
from pymc_ext.seeds import check_seed
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.core.defensive import has_longer_tails_alone
from pymc_ext.variational.core.posterior import Posterior, fresh_draws, moment
from pymc_ext.variational.core.precision import Precision, weighted_precision
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.saved.posterior import TO_ITS_MODEL, SavedPosterior
from pymc_ext.variational.core.seeds import Purpose, stream
from pymc_ext.variational.core.weights import (
    KHAT_USABLE,
    MEAN_WRONG,
    RATIO_WRONG,
    log_ratios_of,
)
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.missed.missed_mass import SEARCHED, MissedMass, mass_outside
from pymc_ext.variational.missed.shoulders import moments_beside
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.prior import carried_by

__all__ = ["Check", "Diagnosis", "diagnose"]

DRAWS = 20_000  # as `bridge.fit` judges by: a tail of 424
EXACT = "make exact draws by px.sample(approx), best from a map"
# sds of a law beyond which its own fit has hardly a draw, of 4,096 eleven a coordinate
FAR_IN_PRIOR = 3.0
MODES = "where modes are missed fit px.BasinsVI()"
SHOULDER = "fit the model by bridge.fit(model), which draws from that shoulder too and weighs both"
OF_ANOTHER = (  # px.sample takes approximations of this package alone
    "fit the model by bridge.fit(model), which samples where no approximation serves, or "
    "px.HierarchicalVI() by pm.fit, and make exact draws by px.sample of that"
)


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` found.

    Attributes
    ----------
    checks
        All of them; `trusted` where each is passed.
    fresh
        ELBO, evidence, effective draws and k̂ of fresh draws: of the proposal where there is one,
        unless q's own pass, its do not, and it was made for tails alone.
    missed
        What paths and short chains found outside q.
    names
        Of the unconstrained coordinates.
    q_mean, q_sd
        Of q.
    precision
        Means and sds of the posterior by weights, (D,), unconstrained, with their Monte Carlo
        errors and k̂ of their own.
    gradients
        Scores of log p̃ that it took.
    of_proposal
        Whether ``fresh`` is of a proposal beside q.
    elbo
        q's own, nats.
    instead
        How to have draws of the posterior where it is not trusted.
    beyond
        Where the posterior lies far in the tails of priors by :func:`pymc_ext.prior_from`, the mean
        of each such coordinate of their normals by name.
    """

    checks: tuple[Check, ...]
    fresh: FreshDraws
    missed: MissedMass
    names: tuple[str, ...]
    q_mean: Array = field(repr=False)
    q_sd: Array = field(repr=False)
    precision: Precision = field(repr=False)
    gradients: int = 0
    of_proposal: bool = False
    elbo: float = -np.inf
    instead: str = EXACT
    beyond: Mapping[str, float] = field(default_factory=dict)

    @property
    def trusted(self) -> bool:
        """Whether weighted draws of q may be taken for the posterior."""
        return all(check.passed for check in self.checks)

    @property
    def mean(self) -> Array:
        """Of the posterior by weights, (D,), unconstrained."""
        return self.precision.mean

    @property
    def sd(self) -> Array:
        """The same of its sds."""
        return self.precision.sd

    @property
    def gap(self) -> float:
        """log Z − ELBO, about KL(q ‖ p), in nats: the size of what weights repair."""
        return self.fresh.log_marginal_is - self.elbo

    def summary(self) -> pd.DataFrame:
        """A row a coordinate: moments by weights with their errors, and how far q's own are off.

        ``mean``, ``sd`` and their Monte Carlo errors ``mcse_mean`` and ``mcse_sd`` are those of
        unconstrained coordinates, log μ of a positive μ: the sd of μ itself by plain draws of q may
        be further off, as a tail weighs more there, and weighted draws repair it; ``q_bias`` is q's
        mean less the posterior's, in posterior sds, ``q_sd_ratio`` q's sd over it.
        """
        return pd.DataFrame(
            {
                "mean": self.mean,
                "sd": self.sd,
                "mcse_mean": self.precision.mean_error * self.sd,
                "mcse_sd": self.precision.sd_error * self.sd,
                "q_bias": (self.q_mean - self.mean) / self.sd,
                "q_sd_ratio": self.q_sd / self.sd,
            },
            index=pd.Index(self.names, name="unconstrained"),
        )

    @property
    def _own(self) -> str:
        """What to say of q's own draws, where these may not."""
        told = self.summary()
        ratio = np.abs(np.log(told["q_sd_ratio"]))
        bias = told["q_bias"].abs()
        may_not = "; those of sample(), which are q's own, may not: "
        if ratio.max() > np.log(RATIO_WRONG):
            name = ratio.idxmax()
            return f"{may_not}their sd of {name} is {told['q_sd_ratio'][name]:.2f} times as large"
        if bias.max() > MEAN_WRONG:
            name = bias.idxmax()
            return f"{may_not}their mean of {name} is {told['q_bias'][name]:+.2f} sds off"
        return ""

    def __str__(self) -> str:
        lines = [str(check) for check in self.checks]
        where = " where q has mass" if self.missed.matters else ""
        lines.append(f"size: log Z - ELBO = {self.gap:.3g} nats, about KL(q || p){where}")
        # of mass that no draw comes near they know nothing
        if np.isfinite(self.fresh.cubo) and not self.missed.matters:
            whose = "its proposal" if self.of_proposal else "q"
            most = np.sqrt(self.fresh.chi_square)
            lines.append(
                f"bounds: {self.elbo:.4f} <= log Z <= {self.fresh.cubo:.4f}; no mean of "
                f"{whose}, of anything, is off by more than {most:.2g} of the sds that it has there"
            )
        if self.beyond:
            name = max(self.beyond, key=lambda name: abs(self.beyond[name]))
            lines.append(
                f"prior: {name} has a mean of {self.beyond[name]:.2g}, beyond {FAR_IN_PRIOR:g} sds "
                "of the earlier fit, where nothing has judged its q: all else here is against "
                "that; fit the data of both together"
            )
        if self.trusted:
            lines.append(f"trusted: weighted draws of q may be taken for the posterior{self._own}")
        else:
            of_shoulder = self.missed.matters and not self.missed.has_modes
            instead = SHOULDER if of_shoulder else f"{self.instead}; {MODES}"
            lines.append(f"not trusted: {instead}")
        return "\n".join(lines)


def diagnose(
    approx: pm.Approximation,
    *,
    ess: float = 400,
    draws: int = DRAWS,
    random_seed: int | None = None,
) -> Diagnosis:
    """Hold an approximation against its model's own density.

    Weights are those of the proposal, where the fit made one. Where they do not pass, q's own do
    and hardly differ (draws worth .9 of their number), and the proposal has no mass that q lacks,
    the fit is judged by these: ``of_proposal`` says which, and so does the first check.

    Parameters
    ----------
    approx
        What ``pm.fit`` gave: of this package, or PyMC's own mean field and full rank (``advi``,
        ``fullrank_advi``).
    ess
        What all draws must be worth; a mean or an sd may have a Monte Carlo error of 1/√ess sds.
    draws
        Fresh ones of q that it is judged by.
    random_seed
        Of draws and search: None or an integer from 0 to 2³² − 1.

    Returns
    -------
    Diagnosis
        ``trusted``, ``checks``, ``summary()``; a ``str`` that says all of it.

    Raises
    ------
    TypeError
        An approximation whose log q is not known, such as PyMC's Empirical; ``random_seed`` or
        ``draws`` is no integer, or ``ess`` no number.
    ValueError
        A model with ``pm.Minibatch`` data, whose density is noise, or with log p̃ = +∞ at a draw;
        ``ess`` or ``draws`` out of range.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method="advi", random_seed=1, progressbar=False)
    >>> found = px.diagnose(approx, random_seed=1)
    >>> [check.name for check in found.checks]
    ['weights', 'effective draws', 'means and sds', 'missed mass']
    """
    check_seed(random_seed)
    _check_counts(ess, draws)
    q, weighted, density = _opened(approx)
    require_memory("draws", draws, weighted.latent_dimension)
    counted = CountedDensity(density)
    counted.require_exact()
    rng = stream(random_seed, Purpose.FRESH)
    names = value_names(density)
    judged = _Judged.of(weighted, counted, rng, draws)
    elbo = judged.fresh.elbo
    if weighted is not q:  # heavy tails of a proposal may have any ELBO
        own = fresh_draws(q, counted, rng, draws)
        elbo = own.elbo
        may_stand_in = has_longer_tails_alone(weighted, q) and own.holds_alone
        if may_stand_in and not judged.passes(names, ess):
            assert own.generator is not None
            by_own = _Judged.of(q, counted, own.generator, draws)  # the same draws again
            if by_own.passes(names, ess):
                judged, weighted = by_own, q
    theta, log_p, fresh, precision = judged.theta, judged.log_p, judged.fresh, judged.precision
    shoulders = moments_beside(theta, judged.weights, fresh.khat, fresh.ess / fresh.draws)
    log_density = getattr(weighted, "log_density", None)
    if log_density is None and hasattr(q, "log_density"):  # a proposal is known at its draws alone
        log_density = q.log_density
        theta, log_p, _ = _drawn(q, counted, rng, SEARCHED)
    missed = mass_outside(
        counted, theta, log_p, log_density, fresh.log_marginal_is, rng, as_transport(q),
        shoulders=shoulders,
    )  # fmt: skip
    by_name = dict(zip(coordinate_names(density), precision.mean.tolist(), strict=True))
    normals = tuple(carried_by(approx.model))
    return Diagnosis(
        beyond={
            name: mean
            for name, mean in by_name.items()
            if name.split("[")[0] in normals and abs(mean) > FAR_IN_PRIOR
        },
        checks=(
            *judged.checks(names, ess, ", of its proposal" if weighted is not q else ""),
            Check("missed mass", not missed.matters, missed.sentence),
        ),
        fresh=fresh,
        missed=missed,
        names=tuple(coordinate_names(density)),
        q_mean=moment(q, "mean"),
        q_sd=moment(q, "std"),
        precision=precision,
        gradients=counted.gradients,
        of_proposal=weighted is not q,
        elbo=elbo,
        instead=EXACT if isinstance(approx, VectorisedApproximation) else OF_ANOTHER,
    )


def _check_counts(ess: float, draws: int) -> None:
    require_number("ess", ess)
    require_integer("draws", draws)
    require_count("draws", draws)
    if not 0 < ess < np.inf or draws < ess:
        raise ValueError(f"need ess > 0 and draws >= ess, got ess={ess!r}, draws={draws!r}")


@dataclass(frozen=True)
class _Judged:
    """Draws (N, D) with log p̃ and weights (N,), and what they tell."""

    theta: Array
    log_p: Array
    fresh: FreshDraws
    weights: Array
    precision: Precision

    @classmethod
    def of(cls, q: Posterior, density: Density, rng: np.random.Generator, draws: int) -> _Judged:
        """By fresh draws of q; ValueError where none of them has a weight."""
        theta, log_p, log_ratios = _drawn(q, density, rng, draws)
        fresh = FreshDraws.from_log_ratios(log_ratios)
        if fresh.infinite:
            raise ValueError(fresh.verdict)
        if fresh.ess == 0:
            raise ValueError(f"{fresh.verdict}: there is nothing to judge; fit it again elsewhere")
        weights = np.exp(psislw(log_ratios)[0])
        precision = weighted_precision(theta, log_ratios, weights)
        return cls(theta, log_p, fresh, weights, precision)

    def checks(self, names: list[str], ess: float, whose: str = "") -> tuple[Check, ...]:
        """Of the weights, and of each mean and sd by them."""
        exact = self.fresh.khat == -np.inf
        means = self.precision.check(names, KHAT_USABLE, ess, exact=exact)
        return *_of_weights(self.fresh, ess, whose), means

    def passes(self, names: list[str], ess: float) -> bool:
        """Whether all of these pass."""
        return all(check.passed for check in self.checks(names, ess))


def _drawn(
    q: Posterior, density: Density, rng: np.random.Generator, draws: int
) -> tuple[Array, Array, Array]:
    """Draws of q (N, D), log p̃ there and log p̃ − log q, (N,) each; −∞ where that is undefined."""
    theta, log_q = q.forward(rng.standard_normal((draws, q.latent_dimension)))
    with np.errstate(all="ignore"):  # a draw where log p̃ overflows has no weight
        log_p = density.log_density(theta)
    log_ratios = log_ratios_of(log_p, log_q)
    return theta, log_p, np.where(np.isnan(log_ratios), -np.inf, log_ratios)


def _opened(approx: pm.Approximation) -> tuple[Posterior, Posterior, Density]:
    """q, what weights are taken of, and the density."""
    if isinstance(approx, VectorisedApproximation):
        approx.require_exact_logp()
        return approx.q, approx.proposal or approx.q, approx.density
    if isinstance(approx, pm.MeanField | pm.FullRank):
        mean, density = approx.mean.eval(), PyMCDensity(approx.model)
        q: Posterior
        if isinstance(approx, pm.MeanField):
            q = DiagonalGaussian(mean, approx.std.eval())
        else:
            q = Gaussian(mean, np.linalg.cholesky(approx.cov.eval()))
        return q, q, density
    more = f": {TO_ITS_MODEL}" if isinstance(approx, SavedPosterior) else ""
    raise TypeError(
        "px.diagnose takes what pm.fit gave with a method of this package, with 'advi' or with "
        f"'fullrank_advi', got {type(approx).__name__}{more}"
    )


def _of_weights(fresh: FreshDraws, ess: float, whose: str) -> tuple[Check, Check]:
    worth = f"{fresh.draws:,} draws are worth {fresh.ess:,.0f}"
    few = fresh.ess < ess
    short = f", fewer than the {ess:g} asked for" if few else ""
    return (
        Check("weights", fresh.usable, fresh.verdict + whose, fresh.khat, KHAT_USABLE),
        Check("effective draws", not few, worth + short, fresh.ess, ess),
    )
