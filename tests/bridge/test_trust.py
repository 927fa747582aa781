"""Trust: a missed mode is named and not trusted, NUTS that did not mix neither."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

import bridge
from benchmarks.speed.dear_models import change_point
from bridge.advice import exact
from bridge.advice.exact import exact_answer
from bridge.advice.search import Search
from bridge.attempt import Demands
from bridge.methods.problems import DensityProblem, ModelProblem, as_problem
from bridge.methods.table import METHODS
from bridge.methods.warm_nuts import WarmNUTS, sampled
from bridge.trust import forgotten, of_several_modes
from posteriordb_cases.zoo import ZOO, truth_of
from pymc_ext.density import CallableDensity, CountedDensity, DensityError
from pymc_ext.sampling import attempts
from pymc_ext.sampling.heavy import Heavy
from pymc_ext.sampling.modes import left_behind, modes_outside
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.run import BudgetSpentError
from pymc_ext.variational.core.checks import Check
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.missed_mass import Basin, MissedMass, mass_outside
from stan_models import StanProgram
from tests.needed import needs
from tests.tolerances import monte_carlo


def two_modes(weight=0.3):
    """Two Gaussians seventeen sds apart."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 100, shape=2)
        near = -0.5 * pm.math.sum(x**2)
        far = -0.5 * pm.math.sum((x - 12.0) ** 2)
        both = pm.math.logsumexp(
            pm.math.stack([near + np.log(1 - weight), far + np.log(weight)]), keepdims=False
        )
        pm.Potential("modes", both + 0.5 * pm.math.sum((x / 100) ** 2))
    return model


def test_one_gaussian_of_two_is_not_trusted_but_a_map_in_every_basin() -> None:
    advice = bridge.fit(two_modes(), methods="laplace", random_seed=1, draws=400, progressbar=False)
    first = advice.attempts[0]
    assert first.verdict.startswith("refused: mass is missed: a mode at ")
    assert "worth at least 0.43 times the mass that the approximation covers" in first.verdict
    assert advice.method == "basins" and advice.trusted, advice.reasons
    share = float((np.asarray(advice.idata["posterior"]["x"])[0, :, 0] > 6).mean())
    assert abs(share - 0.3) < monte_carlo(np.sqrt(0.21 / 400))


def test_an_effort_bounds_the_basins_too() -> None:
    """What is spent before them is beyond it; they run where none is given, see above."""
    options = {"methods": "laplace", "random_seed": 1, "draws": 400, "progressbar": False}
    advice = bridge.fit(two_modes(), effort=1e-3, **options)
    tried = {attempt.method: attempt for attempt in advice.attempts}
    assert tried["basins"].verdict.startswith("not tried: ")
    assert not tried["basins"].all_gradients and not advice.trusted


def test_chains_that_stay_in_basins_of_their_own_are_not_trusted(monkeypatch) -> None:
    """Where a map for every basin does not serve, chains start in all of them."""
    needs("nutpie")
    monkeypatch.setattr(Search, "looks_elsewhere", lambda self: False)
    advice = bridge.fit(two_modes(), methods="laplace", random_seed=1, progressbar=False)
    assert advice.method == "warm-nuts" and not advice.trusted
    assert advice.doubts[0].startswith("beside the approximation there is a mode at x[")
    assert "chains were started there too, but the draws of all together" in advice.doubts[0]
    assert "let an order, a sign or a tighter prior say which" in advice.doubts[0]
    assert any("R̂ no longer falls" in doubt for doubt in advice.doubts)
    assert f"not trusted: {advice.doubts[0]}" in advice.reasons
    ends = np.asarray(advice.idata["posterior"]["x"]).mean(axis=1)[:, 0]
    assert (ends > 6).any() and (ends < 6).any()


def test_a_factor_whose_sign_is_free_has_both_signs() -> None:
    rng = np.random.default_rng(21)
    y = rng.normal(size=40)[:, None] * [1, 0.8, -0.6, 0.5] + rng.normal(0, 0.5, (40, 4))
    with pm.Model() as model:
        load, factor = pm.Normal("load", 0, 1, shape=4), pm.Normal("factor", 0, 1, shape=40)
        pm.Normal("y", factor[:, None] * load, pm.HalfNormal("s", 1), observed=y)
    advice = bridge.fit(model, random_seed=1)
    assert advice.trusted, advice.reasons
    positive = advice.idata["posterior"]["load"].values[..., 0] > 0
    assert 0.4 < positive.mean() < 0.6


DIVERGED = (Check("divergences", False, "9 of 900 transitions diverged", 9.0, 0.0),)


