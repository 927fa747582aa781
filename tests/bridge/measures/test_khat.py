"""k̂ against known tail indices, exact ratios, and ratios that allow no k̂."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from bridge.measures import limits
from bridge.measures.khat import pareto_khat, psis
from pymc_ext.maths.psis import FEWEST_TAIL
from tests.tolerances import EXACT, monte_carlo


def plane(k: float, repetitions: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Log p and log q whose ratios at draws of q are exactly Pareto with index k.

    In two dimensions q = N(0, (1 - k) I), p = N(0, I): |x|^2 / (1 - k) is exponential under q, so
    P(ratio > t) = (t / t_min)^(-1/k) for every t, not only in the limit.
    """
    x = np.random.default_rng(seed).normal(0, np.sqrt(1 - k), size=(repetitions, n, 2))
    lp = stats.norm.logpdf(x).sum(axis=-1)
    return lp, stats.norm.logpdf(x, scale=np.sqrt(1 - k)).sum(axis=-1)


@pytest.mark.parametrize("k", [0.2, 0.5, 0.8])
def test_exactly_pareto_ratios_give_their_index(k: float) -> None:
    repetitions, n = 100, 10_000
    khat = pareto_khat(*plane(k, repetitions, n, seed=1))
    tail = 3 * np.sqrt(n)
    shrunk = (tail * k + 5) / (tail + 10)  # ArviZ's prior of ten draws at 1/2
    assert np.mean(khat.per_repetition) == pytest.approx(
        shrunk, abs=monte_carlo(khat.sd / np.sqrt(repetitions)) + 1 / tail
    )
    # asymptotic sd of the maximum likelihood estimate of a generalised Pareto index
    assert khat.sd == pytest.approx((1 + k) / np.sqrt(tail), rel=0.25)


@pytest.mark.parametrize(("nu_p", "nu_q"), [(4, 8), (6, 9)])
def test_student_proposal_for_a_heavier_student_target(nu_p: float, nu_q: float) -> None:
    # ratio ~ x^(nu_q - nu_p) and P_q(|x| > s) ~ s^-nu_q, hence k = 1 - nu_p / nu_q
    x = stats.t(nu_q).rvs(size=(30, 50_000), random_state=2)
    khat = pareto_khat(stats.t(nu_p).logpdf(x), stats.t(nu_q).logpdf(x))
    assert khat.value == pytest.approx(1 - nu_p / nu_q, abs=0.06)  # the limit is reached slowly


def test_bounded_ratios_have_negative_index() -> None:
    x = np.random.default_rng(3).normal(size=(10, 5000))
    khat = pareto_khat(stats.norm.logpdf(x, scale=0.5), stats.norm.logpdf(x))
    assert khat.value < 0
    efficiency = 0.5 * np.sqrt(2 - 0.25)  # 1 / E_q[w^2] = s sqrt(2 - s^2) at s = 1/2
    assert khat.ess / khat.draws == pytest.approx(efficiency, rel=0.03)
    assert khat.log_marginal_is == pytest.approx(0, abs=monte_carlo(khat.log_marginal_is_se))
    assert khat.reason is None


def test_evidence_and_its_standard_error() -> None:
    z = []
    for seed in range(200):
        lp, lq = plane(0.3, 1, 2000, seed)
        khat = pareto_khat(lp + 7, lq)
        z.append((khat.log_marginal_is - 7) / khat.log_marginal_is_se)
    assert abs(np.mean(z)) < monte_carlo(1 / np.sqrt(len(z)))
    assert np.std(z) == pytest.approx(1, abs=monte_carlo(1 / np.sqrt(2 * len(z))))


def test_constant_ratios_are_exact_and_never_reach_psis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.measures.khat.psis", lambda ratios: pytest.fail("PSIS was called"))
    lq = np.random.default_rng(4).normal(size=(3, 500))
    khat = pareto_khat(lq + 2 + 1e-12 * np.sign(lq), lq)
    assert khat.exact and np.isnan(khat.value) and khat.reason is None
    assert khat.log_marginal_is == pytest.approx(2, rel=EXACT)
    assert khat.weights == pytest.approx(np.full((3, 500), 1 / 500))


def test_small_but_real_ratios_are_not_exact() -> None:
    rng = np.random.default_rng(5)
    lq = rng.normal(size=500)
    khat = pareto_khat(lq + 1e-6 * rng.normal(size=500), lq)
    assert not khat.exact and np.isfinite(khat.value)


def test_one_repetition_is_a_row() -> None:
    lp, lq = plane(0.4, 3, 1000, seed=7)
    many, one = pareto_khat(lp, lq), pareto_khat(lp[1], lq[1])
    assert one.value == many.per_repetition[1]
    assert np.isnan(one.sd)
    assert one.weights is not None and one.weights.shape == (1000,)
    assert one.weights.sum() == pytest.approx(1, rel=EXACT)
    assert many.weights[1] == pytest.approx(one.weights, rel=EXACT)
    assert many.value == np.median(many.per_repetition)


