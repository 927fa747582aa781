"""Bridge sampling and KL against closed forms: values, calibration of the errors, poor overlap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from bridge.measures.divergence import Divergence, kl_from_q, kl_to_q
from bridge.measures.evidence import LogEvidence, bridge_sampling, log_evidence
from tests.tolerances import EXACT, NUMERIC, monte_carlo

LOG_Z = 7.25


@dataclass(frozen=True)
class Normal:
    """N(mean, cov) as a target of log evidence `LOG_Z`."""

    mean: np.ndarray
    cov: np.ndarray

    name = "normal"

    @property
    def dimension(self) -> int:
        return len(self.mean)

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        return rng.multivariate_normal(self.mean, self.cov, size=n, method="cholesky")

    def log_q(self, theta: np.ndarray) -> np.ndarray:
        return stats.multivariate_normal(self.mean, self.cov).logpdf(theta)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        return self.log_q(theta) + LOG_Z


def kl(a: Normal, b: Normal) -> float:
    """KL(a || b) in closed form."""
    P = np.linalg.inv(b.cov)
    d = b.mean - a.mean
    log_det = np.linalg.slogdet(b.cov)[1] - np.linalg.slogdet(a.cov)[1]
    return 0.5 * (np.trace(P @ a.cov) + d @ P @ d - len(d) + log_det)


def pair(dimension: int = 10, shift: float = 0.2, scale: float = 1.2) -> tuple[Normal, Normal]:
    """A correlated target and a diagonal approximation that is off by shift and scale."""
    A = np.random.default_rng(1).normal(size=(dimension, dimension))
    cov = np.eye(dimension) + 0.1 * A @ A.T / dimension
    p = Normal(np.linspace(-1, 1, dimension), cov)
    return p, Normal(p.mean + shift, scale**2 * np.diag(np.diag(cov)))


def evaluate(p: Normal, q: Normal, rng: np.random.Generator, n: int) -> tuple[np.ndarray, ...]:
    at_p, at_q = p.draws(rng, n), q.draws(rng, n)
    return p.log_density(at_p), q.log_q(at_p), p.log_density(at_q), q.log_q(at_q)


def judged(
    lp_p: np.ndarray, lq_p: np.ndarray, lp_q: np.ndarray, lq_q: np.ndarray
) -> tuple[LogEvidence, Divergence, Divergence]:
    """Log Z and both divergences from the same draws."""
    evidence = bridge_sampling(lp_p, lq_p, lp_q, lq_q)
    return evidence, kl_from_q(lp_q, lq_q, evidence), kl_to_q(lp_p, lq_p, evidence)


def chains(rng: np.random.Generator, rho: float, shape: tuple[int, ...]) -> np.ndarray:
    """Stationary AR(1) chains of N(0, 1), (chains, draws, D), autocorrelation rho."""
    steps = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    steps[:, 0] /= np.sqrt(1 - rho**2)
    return lfilter([1], [1, -rho], steps, axis=1)


def assert_standard_normal(z: list[float]) -> None:
    assert abs(np.mean(z)) < monte_carlo(1 / np.sqrt(len(z)))
    assert np.std(z) == pytest.approx(1, abs=monte_carlo(1 / np.sqrt(2 * len(z)), z=3))


@pytest.mark.parametrize("seed", range(5))
def test_gaussian_pair_in_ten_dimensions_within_three_standard_errors(seed: int) -> None:
    p, q = pair()
    lp_p, lq_p, lp_q, lq_q = evaluate(p, q, np.random.default_rng(seed), 10_000)
    evidence = bridge_sampling(lp_p, lq_p, lp_q, lq_q)
    forward, backward = kl_from_q(lp_q, lq_q, evidence), kl_to_q(lp_p, lq_p, evidence)
    for estimate, truth in (
        (evidence, LOG_Z), (forward, kl(q, p)), (backward, kl(p, q)),
    ):  # fmt: skip
        assert estimate.reliable and estimate.reason is None
        assert 0 < estimate.se < 0.03
        assert estimate.value == pytest.approx(truth, abs=monte_carlo(estimate.se, z=3))


def test_standard_errors_with_an_independent_evidence_are_calibrated() -> None:
    p, q = pair(dimension=3, shift=0.5, scale=1.3)
    forward, backward = [], []
    for seed in range(200):
        rng = np.random.default_rng(1000 + seed)
        evidence = bridge_sampling(*evaluate(p, q, rng, 1000))
        lp_p, lq_p, lp_q, lq_q = evaluate(p, q, rng, 1000)
        estimate = kl_from_q(lp_q, lq_q, evidence)
        forward.append((estimate.value - kl(q, p)) / estimate.se)
        estimate = kl_to_q(lp_p, lq_p, evidence)
        backward.append((estimate.value - kl(p, q)) / estimate.se)
    assert_standard_normal(forward)
    assert_standard_normal(backward)


def test_standard_error_knows_about_autocorrelated_chains() -> None:
    target, q = Normal(np.zeros(1), np.eye(1)), Normal(np.array([0.5]), 1.5 * np.eye(1))
    z, naive = [], []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        at_p, at_q = chains(rng, 0.9, (4, 2000, 1)), q.draws(rng, 8000)
        lp_p, lq_p = (
            f(at_p.reshape(-1, 1)).reshape(4, 2000) for f in (target.log_density, q.log_q)
        )
        lp_q, lq_q = target.log_density(at_q), q.log_q(at_q)
        evidence = bridge_sampling(lp_p, lq_p, lp_q, lq_q)
        z.append((evidence.value - LOG_Z) / evidence.se)
        naive.append(bridge_sampling(lp_p.ravel(), lq_p.ravel(), lp_q, lq_q))
    assert_standard_normal(z)
    assert np.std([(e.value - LOG_Z) / e.se for e in naive]) > 1.5


def test_a_given_effective_sample_size_sets_the_standard_error() -> None:
    values = evaluate(*pair(), np.random.default_rng(3), 5000)
    full, few = bridge_sampling(*values), bridge_sampling(*values, ess_p=500)
    assert few.se > 1.2 * full.se
    assert few.effective_p < full.effective_p / 5
    assert bridge_sampling(*values, ess_p=5000).se == pytest.approx(full.se, rel=EXACT)


def test_the_estimate_is_the_fixed_point_of_meng_and_wong() -> None:
    lp_p, lq_p, lp_q, lq_q = evaluate(*pair(), np.random.default_rng(4), 2000)
    l_p, l_q, r = np.exp(lp_p - lq_p), np.exp(lp_q - lq_q), 1.0
    for _ in range(1000):  # Meng and Wong (1996), (4.1), equal sample sizes
        r = np.mean(l_q / (l_q + r)) / np.mean(1 / (l_p + r))
    assert bridge_sampling(lp_p, lq_p, lp_q, lq_q).value == pytest.approx(np.log(r), rel=EXACT)


def test_q_equal_to_p_is_exact() -> None:
    p, _ = pair()
    evidence, forward, backward = judged(*evaluate(p, p, np.random.default_rng(5), 1000))
    assert evidence.value == pytest.approx(LOG_Z, rel=EXACT)
    for estimate in (evidence, forward, backward):
        assert estimate.reliable and estimate.se < EXACT
    assert forward.value == pytest.approx(0, abs=EXACT)
    assert backward.value == pytest.approx(0, abs=EXACT)


def test_constants_move_log_z_and_nothing_else() -> None:
    lp_p, lq_p, lp_q, lq_q = evaluate(*pair(), np.random.default_rng(6), 1000)
    here = judged(lp_p, lq_p, lp_q, lq_q)
    there = judged(lp_p + 1e4, lq_p, lp_q + 1e4, lq_q)
    assert there[0].value - here[0].value == pytest.approx(1e4, rel=EXACT)
    for a, b in zip(here[1:], there[1:], strict=True):
        assert a.value == pytest.approx(b.value, abs=1e-7)
        assert a.se == pytest.approx(b.se, rel=1e-6)


def test_poor_overlap_is_flagged_and_what_is_not_flagged_is_right() -> None:
    """As q moves away: within 4 standard errors, or unreliable; far away always unreliable."""
    verdicts: dict[int, set[bool]] = {}
    misleading = []
    for shift in (0, 1, 2, 3, 5, 6, 8, 12):
        p = Normal(np.zeros(2), np.eye(2))
        q = Normal(np.array([float(shift), 0]), np.eye(2))
        for seed in range(20):
            evidence = bridge_sampling(*evaluate(p, q, np.random.default_rng(seed), 2000))
            verdicts.setdefault(shift, set()).add(evidence.reliable)
            wrong = abs(evidence.value - LOG_Z) > monte_carlo(evidence.se) + EXACT
            assert not (evidence.reliable and wrong)
            assert evidence.reliable or "poor overlap" in str(evidence.reason)
            misleading.append(wrong)
    assert any(misleading)  # unflagged, some would be wrong by far more than their error
    assert all(verdicts[shift] == {True} for shift in (0, 1, 2, 3))
    assert all(verdicts[shift] == {False} for shift in (5, 6, 8, 12))


def test_disjoint_supports_give_no_number() -> None:
    inside, outside = np.zeros(200), np.full(200, -np.inf)
    evidence = bridge_sampling(inside, outside, outside, inside)
    assert np.isnan(evidence.value) and not evidence.reliable
    assert "do not overlap" in str(evidence.reason)


def test_support_of_one_inside_the_other() -> None:
    """p uniform on (0, 1) with Z = 1/2 inside q uniform on (0, 4): overlap on a quarter of q."""
    rng = np.random.default_rng(7)
    at_q = rng.uniform(0, 4, size=20_000)
    lp_q = np.where(at_q < 1, np.log(0.5), -np.inf)
    flat = np.full(20_000, np.log(0.25))
    evidence = bridge_sampling(np.full(20_000, np.log(0.5)), flat, lp_q, flat)
    assert evidence.reliable
    assert evidence.value == pytest.approx(np.log(0.5), abs=monte_carlo(evidence.se))
    forward = kl_from_q(lp_q, flat, evidence)
    assert forward.value == np.inf and not forward.reliable
    assert "log p is -inf at draws of q" in str(forward.reason)
    backward = kl_to_q(np.full(20_000, np.log(0.5)), flat, evidence)
    assert backward.value == pytest.approx(np.log(4), abs=monte_carlo(evidence.se))


def test_heavy_tails_make_the_other_direction_unreliable() -> None:
    """KL(p|q) of a Cauchy-like p from a Gaussian q is infinite: few draws carry the variance."""
    p, q = stats.t(1.5), stats.norm(scale=1.5)
    at_p = p.rvs(size=5000, random_state=8)
    exact = LogEvidence(0.0, 0.0, True, None, 1, 5000, 5000)
    backward = kl_to_q(p.logpdf(at_p), q.logpdf(at_p), exact)
    assert not backward.reliable and "carry the variance" in str(backward.reason)
    at_q = q.rvs(size=5000, random_state=8)
    assert kl_from_q(p.logpdf(at_q), q.logpdf(at_q), exact).reliable


def test_unreliable_evidence_makes_divergences_unreliable() -> None:
    p, q = Normal(np.zeros(2), np.eye(2)), Normal(np.full(2, 9.0), np.eye(2))
    result = judged(*evaluate(p, q, np.random.default_rng(9), 1000))
    for estimate in result[1:]:
        assert not estimate.reliable and "log evidence: poor overlap" in str(estimate.reason)


@pytest.mark.parametrize(
    ("which", "bad", "reason"),
    [
        (0, np.nan, "log ratio is NaN at draws of p: 1 of 300"),
        (0, -np.inf, "log p is -inf at draws of p: 1 of 300"),
        (2, np.nan, "log ratio is NaN at draws of q: 1 of 300"),
        (3, -np.inf, "log q is -inf at draws of q: 1 of 300"),
    ],
)
def test_unusable_ratios_give_no_number_and_say_why(which: int, bad: float, reason: str) -> None:
    values = evaluate(*pair(), np.random.default_rng(10), 300)
    values[which][7] = bad
    result = judged(*values)
    assert np.isnan(result[0].value) and result[0].reason == reason
    assert not any(estimate.reliable for estimate in result)
    assert all(np.isnan(estimate.value) for estimate in result)


def test_an_evidence_without_a_number_gives_divergences_without_one() -> None:
    nothing = LogEvidence(np.nan, np.nan, False, "no overlap", 0, np.nan, np.nan)
    lq = np.random.default_rng(14).normal(size=100)
    estimate = kl_from_q(2 * lq, lq, nothing)
    assert np.isnan(estimate.value) and estimate.reason == "log evidence: no overlap"


@pytest.mark.parametrize("bad", [np.zeros(3), np.zeros((2, 3)), np.zeros(0)])
def test_shapes_are_checked(bad: np.ndarray) -> None:
    with pytest.raises(ValueError, match="draws of p must have one shape"):
        bridge_sampling(bad, np.zeros(4), np.zeros(4), np.zeros(4))


def test_chains_too_short_for_an_effective_size_are_refused() -> None:
    values = evaluate(*pair(), np.random.default_rng(17), 300)
    chains_of_three = [v.reshape(100, 3) for v in values]
    with pytest.raises(ValueError, match="chains must have at least 4 draws each, got 3"):
        bridge_sampling(*chains_of_three)


# log Z from posterior draws alone


def test_log_evidence_of_a_correlated_gaussian_in_ten_dimensions() -> None:
    p, _ = pair()
    theta = p.draws(np.random.default_rng(11), 8000).reshape(4, 2000, 10)
    evidence = log_evidence(p, theta)
    assert evidence.reliable and evidence.se < 0.005
    assert evidence.value == pytest.approx(LOG_Z, abs=monte_carlo(evidence.se))


class Skewed:
    """Ten dimensions of log Gamma(2), skewed with an exponential tail, log evidence `LOG_Z`."""

    name, dimension = "skewed", 10

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        return np.sum(2 * theta - np.exp(theta), axis=1) + LOG_Z


def test_log_evidence_of_a_skewed_target_is_calibrated_on_autocorrelated_chains() -> None:
    z = []
    for seed in range(100):
        normal = chains(np.random.default_rng(seed), 0.6, (4, 500, 10))
        theta = np.log(stats.gamma(2).ppf(stats.norm.cdf(normal)))
        evidence = log_evidence(Skewed(), theta, random_seed=seed)
        assert evidence.reliable
        z.append((evidence.value - LOG_Z) / evidence.se)
    assert_standard_normal(z)


def test_symmetrising_beats_a_bridge_to_the_fitted_gaussian() -> None:
    theta = np.log(np.random.default_rng(15).gamma(2, size=(4, 1000, 10)))
    fit, bridge = theta[:, :500].reshape(-1, 10), theta[:, 500:].reshape(-1, 10)
    q = Normal(fit.mean(axis=0), np.cov(fit, rowvar=False))
    at_q = q.draws(np.random.default_rng(16), 2000)
    log_p = Skewed().log_density
    plain = bridge_sampling(log_p(bridge), q.log_q(bridge), log_p(at_q), q.log_q(at_q))
    assert log_evidence(Skewed(), theta, swap=False).se < 0.75 * plain.se


def test_log_evidence_is_repeatable_and_swapping_halves_the_variance() -> None:
    theta = pair()[0].draws(np.random.default_rng(12), 4000).reshape(4, 1000, 10)
    target = Normal(np.full(10, 0.3), 2 * np.eye(10))  # not where the draws come from
    p = pair()[0]
    assert log_evidence(p, theta, random_seed=3) == log_evidence(p, theta, random_seed=3)
    assert log_evidence(p, theta, random_seed=3) != log_evidence(p, theta, random_seed=4)
    once, both = log_evidence(p, theta, swap=False), log_evidence(p, theta)
    assert both.se == pytest.approx(once.se / np.sqrt(2), rel=0.25)
    assert log_evidence(target, theta).value != pytest.approx(LOG_Z, abs=NUMERIC)


def test_halves_from_different_posteriors_are_noticed() -> None:
    p = Normal(np.zeros(2), np.eye(2))
    theta = p.draws(np.random.default_rng(13), 8000).reshape(4, 2000, 2)
    theta[:, :1000] *= 0.5
    theta[:, 1000:] *= 0.7
    evidence = log_evidence(p, theta)
    assert not evidence.reliable and "two halves of the draws disagree" in str(evidence.reason)


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        (np.zeros((4, 100, 3)), r"must be \(chains, draws, 2\), got \(4, 100, 3\)"),
        (np.zeros((100, 2)), r"must be \(chains, draws, 2\), got \(100, 2\)"),
        (np.zeros((1, 10, 2)), "must number at least 12"),
        (np.full((4, 100, 2), np.nan), "must be finite"),
        (np.ones((4, 100, 2)), "covariance of the reference draws is singular"),
    ],
)
def test_reference_draws_are_checked(theta: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        log_evidence(Normal(np.zeros(2), np.eye(2)), theta)
