"""``px.diagnose`` on posteriors that are known: what it trusts, refuses and says."""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_ext as px
from pymc_ext.variational.core.defensive import DefensiveMixture
from pymc_ext.variational.core.result import FreshDraws
from pymc_ext.variational.core.weights import log_ratios_of
from pymc_ext.variational.gaussian.posteriors import Gaussian
from tests.tolerances import monte_carlo


def correlated() -> pm.Model:
    """N((1, −1), [[1, .9], [.9, 1]]) by two normals."""
    with pm.Model() as model:
        x = pm.Normal("x", 1, 1)
        pm.Normal("y", -1 + 0.9 * (x - 1), np.sqrt(1 - 0.81))
    return model


def test_an_exact_fit_is_trusted_and_its_moments_are_told() -> None:
    with correlated():
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    assert found.trusted and all(check.passed for check in found.checks)
    assert abs(found.gap) < 1e-6 and abs(found.fresh.log_marginal_is) < 1e-6
    assert "bounds: 0.0000 <= log Z <= 0.0000; no mean of q" in str(found).replace("-0.0", "0.0")
    table = found.summary()
    np.testing.assert_allclose(table["mean"], [1, -1], atol=monte_carlo(20_000**-0.5))
    np.testing.assert_allclose(table["mcse_mean"], 20_000**-0.5, rtol=0.05)
    np.testing.assert_allclose(table["q_sd_ratio"], 1, atol=monte_carlo(40_000**-0.5))
    assert list(table.index) == ["x", "y"] and str(found).endswith("taken for the posterior")


def test_a_trusted_fit_whose_own_draws_are_not_the_posteriors_says_so() -> None:
    """Weights repair sds of 1.3 times and a mean .3 sds off; `sample` gives draws without them."""
    with correlated():
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    scale = np.linalg.cholesky([[1, 0.9], [0.9, 1]])
    for q, said in (
        (approx.q, r"taken for the posterior$"),
        (
            Gaussian(np.array([1.0, -1.0]), 1.3 * scale),
            r"their sd of [xy] is 1\.(29|30|31) times as large$",
        ),
        (
            Gaussian(np.array([1.3, -0.7]), 1.1 * scale),
            r"their mean of [xy] is \+0\.[23]. sds off$",
        ),
    ):
        approx.group.hold(q)
        found = px.diagnose(approx, random_seed=1)
        assert found.trusted and re.search(said, str(found))


def test_where_log_p_is_infinite_there_is_no_posterior(caplog: pytest.LogCaptureFixture) -> None:
    """Draws there count as none of those that q would be wrong to make, as beyond an edge."""
    with pm.Model():
        x = pm.Normal("x", shape=2)
        pm.Potential("p", pt.switch(x[0] > 3, np.inf, 0.0))
        approx = pm.fit(method=px.HierarchicalVI(random_seed=1), progressbar=False)
    assert approx.result is not None
    assert approx.result.usable is False and approx.result.converged is False
    assert approx.result.verdict.startswith("log p̃ is +∞ at")
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.endswith("there is no posterior; mend the term of the model that is infinite")
    assert approx.evaluate(4096, random_seed=2).ess == 0
    with pytest.raises(ValueError, match=r"of 20,000 draws of q: there is no posterior"):
        px.diagnose(approx, random_seed=1)