def test_psis_leaves_the_body_and_the_scale_alone() -> None:
    lp, lq = plane(0.6, 2, 1000, seed=8)
    ratios = lp - lq + 1000
    smoothed, _ = psis(ratios)
    body = np.argsort(ratios, axis=1)[:, :800]
    for i in range(2):
        assert smoothed[i, body[i]] == pytest.approx(ratios[i, body[i]], rel=EXACT)
    assert not np.allclose(smoothed, ratios)
    # smoothing by order statistics keeps the mean: it does not move the evidence by much
    assert logsumexp(smoothed, axis=1) == pytest.approx(logsumexp(ratios, axis=1), abs=0.05)


def test_the_scale_survives_a_draw_far_outside() -> None:
    lq = np.random.default_rng(4).normal(size=2000)
    lp = lq + 1000.0 + np.random.default_rng(5).normal(scale=0.1, size=2000)
    lp[7:9] = -1e19, -1e200  # beside which 1000 is lost to rounding, and whose square overflows
    k = pareto_khat(lp, lq)
    assert abs(k.log_marginal_is - 1000) < 0.05


def test_zero_weights_are_counted_and_weigh_nothing() -> None:
    lp, lq = plane(0.3, 2, 1000, seed=9)
    lp[0, :40] = -np.inf
    khat = pareto_khat(lp, lq)
    assert khat.zero_weights == 40
    assert np.isfinite(khat.value)
    assert khat.weights is not None and not khat.weights[0, :40].any()
    inside = pareto_khat(lp[:, 40:], lq[:, 40:])
    assert khat.log_marginal_is < inside.log_marginal_is


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda lp, lq: lp.__setitem__((0, 3), np.nan), "log p is NaN at 1 of 400 draws"),
        (lambda lp, lq: lp.__setitem__((1, 3), np.inf), "log p is +inf at 1 of 400 draws"),
        (lambda lp, lq: lq.__setitem__((0, 5), -np.inf), "log q is not finite at 1 of 400 draws"),
        (lambda lp, lq: lp.__setitem__(1, -np.inf), "log p is -inf at every draw"),
        (lambda lp, lq: lp.__setitem__((0, slice(3, None)), -np.inf), "3 distinct ratios"),
    ],
)
def test_ratios_without_a_khat_say_why(spoil, reason: str) -> None:
    lp, lq = plane(0.3, 2, 200, seed=10)
    spoil(lp, lq)
    khat = pareto_khat(lp, lq)
    assert reason in str(khat.reason)
    assert np.isnan(khat.value) and np.isnan(khat.log_marginal_is) and khat.weights is None
    assert not khat.exact


def test_few_draws_have_no_tail() -> None:
    lp, lq = plane(0.3, 1, 20, seed=11)
    assert "tail of 20 draws" in str(pareto_khat(lp, lq).reason)
    assert "tail of 1 draws" in str(pareto_khat(np.array([-1.0]), np.array([-3.0])).reason)


@pytest.mark.parametrize("edge", [1.5, 1.75, 2.5])
def test_a_tail_that_is_all_there_is_gives_no_number(edge: float) -> None:
    """N(0.3, 1) above an edge that few draws of N(0, 1) pass: PSIS smooths all of them away."""
    x = np.random.default_rng(0).normal(size=(4, 5000))
    lp = np.where(x > edge, stats.norm.logpdf(x, 0.3, 1), -np.inf)
    khat = pareto_khat(lp, stats.norm.logpdf(x))
    if edge == 1.5:
        error = khat.log_marginal_is - stats.norm.logsf(edge, 0.3)
        assert abs(error) < monte_carlo(khat.log_marginal_is_se)
    else:
        assert "draws have a weight, k̂ needs more than the 212 of the tail" in str(khat.reason)
        assert np.isnan(khat.log_marginal_is)


def test_a_large_khat_is_a_number_with_a_warning() -> None:
    khat = pareto_khat(*plane(0.9, 10, 5000, seed=12))
    assert khat.value > 0.7
    assert "importance weights unreliable" in str(khat.reason)


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((0,), (0,)), ((2, 2, 2), (2, 2, 2))])
def test_shapes_are_checked(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    with pytest.raises(ValueError, match=r"must both be \(R, N\) or \(N,\)"):
        pareto_khat(np.zeros(shapes[0]), np.zeros(shapes[1]))


def test_the_fewest_ratios_are_stated_alike() -> None:
    assert limits.KHAT_FEWEST_TAIL == FEWEST_TAIL
