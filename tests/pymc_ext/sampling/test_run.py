"""Runs of chains: when they end, when a map is given up, what is refused, what is counted."""

import os
import signal
import threading

import numpy as np
import pytest

from pymc_ext.density import CallableDensity, DensityError
from pymc_ext.sampling import attempts
from pymc_ext.sampling.diagnostics import WATCHED, Diagnostics
from pymc_ext.sampling.heavy import Heavy
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import sample
from pymc_ext.sampling.starts import weighted_starts
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from tests.pymc_ext.sampling.targets import FunnelMap, Puppeteer, gaussian, two_modes

UNIT = DiagonalGaussian(np.zeros(2), np.ones(2))
TARGET = gaussian(np.zeros(2), np.eye(2))


# ---- ends ----------------------------------------------------------------------------------


def test_blocks_grow_until_the_ess_is_there():
    found = sample(TARGET, UNIT, told := Puppeteer(), seed=1)
    assert found.trusted and found.verdict == "trusted" and found.in_map
    assert found.stop_reason == attempts.REACHED
    draws = found.theta.shape[1]
    assert attempts.FIRST_DRAWS < draws < 200  # 400 of four chains, their ESS estimated
    assert found.diagnostics.ess >= 400 and found.diagnostics.rhat <= 1.02
    assert found.gradient_evaluations == 4 * 10 * (10 + draws)
    assert found.warm_up_gradients == 400
    assert found.density_evaluations == 1000 + 4 * draws  # starts weighed, and lp of every draw
    np.testing.assert_allclose(
        found.lp, TARGET.log_density(found.theta.reshape(-1, 2)).reshape(4, -1)
    )
    assert told.shared == 4 and all(chain.closed for chain in told.made)


def test_more_effective_draws_take_more():
    few, many = (
        sample(TARGET, UNIT, Puppeteer(), Sampling(ess=ess), seed=1) for ess in (100, 2000)
    )
    assert many.theta.shape[1] > 4 * few.theta.shape[1] and many.diagnostics.ess >= 2000


def test_a_derived_quantity_is_held_to_the_same_ess():
    def constrain(theta):  # means of ten successive draws: a tenth of the ESS
        sticky = np.convolve(theta[:, 0], np.ones(10) / 10, mode="same")
        return {"sticky": sticky, "text": np.full(len(theta), "a"), "undefined": sticky * np.nan}

    plain = sample(TARGET, UNIT, Puppeteer(), seed=1)
    found = sample(TARGET, UNIT, Puppeteer(), seed=1, constrain=constrain)
    assert found.theta.shape[1] > 4 * plain.theta.shape[1]
    assert found.diagnostics.scarcest == "sticky"


def test_of_many_quantities_the_worst_decide_and_all_are_judged_in_the_end(monkeypatch):
    """One of 300 is sticky: between blocks a few are ranked, the result is that of all."""

    def constrain(theta):
        many = theta[:, :1] + np.linspace(1, 2, 300) * theta[:, 1:]
        sticky = np.convolve(theta[:, 0], np.ones(10) / 10, mode="same")
        return {"many": many, "sticky": sticky, "again": theta[:, 0]}

    looked_at = []
    of = Diagnostics.of.__func__
    monkeypatch.setattr(
        Diagnostics, "of",
        classmethod(lambda cls, x, *rest: looked_at.append(x.shape[-1]) or of(cls, x, *rest)),
    )  # fmt: skip
    found = sample(TARGET, UNIT, Puppeteer(), seed=1, constrain=constrain)
    assert found.trusted and found.diagnostics.scarcest == "sticky"
    everything = 2 + 1 + 300 + 1  # θ, log p̃, many, sticky; not θ's first again
    assert looked_at[0] == looked_at[-1] == everything
    assert len(looked_at) > 3 and max(looked_at[1:-1]) <= 2 * WATCHED


def test_a_budget_ends_the_run_which_then_is_not_trusted():
    found = sample(TARGET, UNIT, Puppeteer(), Sampling(ess=10_000, budget=20_000), seed=1)
    assert not found.trusted and found.stop_reason == attempts.SPENT
    assert found.gradient_evaluations <= 20_000
    assert "budget" in found.reasons[0] and "of the 10000 asked for" in found.verdict


def test_a_budget_below_a_warm_up_is_refused():
    with pytest.raises(ValueError, match=r"400 were spent on warm-up; give a larger one"):
        sample(TARGET, UNIT, Puppeteer(), Sampling(budget=500), seed=1)