def test_what_diverges_in_a_map_is_tried_once_more_in_a_flow(monkeypatch) -> None:
    """The first chains are refused here, whatever they are; the flow's are judged as they are."""
    needs("nutpie")
    first, tails = [], ()

    def diverging(*args, **options):
        found = sampled(*args, **options)
        if first:
            return found
        first.append(found)
        seen = replace(found.diagnostics, heavy=tails)
        return replace(found, checks=DIVERGED, diagnostics=seen)

    monkeypatch.setattr(exact, "sampled", diverging)
    with pm.Model() as model:
        pm.StudentT("x", nu=2, mu=0, sigma=1, shape=2)
    advice = bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
    assert [attempt.method for attempt in advice.attempts][-2:] == ["warm-nuts", "flow-nuts"]
    assert advice.method == "flow-nuts" and advice.trusted
    assert advice.attempts[-1].gradients > 10 * exact.FLOW_STEPS  # those of the flow count
    first.clear()
    tails = (Heavy("a tail", sd_error=1.0, khat=0.9),)  # that a flow's chains would not reach
    advice = bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
    assert advice.method == "warm-nuts" and not advice.trusted and advice.unknown == ("a tail",)
    assert advice.attempts[-1].method == "warm-nuts"
    first.clear()
    tails = ()
    monkeypatch.setattr(exact, "MOST_DIMENSIONS", 1)
    advice = bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
    assert advice.method == "warm-nuts" and not advice.trusted


@pytest.fixture
def refused(monkeypatch):
    """A model whose chains are refused, for the reason that a test puts into the list."""
    needs("nutpie")
    changes = {"checks": DIVERGED}

    def drawn(*args, **options):
        found = sampled(*args, **options)
        return replace(found, diagnostics=replace(found.diagnostics, heavy=()), **changes)

    monkeypatch.setattr(exact, "sampled", drawn)
    with pm.Model() as model:
        pm.StudentT("x", nu=2, mu=0, sigma=1, shape=2)
    return model, changes


def test_an_interrupt_is_the_end(refused, monkeypatch) -> None:
    model, changes = refused
    changes["stop_reason"] = attempts.INTERRUPTED
    monkeypatch.setattr("bridge.advice.rungs.in_a_flow", lambda *a, **o: pytest.fail("it goes on"))
    advice = bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
    assert advice.attempts[-1].method == advice.method == "warm-nuts" and not advice.trusted


@pytest.mark.parametrize("approximated", [True, False])
def test_a_spent_budget_is_the_end(monkeypatch, approximated: bool) -> None:
    """The model's own sampler has no budget; what is handed back is the best approximation."""

    def spent(*args, **options):
        raise BudgetSpentError("the budget of 100 gradients went", 123)

    monkeypatch.setattr(exact, "sampled", spent)
    monkeypatch.setattr(exact, "own_draws", lambda *a, **o: pytest.fail("it goes on"))
    monkeypatch.setattr(exact, "_no_sampler", lambda problem: None)
    if not approximated:
        monkeypatch.setattr(Search, "attempt", lambda search, method: None)
    with pm.Model() as model:
        pm.StudentT("x", nu=2, mu=0, sigma=1, shape=2)
    if not approximated:
        with pytest.raises(bridge.NoAnswerError, match=r"gradients went$"):
            bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
        return
    advice = bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
    assert advice.method == "batch-match" and not advice.trusted
    assert advice.doubts[-1] == "warm-nuts: the budget of 100 gradients went"
    assert advice.attempts[-1].gradients == 123 + 408 < advice.gradients  # and a look for jumps


@pytest.mark.slow  # chains take their budget
def test_a_jump_of_log_p_is_the_reason_that_is_named() -> None:
    """A level that changes at a continuous time: no score says where, and chains would take the
    whole of a million gradients."""
    needs("nutpie")
    advice = bridge.fit(change_point(), random_seed=1)
    assert not advice.trusted and "log p̃ jumps along interval when (by" in advice.doubts[0]
    assert advice.gradients < 500_000
    (check,) = [check for check in advice.checks if check.name == "jumps"]
    assert check.found == advice.doubts[0] and check.number > check.limit


@pytest.mark.stan
def test_gradients_of_stans_own_sampler_are_counted(monkeypatch) -> None:
    """Those of its warm-up too."""
    monkeypatch.setattr(exact, "_no_sampler", lambda problem: "none here")
    program = StanProgram("parameters { vector[2] x; } model { x ~ student_t(2, 0, 1); }", "heavy")
    advice = bridge.fit(program, methods="batch-match", random_seed=1, ess=100)
    assert advice.method == "nuts" and advice.attempts[-1].gradients > 3 * 4 * 2000