@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_pymcs_own_are_judged_in_the_right_coordinates(method: str) -> None:
    """Mean field of correlation .9 has a variance of 1 − .81, so that KL is known."""
    with correlated():
        approx = pm.fit(20_000, method=method, random_seed=1, progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    kl = -0.5 * np.log(1 - 0.81) if method == "advi" else 0.0  # at the optimum, from the truth
    assert abs(-found.fresh.elbo - kl) < 0.1  # what its noisy steps leave
    if method == "advi":
        assert not found.trusted and not found.checks[0].passed
        assert np.all(found.summary()["q_sd_ratio"] < 0.8) and "NOT PASSED, k̂ = " in str(found)
        # px.sample takes no approximation of PyMC's own
        assert "not trusted: fit the model by bridge.fit(model)" in str(found)
        assert "px.sample(approx)" not in str(found)


def test_a_shoulder_is_found_that_no_path_ends_in() -> None:
    """N(0, I), and 4 % of the mass on a ridge that leads away from it and has no mode."""
    middles = np.concatenate([[0.0], np.linspace(1, 8, 36)])[:, None] * np.eye(3)[0]
    sds, falling = np.r_[1.0, np.full(36, 0.5)], np.exp(-2 * np.linspace(0, 1, 36))
    shares = np.r_[0.96, 0.04 * falling / falling.sum()]
    with pm.Model():
        x = pm.Flat("x", shape=3)
        squares = ((x[None] - middles) ** 2).sum(axis=1) / sds**2
        constants = np.log(shares) - 3 * np.log(sds) - 1.5 * np.log(2 * np.pi)
        pm.Potential("ridge", pt.logsumexp(constants - squares / 2))
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    check = next(check for check in found.checks if check.name == "missed mass")
    assert not check.passed and "a shoulder at x[0] = " in str(check)
    assert str(found).endswith("which draws from that shoulder too and weighs both")


def test_a_missed_mode_is_found() -> None:
    """Of weights .3 and .7, whichever Laplace has."""
    with pm.Model():
        x = pm.Flat("x")
        parts = np.log(0.3) - (x - 5) ** 2 / 2, np.log(0.7) - (x + 5) ** 2 / 2
        pm.Potential("two", pt.logaddexp(*parts))
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    found = px.diagnose(approx, random_seed=1)
    assert found.checks[0].passed and not found.trusted
    assert "bounds:" not in str(found) and "about KL(q || p) where q has mass" in str(found)
    outside = 0.3 if approx.mean.eval()[0] < 0 else 0.7
    ratio = np.exp(found.missed.basins[0].log_ratio)
    assert abs(ratio - outside / (1 - outside)) < 0.1 * ratio
    assert "missed mass: NOT PASSED, mass is missed: a mode at x = " in str(found)


def cauchy(*y: float) -> pm.Model:
    """A location and a log scale of few rows: bent, with polynomial tails."""
    with pm.Model() as model:
        mu, log_scale = pm.Normal("mu", 0, 10), pm.Normal("log_scale", 0, 2)
        pm.Cauchy("y", mu, pm.math.exp(log_scale), observed=np.array(y))
    return model


def moments_of_cauchy(*y: float) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds by sums over a grid."""
    mu, log_scale = np.linspace(-60, 60, 4001)[:, None], np.linspace(-8, 8, 641)[None]
    log_p = stats.norm.logpdf(mu, 0, 10) + stats.norm.logpdf(log_scale, 0, 2)
    log_p = log_p + sum(stats.cauchy.logpdf(x, mu, np.exp(log_scale)) for x in y)
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    mean = np.array([np.sum(weights * mu), np.sum(weights * log_scale)])
    square = np.sum(weights * (mu - mean[0]) ** 2), np.sum(weights * (log_scale - mean[1]) ** 2)
    return mean, np.sqrt(square)


NARROW, WIDE = (-2.0, -0.4, 0.1, 0.9, 4.0), (-3.2, -0.4, 0.1, 0.9, 6.0)


def test_a_flow_that_is_nearly_right_has_no_proposal_and_one_verdict() -> None:
    """Its draws are worth .98 of their number, those of a proposal .89, of which k̂ matters."""
    with cauchy(*NARROW):
        approx = pm.fit(method=px.BernsteinVI(random_seed=1), progressbar=False)
    assert approx.proposal is None and approx.result.usable
    assert "so that k̂" in str(approx.result) and "by its proposal" not in str(approx.result)
    found = px.diagnose(approx, random_seed=1)
    assert found.trusted, str(found)
    attributes = approx.sample(10, random_seed=1).posterior.attrs
    assert attributes["usable"] == 1 and "proposal_usable" not in attributes


def test_a_fit_is_trusted_where_either_its_own_weights_or_its_proposals_pass() -> None:
    with cauchy(*WIDE):
        approx = pm.fit(method=px.BernsteinVI(random_seed=1), progressbar=False)
    proposal, result = approx.proposal, approx.result
    assert proposal is not None and proposal.tails_alone and result.tails_alone
    attributes = approx.sample(10, random_seed=1).posterior.attrs
    assert attributes["proposal_verdict"] == result.fresh_proposal.verdict
    assert attributes["proposal_khat"] == result.fresh_proposal.khat
    found = px.diagnose(approx, random_seed=1)
    assert found.trusted and not found.of_proposal, str(found)
    assert "proposal" not in str(found)
    mean, sd = moments_of_cauchy(*WIDE)
    np.testing.assert_allclose(found.mean, mean, atol=0.03 * sd.max())  # 4 errors of 20,000 draws
    np.testing.assert_allclose(found.sd, sd, rtol=0.03)
    # of one that has mass of which q's own draws know nothing, these say nothing
    approx.proposal = DefensiveMixture(approx.q, proposal.directions)
    found = px.diagnose(approx, random_seed=1)
    assert not found.trusted and found.of_proposal
    assert "draws worth" in str(found) and ", of its proposal" in str(found.checks[0])


def test_the_gap_is_qs_own_where_a_proposal_of_heavy_tails_stands_beside_it() -> None:
    """The neck of a centred hierarchy makes the ELBO of such a proposal any number."""
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0, 3), pm.HalfCauchy("tau", 1)
        theta = pm.Normal("theta", mu, tau, shape=4)
        pm.Normal("y", theta, [1.0, 1.0, 0.8, 1.2], observed=[1.5, -0.4, 2.6, 0.2])
    approx = pm.fit(
        method=px.HierarchicalVI(model=model, random_seed=2), model=model, progressbar=False
    )
    along_tau = np.eye(1, 6, int(approx.q.place[1]))
    approx.proposal = DefensiveMixture(approx.q, along_tau)
    found = px.diagnose(approx, random_seed=1)
    assert found.of_proposal and found.fresh.elbo < -20
    assert found.elbo == pytest.approx(approx.result.elbo, abs=0.1)
    assert abs(found.gap) < 0.1


class Bent:
    """x ~ N(0, 4), y | x ~ N(x², .09)."""

    dimension = latent_dimension = 2

    def forward(self, z):
        theta = np.column_stack([2 * z[:, 0], 4 * z[:, 0] ** 2 + 0.3 * z[:, 1]])
        return theta, self.log_density(theta)

    def log_density(self, theta):
        x, y = theta.T
        return stats.norm.logpdf(x, 0, 2) + stats.norm.logpdf(y, x**2, 0.3)


def test_a_bent_q_with_a_proposal_beside_it_is_no_mode_of_its_own() -> None:
    """A proposal is known at its draws alone, and the Gaussian of these says nothing of where a
    bent q has its mass."""
    with pm.Model():
        x = pm.Normal("x", 0, 2)
        pm.Normal("y", x**2, 0.3)
        approx = pm.fit(2, method=px.LaplaceVI(random_seed=1), progressbar=False)
    approx.group.hold(Bent())
    approx.proposal = DefensiveMixture(approx.q, np.array([[0.0, 1.0]]))
    for seed in range(3):
        found = px.diagnose(approx, random_seed=seed)
        assert found.of_proposal and not found.missed.matters, found.missed.sentence


@pytest.mark.parametrize("sd", [1.0, 1.2, 2.0])
def test_bounds_on_the_evidence_and_on_means_are_those_of_normals(sd: float) -> None:
    """q of sd s beside p of sd 1: E_q[(p/q)²] = s² / √(2 s² − 1)."""
    x = sd * np.random.default_rng(1).standard_normal(200_000)
    log_z = 3.0
    fresh = FreshDraws.from_log_ratios(log_z - 0.5 * x**2 + 0.5 * (x / sd) ** 2 + np.log(sd))
    second = sd**2 / np.sqrt(2 * sd**2 - 1)
    assert abs(fresh.cubo - log_z - 0.5 * np.log(second)) < 0.01
    assert abs(fresh.chi_square - (second - 1)) < 0.02
    assert fresh.elbo <= log_z + 1e-12 and fresh.cubo >= log_z - 0.005
    # of any mean, that of x² say, which is off by s² − 1
    assert sd**2 - 1 <= np.sqrt(2) * sd**2 * np.sqrt(fresh.chi_square) + 1e-6


def test_weights_without_a_variance_bound_nothing() -> None:
    x = np.random.default_rng(1).standard_normal(20_000)
    fresh = FreshDraws.from_log_ratios(0.35 * x**2)  # k̂ = .7
    assert fresh.khat > 0.5 and fresh.chi_square == np.inf and fresh.cubo == np.inf


def test_a_log_q_that_overflowed_is_no_infinite_density() -> None:
    log_p, log_q = np.zeros(100), np.linspace(-3, 0, 100)
    log_q[0] = -np.inf
    fresh = FreshDraws.from_log_ratios(log_ratios_of(log_p, log_q))
    assert fresh.infinite == 0 and fresh.outside == 1 and fresh.ess > 50
    log_p[1] = np.inf
    fresh = FreshDraws.from_log_ratios(log_ratios_of(log_p, log_q))
    assert fresh.infinite == 1 and fresh.ess == 0 and not fresh.usable


def test_bad_input() -> None:
    with correlated():
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
        empirical = pm.Empirical(size=10)
    with pytest.raises(TypeError, match="got Empirical"):
        px.diagnose(empirical)
    with pytest.raises(ValueError, match="draws >= ess, got ess=400, draws=100"):
        px.diagnose(approx, draws=100)
    for draws in (-1, 0):
        with pytest.raises(ValueError, match=rf"^draws must be an integer >= 1, got {draws}$"):
            px.diagnose(approx, draws=draws)
    with pytest.raises(ValueError, match="ess > 0"):
        px.diagnose(approx, ess=0)
    data = pm.Minibatch(np.zeros(100), batch_size=10)
    with pm.Model():
        pm.Normal("y", pm.Normal("x", 0, 1), 1, observed=data, total_size=100)
        noisy = pm.fit(10, method=px.BernsteinVI(random_seed=1), progressbar=False)
    with pytest.raises(ValueError, match=r"rows of \['\w+'\] are a pm.Minibatch"):
        px.diagnose(noisy)