def test_one_seed_is_one_result_and_another_seed_another():
    first, again, other = (sample(TARGET, UNIT, Puppeteer(), seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.theta, again.theta)
    assert not np.array_equal(first.theta[:, :10], other.theta[:, :10])


@pytest.fixture
def interruptible():
    """A job started in the background ignores SIGINT, and would wait for ever."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_keeps_what_is_drawn_and_says_that_it_is_short(interruptible):
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = sample(TARGET, UNIT, told := Puppeteer(wait=True), seed=1)
    timer.join()
    assert found.theta.shape == (4, 7, 2)
    assert not found.trusted and found.verdict.startswith("not trusted: interrupted, 7 draws")
    assert all(chain.closed for chain in told.made)


def test_an_interrupt_that_python_raised_where_nobody_hears_it_ends_the_chains():
    """As in a ``__del__``, where a KeyboardInterrupt is printed and forgotten."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = sample(TARGET, UNIT, Puppeteer(wait=True), seed=1)
    timer.join()
    signal.signal(signal.SIGINT, before)
    assert found.stop_reason == attempts.INTERRUPTED and found.theta.shape == (4, 7, 2)


def test_an_interrupt_between_blocks_keeps_the_draws_before_it():
    calls = []

    def constrain(theta):
        calls.append(len(theta))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return {"x": theta}

    found = sample(TARGET, UNIT, Puppeteer(), Sampling(ess=10_000), seed=1, constrain=constrain)
    assert found.stop_reason == attempts.INTERRUPTED
    assert found.theta.shape[1] == attempts.FIRST_DRAWS == found.lp.shape[1]


def test_an_interrupt_soon_after_a_map_was_given_up_keeps_the_draws_in_it(interruptible):
    class Late(Puppeteer):
        def chain(self, density, start, *, transport, **others):
            self.wait = transport is None
            return super().chain(density, start, transport=transport, **others)

    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    found = sample(TARGET, UNIT, Late(apart=5.0, steps=20), seed=1)
    timer.join()
    assert found.in_map and found.theta.shape[1] >= 100  # and not the 7 draws since
    assert found.stop_reason == attempts.INTERRUPTED and not found.trusted
    assert found.notes[-1] == "these are the draws before the sampler adapted anew"


# ---- the map -------------------------------------------------------------------------------


def test_a_map_whose_chains_stay_apart_is_given_up_and_what_it_cost_is_counted():
    told = Puppeteer(apart=5.0, steps=20)
    found = sample(TARGET, UNIT, told, seed=1)
    assert found.trusted and not found.in_map
    assert "did not serve" in found.notes[0]
    in_map, alone = told.made[:4], told.made[4:]
    spent = sum(chain.gradients for chain in in_map)
    assert attempts.GRADIENTS_TO_CONDEMN <= spent < 2.5 * attempts.GRADIENTS_TO_CONDEMN
    assert found.gradient_evaluations == spent + sum(chain.gradients for chain in alone)
    assert found.warm_up_gradients == spent + 4 * 20 * 10
    assert found.theta.shape[1] * 4 * 20 == found.gradient_evaluations - found.warm_up_gradients
    # they go on from where they were, with the spread that was seen
    assert np.abs(told.starts[7][0] - 15) < 5 and told.scales[7].shape == (2,)
    assert all(scale is None for scale in told.scales[:4])


def test_a_map_that_needs_deep_trees_is_given_up_after_one_block():
    told = Puppeteer(depth=attempts.MAP_DEPTH, steps=63)
    found = sample(TARGET, UNIT, told, seed=1)
    assert not found.in_map
    assert told.made[0].gradients == 63 * (10 + attempts.FIRST_DRAWS)


def test_chains_that_diverge_take_shorter_steps_once():
    found = sample(TARGET, UNIT, told := Puppeteer(diverges_below=0.9), seed=1)
    assert found.trusted and found.in_map and found.diagnostics.divergences == 0
    assert len(told.made) == 8
    spent = sum(chain.gradients for chain in told.made[:4])
    assert spent == 4 * 10 * (10 + attempts.FIRST_DRAWS)
    assert found.gradient_evaluations == sum(chain.gradients for chain in told.made)
    hopeless = sample(TARGET, UNIT, told := Puppeteer(diverges_below=1.0), seed=1)
    assert len(told.made) == 16 and not hopeless.in_map and not hopeless.trusted
    assert "transitions diverged, more than 0.1 %" in hopeless.verdict


def test_a_q_off_the_support_is_not_used():
    half = CallableDensity(
        lambda x: np.where((x > 0).all(1), -x.sum(1), -np.inf), lambda x: -np.ones_like(x),
        dimension=2,
    )  # fmt: skip
    far = DiagonalGaussian(np.full(2, -50.0), np.ones(2))
    assert weighted_starts(half, far, 4, np.random.default_rng(1)) is None
    told = Puppeteer()
    found = sample(half, far, told, Sampling(budget=10_000), seed=1)
    assert (
        not found.in_map and not found.trusted
    )  # these chains know no support and len(told.made) == 4
    assert all((start > 0).all() for start in told.starts)


def test_without_a_map_starts_are_random_and_finite():
    found = sample(TARGET, None, told := Puppeteer(), seed=1)
    assert not found.in_map and found.notes == ()
    assert np.abs(told.starts).max() < 2 and len(np.unique(told.starts, axis=0)) == 4


def test_weighted_starts_are_different_and_follow_the_posterior():
    wide, rng = DiagonalGaussian(np.zeros(2), np.full(2, 3.0)), np.random.default_rng(1)
    starts = np.concatenate([
        wide.forward(weighted_starts(TARGET, wide, 4, rng).v)[0] for _ in range(100)
    ])  # fmt: skip
    assert 0.85 < starts.std() < 1.15  # 800 scalars of N(0, 1), not of q's N(0, 9)
    four = weighted_starts(gaussian(np.full(2, 9.0), 0.01 * np.eye(2)), UNIT, 4, rng)
    assert len(np.unique(four.v, axis=0)) == 4  # though one weight has all
    assert not four.nearly_right and weighted_starts(TARGET, UNIT, 4, rng).nearly_right


# ---- other starts --------------------------------------------------------------------------


def test_chains_from_extra_starts_are_held_to_the_same_rhat():
    apart, told = np.full((2, 2), 3.0), Puppeteer()
    found = sample(TARGET, UNIT, told, seed=1, extra_starts=apart)
    assert found.theta.shape[0] == 6
    np.testing.assert_allclose(told.starts[4:], apart)
    q = Gaussian(np.array([1.0, 2.0]), np.array([[2.0, 0], [1.0, 0.5]]))
    sample(TARGET, q, told := Puppeteer(), seed=1, extra_starts=apart)
    np.testing.assert_allclose(q.forward(np.array(told.starts[4:]))[0], apart)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (np.zeros((1, 3)), r"extra_starts must be finite, of shape \(M, 2\), got \(1, 3\)"),
        (np.full((1, 2), np.nan), "extra_starts must be finite"),
    ],
)
def test_bad_extra_starts_are_named(extra, words):
    with pytest.raises(DensityError, match=words):
        sample(TARGET, UNIT, Puppeteer(), extra_starts=extra)