class Interrupted:
    """A correlated Student t that presses Ctrl-C at its n-th batch of scores, and what follows.

    Or at its n-th batch of values or scores, of lighter tails.
    """

    def __init__(self, at: int, values: bool = False) -> None:
        self.at, self.values, self.batches = at, values, 0
        self.power = 8.0 if values else 2.0
        self.density = CallableDensity(self.log_p, self.score, dimension=3, names=["a", "b", "c"])

    def count(self) -> None:
        self.batches += 1
        if self.batches == self.at:
            signal.raise_signal(signal.SIGINT)

    def log_p(self, x: np.ndarray) -> np.ndarray:
        if self.values:
            self.count()
        return -self.power * np.log1p(np.sum((x - x[:, :1] / 2) ** 2, axis=1))

    def score(self, x: np.ndarray) -> np.ndarray:
        self.count()
        y = x - x[:, :1] / 2
        by_y = -2 * self.power * y / (1 + np.sum(y**2, axis=1, keepdims=True))
        by_y[:, 0] = by_y[:, 0] / 2 - by_y[:, 1:].sum(axis=1) / 2
        return by_y


def test_an_interrupt_before_chains_hands_back_the_best_so_far(monkeypatch) -> None:
    monkeypatch.setattr(
        "bridge.advice.rungs.exact_answer", lambda *a, **o: pytest.fail("it goes on")
    )
    with pytest.raises(KeyboardInterrupt, match="before there was any approximation"):
        bridge.fit(Interrupted(at=3).density, random_seed=1)
    before = signal.getsignal(signal.SIGINT)
    advice = bridge.fit(Interrupted(at=120).density, random_seed=1)
    assert not advice.trusted and advice.method == "hierarchical"
    assert "interrupted: these are weighted draws of the best approximation" in advice.reasons
    assert advice.idata["posterior"]["a"].size == 4000
    assert signal.getsignal(signal.SIGINT) is before