def test_extra_starts_need_an_inverse_and_a_finite_density():
    five = gaussian(np.zeros(5), np.eye(5))
    with pytest.raises(DensityError, match="inverse of the map, which FunnelMap does not have"):
        sample(five, FunnelMap(), Puppeteer(), extra_starts=np.zeros((1, 5)))
    half = CallableDensity(
        lambda x: np.where(x[:, 0] > 0, 0.0, -np.inf), lambda x: 0 * x, dimension=2
    )
    with pytest.raises(DensityError, match=r"not finite at extra_starts \[1\]"):
        sample(half, UNIT, Puppeteer(), extra_starts=np.array([[1.0, 0], [-1.0, 0]]))


@pytest.mark.parametrize("root", [np.diag([1.0, 0.0]), np.full((2, 2), np.nan)])
def test_coordinates_of_no_law_are_refused(root):
    with pytest.raises(DensityError, match=r"covariance is positive definite, got a Gaussian"):
        sample(TARGET, Gaussian(np.zeros(2), root), Puppeteer(), seed=1)


class NoPullback:
    dimension = latent_dimension = 2

    def forward(self, z):
        return z, -0.5 * (z**2).sum(1)


@pytest.mark.parametrize(
    ("transport", "words"),
    [
        (NoPullback(), "a NoPullback without pullback: give another q"),
        (3, "a int without dimension, latent_dimension, forward, pullback"),
        (DiagonalGaussian(np.zeros(3), np.ones(3)), "2 dimensions, .* with 3 and 3"),
    ],
)
def test_what_serves_as_no_coordinates_is_refused(transport, words):
    with pytest.raises(DensityError, match=words):
        sample(TARGET, transport, Puppeteer(), seed=1)