def test_an_interrupt_is_an_answer_wherever_it_comes_after_the_first_path() -> None:
    """In a fit, while it is judged, and while mass outside it is looked for."""
    whole, verdicts = Interrupted(at=-1, values=True), list[str]()
    assert bridge.fit(whole.density, random_seed=1).method == "hierarchical"
    for at in range(whole.batches // 5, whole.batches, whole.batches // 40):
        advice = bridge.fit(Interrupted(at, values=True).density, random_seed=1)
        assert advice.trusted or advice.doubts[0].startswith("interrupted")
        verdicts.append(advice.attempts[-1].verdict)
    assert any("while mass outside" in verdict for verdict in verdicts)


def test_a_fit_that_is_interrupted_is_judged_by_few_values() -> None:
    """Who waits for an answer does not wait for its last digit, nor for what is elsewhere."""
    whole = Interrupted(at=-1, values=True)
    assert bridge.fit(whole.density, random_seed=1).method == "hierarchical"
    pressed = Interrupted(at=60, values=True)
    values, log_p = list[int](), pressed.density.log_density

    def counted(x: np.ndarray) -> np.ndarray:
        values.append(len(x) if pressed.batches >= pressed.at else 0)
        return log_p(x)

    pressed.density.log_density = counted
    advice = bridge.fit(pressed.density, random_seed=1)
    assert not advice.trusted and 1_000 <= sum(values) < 2_000 and pressed.batches < 70
    assert advice.idata["posterior"]["a"].size == 4_000


@pytest.mark.parametrize("run", ["fit", "warm-nuts"])
def test_an_interrupt_without_words_gets_them(run, monkeypatch) -> None:
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(bridge.advice.fit, "as_problem", interrupted)
    monkeypatch.setattr(WarmNUTS, "_approximate", interrupted)
    density = Interrupted(at=-1).density
    with pytest.raises(KeyboardInterrupt, match=r"interrupted before .*: nothing is kept"):
        if run == "fit":
            bridge.fit(density)
        else:
            WarmNUTS()(DensityProblem(density), 0, 1)


def test_an_interrupted_approximation_of_warm_nuts_starts_no_chains(monkeypatch) -> None:
    monkeypatch.setattr("bridge.methods.warm_nuts.sampled", lambda *a, **o: pytest.fail("it goes"))
    with pytest.raises(KeyboardInterrupt, match="before the chains had drawn anything: nothing"):
        WarmNUTS()(DensityProblem(Interrupted(at=60).density), 0, 1)


def test_an_interrupted_sampler_of_pymc_is_not_trusted(monkeypatch) -> None:
    """It hands back what it has drawn, and says nothing."""
    run = ModelProblem.nuts

    def interrupted(self, *args):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return run(self, *args)

    monkeypatch.setattr(ModelProblem, "nuts", interrupted)
    with pm.Model() as model:
        pm.Bernoulli("kind", 0.4)
    advice = bridge.fit(model, random_seed=1, draws=200, progressbar=False)
    assert advice.method == "nuts" and not advice.trusted
    assert advice.doubts[0] == "interrupted before all draws were made"


def test_an_interrupt_before_the_first_draw_of_chains_leaves_the_approximation(monkeypatch) -> None:
    def interrupted(*args, **options):
        raise KeyboardInterrupt("interrupted before the chains had drawn anything")

    monkeypatch.setattr("bridge.advice.rungs.exact_answer", interrupted)
    advice = bridge.fit(Interrupted(at=-1).density, random_seed=1)
    assert not advice.trusted and advice.method == "hierarchical"
    assert advice.doubts[0].startswith("interrupted")


def test_an_interrupted_flow_leaves_the_chains_before_it(refused, monkeypatch) -> None:
    def interrupted(*args, **options):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise SystemError("a call returned a result with an exception set") from error

    model, _ = refused
    monkeypatch.setattr("bridge.advice.rungs.in_a_flow", interrupted)
    advice = bridge.fit(model, methods="batch-match", random_seed=1, ess=100)
    assert advice.method == "warm-nuts" and advice.attempts[-1].verdict == "interrupted"

    def broken(*args, **options):
        raise SystemError("something else")

    monkeypatch.setattr("bridge.advice.rungs.in_a_flow", broken)
    with pytest.raises(SystemError, match="something else"):
        bridge.fit(model, methods="batch-match", random_seed=1, ess=100)


def test_an_interrupt_while_the_flow_is_fitted_is_the_end(monkeypatch) -> None:
    """The flow takes it as its own end: no chains run on half of one."""

    def half(*args, **options):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return SimpleNamespace(q=None)

    problem = DensityProblem(Interrupted(at=-1).density)
    monkeypatch.setattr(exact, "run_algorithm", half)
    monkeypatch.setattr(exact, "_warm", lambda *a, **o: pytest.fail("it goes on"))
    needs("nutpie")
    q = Gaussian(np.zeros(3), np.eye(3))
    with pytest.raises(KeyboardInterrupt, match="before the flow was fitted"):
        exact.in_a_flow(problem, q, Sampling(), seed=1)


def test_without_nutpie_the_models_own_sampler_is_held_to_the_search(monkeypatch) -> None:
    monkeypatch.setattr(Search, "looks_elsewhere", lambda self: False)
    monkeypatch.setattr("bridge.advice.exact.find_spec", lambda name: None)
    advice = bridge.fit(two_modes(), methods="laplace", random_seed=1, draws=400, progressbar=False)
    assert advice.method == "nuts" and not advice.trusted
    assert "nutpie, which samples" in advice.attempts[-1].verdict
    assert advice.doubts[0].startswith("there is mass that chains hardly visited: a mode at x[")


def test_a_mixture_of_both_modes_is_trusted() -> None:
    """Near enough for the mixture's own search, far enough for one Gaussian to look exact."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 100)
        ends = pm.math.stack([-0.5 * (x - 20) ** 2, -0.5 * (x + 20) ** 2 + np.log(2)])
        pm.Potential("modes", pm.math.logsumexp(ends, keepdims=False) + 0.5 * (x / 100) ** 2)
    advice = bridge.fit(model, methods=["mixture"], random_seed=1, draws=4000, progressbar=False)
    assert advice.method == "mixture" and advice.trusted, advice.reasons
    assert abs((np.asarray(advice.idata["posterior"]["x"]) > 0).mean() - 1 / 3) < 0.05


def test_any_density_is_served() -> None:
    named = CallableDensity(
        lambda t: -0.5 * (t**2).sum(1), lambda t: -t, dimension=2, names=["a", "b"]
    )
    advice = bridge.fit(named, random_seed=1, draws=100)
    assert advice.method == "hierarchical" and advice.trusted
    assert advice.idata["posterior"]["a"].shape == (4, 25)
    single = CallableDensity(lambda t: -0.5 * (t**2).sum(1), lambda t: -t, dimension=2)
    advice = bridge.fit(single, methods="hierarchical", random_seed=1, draws=100)
    assert advice.idata["posterior"]["theta"].shape == (4, 25, 2)


def test_nuts_serves_a_density_that_no_approximation_does() -> None:
    needs("nutpie")
    heavy = CallableDensity(
        lambda t: -2 * np.log1p(t[:, 0] ** 2 / 3), lambda t: -4 * t / (3 + t**2), dimension=1
    )
    advice = bridge.fit(heavy, methods="laplace", khat=0.2, random_seed=1)
    assert advice.method == "warm-nuts" and advice.trusted
    assert abs(float(np.median(advice.idata["posterior"]["theta"]))) < 0.3


def test_what_no_draws_tell_is_named() -> None:
    """A Cauchy has neither mean nor sd: its quantiles are trusted, and nothing else."""
    needs("nutpie")
    advice = bridge.fit(ZOO["cauchy-1"].make(), random_seed=1)
    assert advice.trusted, advice.reasons
    assert advice.unknown == ("theta[0]",)
    assert advice.idata["posterior"].attrs["unknown"] == "theta[0]"
    assert "take quantiles: " in advice.reasons
    found = np.quantile(advice.idata["posterior"]["theta"], [0.25, 0.5, 0.75])
    # standard errors at 400 effective draws, with the density of a Cauchy at its quartiles
    se = np.sqrt([3 / 16, 1 / 4, 3 / 16]) / np.array([0.159, 0.318, 0.159]) / 20
    assert np.all(np.abs(found - [0.0, 1.0, 2.0]) < monte_carlo(1.0) * se)


def test_where_all_that_no_draws_tell_are_named_is_said() -> None:
    needs("nutpie")
    with pm.Model() as model:
        pm.Cauchy("x", 0, 1, shape=7)
    advice = bridge.fit(model, random_seed=2)
    assert len(advice.unknown) == 7
    assert " and 2 more; all 7 are in advice.unknown" in advice.reasons


def test_a_narrow_mode_beside_a_wide_one_is_not_missed() -> None:
    advice = bridge.fit(ZOO["narrow-2"].make(), random_seed=1)
    assert advice.method == "basins" and advice.trusted, advice.reasons
    near = np.asarray(advice.idata["posterior"]["theta"])[0, :, 0] > 4
    assert abs(near.mean() - 0.3) < monte_carlo(np.sqrt(0.21 / 4000))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (lambda t: -(t**2).sum(1), "wrap a function with its gradient in px.CallableDensity"),
        (
            np.sum,
            "expected a posterior .a pm.Model, a StanProgram or a Stan file.*, got sum, which",
        ),
        (type("Half", (), {"dimension": 1, "log_density": 1})(), "add log_density_gradient"),
    ],
)
def test_what_is_no_density_is_refused_in_words(what, message) -> None:
    with pytest.raises(DensityError, match=message):
        bridge.fit(what, random_seed=1)
    with pytest.raises(DensityError, match=message):
        BatchMatch().fit(what)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        (3, "must be a pm.Model, a bambi model, .* got int 3: give one of these"),
        ([1, 2], "got list: give one of these"),
        (pm.Model, "got the class Model: give one that was made"),
    ],
)
def test_what_is_no_posterior_is_refused_in_words(what, message) -> None:
    with pytest.raises(TypeError, match=message):
        bridge.fit(what, random_seed=1)


def test_an_algorithm_takes_densities_alone() -> None:
    with pytest.raises(DensityError, match=r"expected a density, .* got int without dimension"):
        BatchMatch().fit(3)


def test_a_discrete_variable_goes_to_the_models_own_sampler(caplog, capfd) -> None:
    with pm.Model() as model:
        k = pm.Poisson("k", 3)
        pm.Normal("y", k, 1, observed=[2.0, 3.0])
    methods = ["hierarchical", "laplace"]
    advice = bridge.fit(model, methods=methods, random_seed=1, draws=400, progressbar=False)
    assert advice.method == "nuts" and "discrete free variables" in advice.attempts[0].verdict
    assert advice.reasons.count("discrete free variables") == 1  # none says it again
    assert "sum them out by pymc_extras.marginalize(model, ['k'])" in advice.reasons
    assert "laplace: failed for the same reason as hierarchical" in advice.reasons
    assert "(warm-nuts failed for the same reason as hierarchical)" in advice.reasons
    assert advice.idata["posterior"]["k"].shape[0] == 4
    assert not any(record.name.startswith("pymc") for record in caplog.records)
    assert capfd.readouterr() == ("", "")


def test_what_no_sampler_serves_is_refused_before_any_method_runs() -> None:
    with pm.Model() as batches:
        mu = pm.Normal("mu", 0, 1)
        few = pm.Minibatch(np.zeros(100), batch_size=10)
        pm.Normal("y", mu, 1, observed=few, total_size=100)
    with pytest.raises(
        ValueError, match=r"rows of \['y'\] are a pm\.Minibatch.*give the model all"
    ):
        bridge.fit(batches, random_seed=1)
    with pm.Model() as empty:
        pm.Normal("y", 0, 1, observed=[1.0])
    with pytest.raises(ValueError, match="no free variable"):
        bridge.fit(empty, random_seed=1)
    with pm.Model() as improper:
        pm.Normal("y", pm.Normal("mu", 0, 1), 1, observed=[1.0])
        pm.Flat("forgotten")
    with pytest.raises(ValueError, match="improper: nothing observed depends on 'forgotten'"):
        bridge.fit(improper, random_seed=1)


@pytest.mark.parametrize("factor", [-3.0, 1.0])
def test_a_wrong_score_is_told_by_differences(factor) -> None:
    wrong = CallableDensity(lambda t: -0.5 * (t**2).sum(1), lambda t: factor * t, dimension=2)
    with pytest.raises(DensityError, match="the score is not the gradient of log p̃"):
        bridge.fit(wrong, random_seed=1)


@pytest.mark.stan
def test_without_nutpie_stans_sampler_runs_where_it_does_not_know_the_map(monkeypatch) -> None:
    for room in ("advice.exact", "methods.warm_nuts"):
        monkeypatch.setattr(f"bridge.{room}.find_spec", lambda name: None)
    program = StanProgram("parameters { vector[2] x; } model { x ~ std_normal(); }")
    last = exact_answer(
        as_problem(program, None), object(), None, Sampling(ess=50),
        draws=100, seed=1, progressbar=False,
    )  # fmt: skip
    assert last.method == "warm-nuts" and not last.doubts
    assert last.verdict.startswith("Stan's NUTS with its own adaptation")


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_uniform_law_is_flat_and_not_improper(seed: int) -> None:
    """q's draws outside the box say nothing of what depends on what."""
    advice = bridge.fit(ZOO["box-2"].make(), random_seed=seed)
    assert advice.trusted, advice.reasons
    log_z, error = advice.log_evidence
    assert abs(log_z - np.log(9)) < monte_carlo(error)


def test_raw_units_are_not_improper() -> None:
    """An intercept 2,000 years off the data has an sd of a million; its path's has one of .3."""
    rng = np.random.default_rng(11)
    year = np.linspace(1990, 2020, 31)
    y = 1e6 + 2.5e4 * (year - 1990) + 3e4 * rng.normal(size=31)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1e9), pm.Normal("b", 0, 1e6)
        pm.Normal("y", a + b * year, pm.HalfNormal("s", 1e6), observed=y)
    advice = bridge.fit(model, random_seed=1)
    assert advice.trusted and advice.method == "hierarchical", advice.reasons
    slope, intercept = np.polyfit(year, y, 1)
    posterior = advice.idata["posterior"]
    sd = float(posterior["a"].std())
    assert abs(float(posterior["a"].mean()) - intercept) < 0.2 * sd and 9e5 < sd < 1.4e6
    assert abs(float(posterior["b"].mean()) - slope) < 0.2 * float(posterior["b"].std())


def test_chains_start_elsewhere_where_the_density_is_flat_at_their_starts(monkeypatch) -> None:
    """Before the model's own sampler runs, which has no budget."""
    needs("nutpie")
    starts = []

    def flat(problem, transport, modes, *rest, **options):
        starts.append((transport, modes))
        if len(starts) == 1:
            raise DensityError("the score is zero at and beside the start")
        return run(problem, transport, modes, *rest, **options)

    run = exact._warm
    monkeypatch.setattr(exact, "_warm", flat)
    density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    found = exact_answer(
        as_problem(density, None), BatchMatch().fit(density, random_seed=1).q, None, Sampling(),
        draws=100, seed=1, progressbar=False,
    )  # fmt: skip
    first, second = starts
    assert first[0] is not None and second == (None, None) and not found.doubts


def test_where_chains_keep_to_their_modes_the_weighed_basins_are_handed_back(monkeypatch) -> None:
    """Not trusted; but as many chains in each mode as there are starts weigh nothing."""
    monkeypatch.setattr(Search, "images", lambda search: None)  # its modes are images of each other
    monkeypatch.setattr("pymc_ext.sampling.images.images_among", lambda *_: None)
    density = ZOO["product"].make()
    advice = bridge.fit(density, random_seed=1)
    assert not advice.trusted and advice.method == "basins", advice.reasons
    assert advice.doubts[0].startswith("basins: refused: ") and "k̂" in advice.doubts[0]
    assert all(doubt.startswith("warm-nuts: ") for doubt in advice.doubts[1:])
    assert any("R̂" in doubt for doubt in advice.doubts)
    assert advice.attempts[-1].method == "warm-nuts"
    draws = density.draws(20_000, np.random.default_rng(1))
    share = np.mean(density.mode_of(draws) == 0)
    theta = advice.draws.values["theta"].reshape(-1, density.dimension)
    # of two of like mass; with k̂ .8 the largest weights are a few percent each
    assert abs(np.mean(density.mode_of(theta) == 0) - share) < 0.1
    assert advice.idata["posterior"].attrs["trusted"] == 0
    assert advice.log_evidence is None