def test_a_sampler_makes_chains():
    with pytest.raises(TypeError, match=r"sampler must make chains, .* got 'nutpie': give one"):
        sample(TARGET, UNIT, "nutpie", seed=1)


# ---- refusals, words -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ess": 0}, "ess must be a positive number, got 0"),
        ({"ess": -1.0}, "ess must be a positive number"),
        ({"ess": np.nan}, "ess must be a positive number"),
        ({"ess": "400"}, "ess must be a number, got '400'"),
        ({"ess": None}, "ess must be a number, got None"),
        ({"budget": 0}, "budget must be an integer >= 1, got 0"),
        ({"budget": 1e6}, "budget must be an integer"),
        ({"chains": 1}, "chains must be an integer >= 2"),
        ({"max_depth": True}, "max_depth must be an integer"),
        ({"target_accept": 1.0}, "between 0 and 1, got 1"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        Sampling(**options)


def diagnostics(ess, tail, rhat, efmi, divergences, transitions, sd_error=0.02, heavy=()):
    return Diagnostics(
        ess, tail, "mu", rhat, "tau", efmi, divergences, transitions, sd_error, "eta", heavy
    )


def test_what_refutes_draws_is_said_in_words():
    good = diagnostics(500, 450, 1.01, 0.9, 3, 4000)
    assert good.doubts(400) == () and good.notes(400) == ("3 of 4000 transitions diverged",)
    assert diagnostics(500, 450, 1.01, 0.9, 1, 100).doubts(400) == ()
    bad = diagnostics(500, 50, 1.3, 0.1, 30, 1000, 0.08)
    words = bad.doubts(400)
    assert len(words) == 5 and bad.notes(400) == ()
    parts = ("disagree about tau: R̂ = 1.300", "50 effective draws of mu",
             "sd of eta is known to 8.0 % of itself, where 400 effective draws ask for 5 %",
             "30 of 1000 transitions",
             "E-FMI = 0.10")  # fmt: skip
    assert all(part in text for part, text in zip(parts, words, strict=True))
    undefined = diagnostics(np.nan, np.nan, np.nan, np.nan, 0, 1000, np.nan)
    assert len(undefined.doubts(400)) == 4 and not undefined.enough(400)
    for error in (np.nan, np.inf):
        (sentence,) = diagnostics(500, 450, 1.01, 0.9, 3, 4000, error).doubts(400)
        assert sentence == "the sd of eta is not known: its draws run off"


def test_what_breaks_a_limit_by_little_is_not_rounded_to_it():
    short = diagnostics(399.7, 450, 1.0201, 0.2999, 0, 4000, 0.05001)
    said = " ".join(short.doubts(400))
    for part in (
        "R̂ = 1.021, ",
        "399 effective draws",
        "known to 5.1 % of itself",
        "E-FMI = 0.29, ",
    ):
        assert part in said


def test_draws_are_too_few_for_an_sd_by_the_square_of_its_error():
    vague = diagnostics(800, 900, 1.01, 0.9, 0, 4000, 0.0999)
    assert vague.shortage(400) == pytest.approx(4, rel=0.01) and not vague.enough(400)
    assert vague.enough(100)  # a mean of 100 effective draws is known to .1 sds
    assert diagnostics(300, 900, 1.0, 0.9, 0, 4000).shortage(400) == pytest.approx(4 / 3)


def test_what_no_draws_tell_is_a_note_and_no_doubt():
    """Of squares with k̂ from ½ on the sd has no known error, from 1 on it is infinite; from 1.4 on
    draws do not tell the mean either."""
    heavy = (
        Heavy("a", 0.2, 0.6), Heavy("b", 0.6, 1.7), Heavy("c", 0.03, 0.55), Heavy("d", 0.4, 1.2),
    )  # fmt: skip
    found = diagnostics(500, 450, 1.0, 0.9, 0, 4000, heavy=heavy)
    assert found.doubts(400) == () and found.enough(400)
    assert [quantity.name for quantity in found.unknown(400)] == [
        "a",
        "b",
        "d",
    ]  # c's error is small
    (note,) = found.notes(400)
    assert note == (
        "not told by these draws, take quantiles: sd of a (tail k̂ 0.60), "
        "mean and sd of b (tail k̂ 1.70), "
        "sd of d (tail k̂ 1.20: infinite, unless it ends beyond these draws)"
    )
    many = tuple(Heavy(str(i), 0.2, 0.6) for i in range(9))
    assert diagnostics(500, 450, 1.0, 0.9, 0, 4000, heavy=many).notes(400)[0].endswith("and 4 more")


def test_tails_are_told_apart_by_what_their_sds_are_known_to():
    rng, shape = np.random.default_rng(1), (4, 1000)
    x = np.stack([rng.standard_normal(shape), rng.standard_cauchy(shape), np.ones(shape)], axis=-1)
    stats = {"energy": rng.standard_normal(shape), "diverging": np.zeros(shape, bool)}
    found = Diagnostics.of(x, ["normal", "cauchy", "constant"], stats)
    assert found.vaguest == "normal"
    assert found.sd_error == pytest.approx(1 / np.sqrt(8000), rel=0.15)  # 1/√2N
    (heavy,) = found.heavy
    assert heavy.name == "cauchy" and heavy.khat > 1 and heavy.sd_error > 0.2
    few = {name: values[:, :500] for name, values in stats.items()}
    early = Diagnostics.of(x[:, :500], ["normal", "cauchy", "constant"], few)
    assert early.heavy == () and early.vaguest == "cauchy"  # too few to tell: more are drawn


def test_two_modes_are_not_trusted_when_chains_see_both():
    from pymc_ext.sampling.nutpie import NutpieNUTS

    options = Sampling(budget=30_000)
    alone = sample(two_modes(), UNIT, NutpieNUTS(), options, seed=1)
    assert alone.trusted  # blind to the other mode, as any chains that start from one q are
    both = sample(two_modes(), UNIT, NutpieNUTS(), seed=1, extra_starts=np.array([[12.0, 0.0]]))
    assert not both.trusted and "the chains disagree about theta[0]" in both.verdict
    # no more draws are made when it is clear that they will not meet
    assert both.stop_reason == attempts.APART and both.gradient_evaluations < 100_000


@pytest.mark.parametrize(
    ("rhats", "apart"),
    [([1.5, 1.5, 1.5], False), ([1.5, 1.5, 1.5, 1.49], True), ([1.5, 1.4, 1.3, 1.2], False),
     ([3.0, 1.05, 1.04, 1.06], False), ([1.05, 1.05, 1.05, 1.05, 1.05], False),
     ([1.04, 1.03, 1.01, 1.25], False)],  # a chain has just found another mode
)  # fmt: skip
def test_chains_that_will_not_meet_are_told_from_slow_ones(rhats, apart):
    assert attempts._stays_apart(rhats) == apart


# ---- divergences ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("divergences", "transitions", "diverges", "may"),
    [
        (1, 200, False, False),  # one alone is borne
        (2, 1352, False, True),  # of 1.4 by chance: more transitions will tell
        (9, 1352, True, False),
        (8, 6400, False, False),  # of 6.4
        (13, 6400, True, False),
        (0, 50, False, False),
    ],
)
def test_a_share_of_divergences_is_judged_beyond_chance(divergences, transitions, diverges, may):
    rng = np.random.default_rng(1)
    quantities = rng.normal(size=(4, transitions // 4, 1))
    diverging = np.zeros(transitions, dtype=bool)
    diverging[:divergences] = True
    statistics = {"diverging": diverging, "energy": rng.normal(size=(4, transitions // 4))}
    found = Diagnostics.of(quantities, ["x"], statistics)
    assert (found.diverges, found.may_diverge) == (diverges, may)
    if may:
        assert found.shortage(1.0) >= 6400 / transitions and not found.enough(1.0)


def test_labels_are_those_of_the_values_shapes():
    draws = np.random.default_rng(1).normal(size=(4, 50, 5))
    derived = {"tau": draws[..., 0], "L": draws[..., :4].reshape(4, 50, 2, 2) * 1e3}
    found = Diagnostics.of_draws(
        draws[..., :1], draws[..., 1], ["tau"], derived, {"diverging": np.zeros(200)}
    )
    assert found.apart in {"tau", "log p̃", "L[0,0]", "L[0,1]", "L[1,0]", "L[1,1]"}


def test_draws_as_far_as_numbers_go_are_judged_without_a_warning():
    """Warnings are errors here; of an improper posterior the chains drift that far."""
    rng = np.random.default_rng(1)
    theta = 10.0 ** rng.uniform(0, 308, (4, 1500, 1))
    found = Diagnostics.of_draws(theta, rng.normal(size=(4, 1500)), ["far"], {}, {})
    assert [quantity.name for quantity in found.heavy] == ["far"]