def test_chains_that_all_left_a_known_mode_are_not_trusted() -> None:
    """They agree, wherever they started."""
    density = ZOO["modes-2-far"].make()
    draws = density.draws(2_000, np.random.default_rng(1))
    first = density.mode_of(draws) == 0
    q = Gaussian.of_draws(draws[first])
    theta, log_q = q.forward(np.random.default_rng(2).standard_normal((2_000, 2)))
    log_p = density.log_density(theta)
    log_z = float(np.log(np.mean(np.exp(log_p - log_q))))
    modes = mass_outside(
        CountedDensity(density), theta, log_p, q.log_density, log_z, np.random.default_rng(3)
    )
    assert modes.matters
    (doubt,) = left_behind(modes, draws[first], seed=1)
    assert doubt.startswith("there is mass that chains hardly visited: a mode at theta[")
    assert left_behind(modes, draws, seed=1, q=q) == ()
    (doubt,) = left_behind(modes, draws[~first], seed=1, q=q)
    assert doubt.startswith("there is mass that chains hardly visited: that of the approximation")
    assert left_behind(modes, draws[~first], seed=1) == ()  # where nobody knows of it


def test_chains_without_coordinates_start_in_every_mode(monkeypatch) -> None:
    """From random starts all four may end in one of two modes, as those of a factor model did."""
    density = ZOO["modes-2-far"].make()
    draws = density.draws(2_000, np.random.default_rng(1))
    q = Gaussian.of_draws(draws[density.mode_of(draws) == 0])
    modes = modes_outside(density, q, 1)
    given = {}

    def recorded(*args, **options):
        given.update(options)
        raise RuntimeError("enough")

    monkeypatch.setattr("pymc_ext.sampling.run.sample", recorded)
    with pytest.raises(RuntimeError, match="enough"):
        sampled(as_problem(density, None).target, None, modes, Sampling(), 1, basin=q)
    at = given["extra_starts"]
    np.testing.assert_allclose(at[0], q.mean)
    np.testing.assert_array_equal(density.mode_of(at), [0, 1])


def test_chains_that_all_left_the_approximation_are_not_trusted(monkeypatch) -> None:
    """All end in the other of two modes, and agree: that of q is asked after too."""
    needs("nutpie")
    density = ZOO["modes-2-far"].make()
    draws = density.draws(4_000, np.random.default_rng(1))
    first = density.mode_of(draws) == 0
    q, other = Gaussian.of_draws(draws[first]), draws[~first]
    modes = modes_outside(density, q, 1)
    target = as_problem(density, None).target
    found = sampled(target, Gaussian.of_draws(other), None, Sampling(), 1)
    assert found.trusted and (density.mode_of(found.theta.reshape(-1, 2)) == 1).all()
    monkeypatch.setattr("pymc_ext.sampling.run.sample", lambda *_, **options: found)
    again = sampled(target, q, modes, Sampling(), 1, basin=q)
    assert not again.trusted
    assert "hardly visited: that of the approximation" in again.reasons[0]


def test_several_modes_without_a_proposal_are_held_to_more() -> None:
    """Their weights are good below k̂ .5, or where they hardly differ."""
    search = Search(as_problem(ZOO["modes-1"].make(), None), Demands(0.7, 400, 20_000, 4_000), 1, 1)
    search.attempt(METHODS["basins"])
    good = replace(search.attempts[0], khat=0.55, good=True)
    spread = np.concatenate([np.full(50, 3.0), np.full(50, 1.0)]) / 200  # worth 80 of 100
    alike = np.full(100, 0.01)
    refused = of_several_modes(good, False, spread)
    assert not refused.good
    assert refused.verdict.startswith("refused: k̂ = 0.55 >= 0.5, with no proposal")
    assert of_several_modes(good, False, alike) is good
    assert of_several_modes(good, True, spread) is good
    better = replace(good, khat=0.45)
    assert of_several_modes(better, False, spread) is better


def test_modes_of_a_later_search_are_known_too() -> None:
    """A comb of frequencies: the second search finds a heavier tooth than the first."""
    density = ZOO["frequency-aliased"].make()
    search = Search(as_problem(density, None), Demands(0.7, 400, 20_000, 4_000), 1, 3)
    search.attempt(METHODS["hierarchical"])
    first = search.modes
    assert first is not None
    search.attempt(search.basins())
    assert search.modes is not None
    known, heaviest = {id(basin) for basin in first.basins}, search.modes.heaviest
    assert id(heaviest) not in known and heaviest.log_ratio > first.heaviest.log_ratio
    assert known & {id(basin) for basin in search.modes.basins}


def test_a_known_mode_that_a_later_search_does_not_meet_is_not_forgotten() -> None:
    """A narrow one in five dimensions, which starts meet by luck: the next method is without it."""
    density = ZOO["narrow-5"].make()
    draws = density.draws(4_000, np.random.default_rng(1))
    narrow = Gaussian.of_draws(draws[density.mode_of(draws) == 1])
    modes = MissedMass(
        (Basin(narrow, -0.4, 0.01, 10.0),), 1, 34, 0, tuple("abcde"), np.zeros(5), np.ones(5)
    )
    search = Search(as_problem(density, None), Demands(0.7, 400, 20_000, 4_000), 1, 1)
    search.attempt(METHODS["hierarchical"])
    assert search.trusted and search.modes is None  # what there is to find is not found
    search.outside.modes = modes
    search.attempt(METHODS["hierarchical"])
    assert not search.trusted and "mass is missed" in search.attempts[-1].verdict
    half = replace(search.found, theta=draws[None])
    assert forgotten(half, modes, seed=1) is None


def test_a_tail_of_a_governor_that_draws_miss_refutes_weights_and_chains(monkeypatch) -> None:
    """As if the marginal were ten times as wide as it is; as it is, a Gaussian's weights answer."""
    needs("nutpie")
    target = ZOO["groups-7"].make()
    search = Search(as_problem(target, None), Demands(0.7, 400, 20_000, 4_000), 1, 1)
    search.attempt(METHODS["hierarchical"])
    assert search.trusted and search.law is not None
    monkeypatch.setattr("pymc_ext.variational.hierarchical.reach.LEAST_SD", 10.0)
    search.attempt(search.basins())  # weights of which do not reach further by themselves
    assert not search.trusted
    assert "the draws miss a tail of " in search.attempts[-1].verdict
    found = exact_answer(
        as_problem(target, None), search.coordinates, None, Sampling(ess=50),
        draws=1000, seed=1, progressbar=False,
    )  # fmt: skip
    assert found.doubts[0].startswith("the draws miss a tail of ")


@pytest.mark.stan
def test_a_neck_that_neither_map_nor_chains_enter_is_answered() -> None:
    """Twelve groups of four: 5 % of log tau lies below -2.45, no draw of chains below -2.2, whose R̂
    was 1.00; laws along tau reach it."""
    program = StanProgram(
        """data { int K; int n; array[K, n] real y; }
        parameters { real mu; real<lower=0> tau; vector[K] al; real<lower=0> s; }
        model {
          mu ~ normal(0, 10); tau ~ normal(0, 2); al ~ normal(mu, tau); s ~ exponential(1);
          for (k in 1:K) y[k] ~ normal(al[k], s);
        }"""
    )
    rng = np.random.default_rng(100)
    y = rng.normal(rng.normal(2, 0.3, 12)[:, None], 1.5, (12, 4))
    advice = bridge.fit(program, {"K": 12, "n": 4, "y": y.tolist()}, random_seed=2)
    log_tau = np.log(advice.idata["posterior"]["tau"].values)
    assert advice.trusted and advice.method == "hierarchical"
    assert log_tau.std() / 0.885 == pytest.approx(1, abs=0.06)  # by quadrature; of 4,000 draws


def test_basins_are_tried_again_with_what_they_missed() -> None:
    """Of eight modes of a frequency at whole times the first paths find some, and a search beside
    these the others."""
    density = ZOO["frequency-aliased"].make()
    advice = bridge.fit(density, random_seed=2, progressbar=False)
    first, again = (a.verdict for a in advice.attempts if a.method == "basins")
    assert "mass is missed" in first and "good enough" in again
    assert advice.trusted and advice.method == "basins"
    truth, theta = truth_of(density), advice.draws.values["theta"].reshape(-1, density.dimension)
    off = (theta.mean(axis=0) - truth.mean) / truth.sd
    assert np.all(np.abs(off) < monte_carlo(1 / np.sqrt(advice.effective_draws)))
