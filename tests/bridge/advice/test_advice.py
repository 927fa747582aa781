"""The ladder of methods: exact cases, what it refuses, NUTS at its end."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.exceptions import SamplingError
from pytensor.gradient import NullTypeGradError
from pytensor.graph.op import Op
from pytensor.graph.utils import MethodNotDefined

import bridge
import pymc_ext as px
from bridge.__main__ import main
from bridge.advice.fit import LADDER, NoAnswerError
from bridge.advice.search import Search
from bridge.attempt import FIRST_BLOCK, Demands
from bridge.errors import BridgeError, UnknownMethodError
from bridge.methods.families import FittedBy
from bridge.methods.method import Fit, Method
from bridge.methods.named_draws import resampled, systematic
from bridge.methods.problems import as_problem
from bridge.methods.table import METHODS
from posteriordb_cases import load_case
from posteriordb_cases.zoo.table import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.trust_region import NoModeError
from pymc_ext.sampling.prediction import in_words
from pymc_ext.variational.core.monitor import FitStopped
from pymc_ext.variational.core.posterior import FRESH_DRAWS
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.ill_posed.runaway import RunawayError
from stan_models import StanCompileError, StanProgram, StanRunError, nuts
from tests.needed import needs
from tests.tolerances import monte_carlo


def gaussian_model():
    with pm.Model(coords={"axis": ["a", "b"]}) as model:
        x = pm.Normal("x", [1.0, -2.0], [0.5, 3.0], dims="axis")
        pm.Deterministic("total", x.sum())
    return model


def test_a_gaussian_is_exact_with_the_first_method():
    advice = bridge.fit(gaussian_model(), methods=["laplace", "mixed-eig"], random_seed=1)
    assert advice.method == "laplace"
    (attempt,) = advice.attempts
    assert attempt.exact and "exact" in attempt.verdict and np.isnan(attempt.khat)
    assert "\ntaken: laplace (trusted)\nlog evidence: " in advice.reasons
    log_z, error = advice.log_evidence
    assert abs(log_z) < 1e-8 and error < 1e-8  # normalised
    attributes = advice.idata["posterior"].attrs
    assert attributes["method"] == "laplace" and attributes["trusted"] == 1
    assert attributes["random_seed"] == 1
    assert attributes["gradient_evaluations"] == attempt.gradients + attempt.search_gradients
    assert attempt.search_gradients > 24 and "to look for missed mass" in advice.reasons
    posterior = advice.idata["posterior"]
    assert posterior["x"].dims == ("chain", "draw", "axis")
    assert list(posterior["axis"].values) == ["a", "b"]
    x = posterior["x"].values.reshape(-1, 2)
    np.testing.assert_allclose(
        x.mean(0) / [0.5, 3.0], [2.0, -2 / 3], atol=monte_carlo(1 / 4000**0.5)
    )
    np.testing.assert_allclose(posterior["total"].values.ravel(), x.sum(1))


def test_resampling_repairs_what_k_hat_allows():
    """Laplace misses the mean of a skewed density with light tails; reweighted, it has it."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Potential("quartic", 2 * x - x**4 / 4)
    grid = np.linspace(-6, 6, 100_001)
    density = np.exp(-(grid**2) / 2 + 2 * grid - grid**4 / 4)
    mean = (density * grid).sum() / density.sum()
    sd = np.sqrt((density * (grid - mean) ** 2).sum() / density.sum())

    advice = bridge.fit(model, methods="laplace", random_seed=1, draws=20_000)
    assert advice.method == "laplace" and advice.attempts[0].khat < 0.7
    draws = advice.idata["posterior"]["x"].values.ravel()
    k = bridge.pareto_khat(advice.fit.lp.ravel(), advice.fit.lq.ravel())
    se = sd * np.sqrt(1 / k.ess + 1 / draws.size)
    assert abs(draws.mean() - mean) < monte_carlo(se)
    assert abs(advice.fit.theta.mean() - mean) > monte_carlo(se)  # the weights did the repair


@pytest.mark.stan
@pytest.mark.parametrize("form", ["model", "program"])
@pytest.mark.parametrize("name", LADDER)
def test_every_default_method_runs_on_models_and_programs(form, name):
    method = METHODS[name]
    short = replace(method, name="short", run=replace(method.run, n=50))
    program = StanProgram("parameters { vector[2] x; } model { x ~ normal([1, -2], [0.5, 3]); }")
    problem = gaussian_model() if form == "model" else program
    advice = bridge.fit(
        problem, methods=[short], random_seed=1, draws=40, fresh_draws=1000, progressbar=False
    )
    assert "failed" not in advice.attempts[0].verdict


@pytest.mark.stan
def test_what_is_wrong_with_a_program_is_said_before_any_method_runs(tmp_path, capsys):
    (tmp_path / "bad.stan").write_text("parameters { real x; } model { x ~ normal(0, ; }")
    (tmp_path / "data.json").write_text("{}")
    with pytest.raises(StanCompileError):
        bridge.fit(tmp_path / "bad.stan", methods=["laplace"])
    arguments = ["fit", str(tmp_path / "bad.stan"), str(tmp_path / "data.json")]
    assert main([*arguments, "--out", str(tmp_path / "posterior.nc")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.stan
def test_an_existing_file_is_replaced_on_request_only(tmp_path, capsys):
    program, out = tmp_path / "normal.stan", tmp_path / "posterior.nc"
    program.write_text("parameters { vector[2] x; } model { x ~ std_normal(); }")
    out.write_text("mine")
    arguments = ["fit", str(program), "--out", str(out), "--draws", "100"]
    assert main(arguments) == 2 and out.read_text() == "mine"
    assert "--overwrite" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    posterior = az.from_netcdf(str(out))["posterior"]
    assert posterior["x"].shape == (4, 25, 2)
    assert posterior.attrs["method"] == "hierarchical" and posterior.attrs["trusted"] == 1
    assert "exact wherever it draws: its log ratios" in posterior.attrs["reasons"]
    assert "stan_version" in posterior.attrs and posterior.attrs["exact"] == 1
    assert capsys.readouterr().out.count("exact wherever it draws: its log ratios") == 1


@pytest.mark.stan
def test_nuts_where_nothing_is_good_enough():
    """Laplace fails on centred eight schools, and says so; NUTS answers."""
    case = load_case("eight_schools-eight_schools_noncentered")
    program = StanProgram(case.stan_code, name=case.model_name)
    advice = bridge.fit(program, case.data, methods="stan-laplace", khat=0.1, random_seed=1)
    assert advice.method == "warm-nuts" and advice.fit is None and advice.trusted
    assert advice.attempts[0].verdict.startswith("refused: k̂ = ")
    assert "Stan's NUTS" in advice.attempts[-1].verdict and advice.attempts[-1].gradients > 1000
    theta = advice.idata["posterior"]["theta"]
    assert theta.shape[0] >= 4 and theta.shape[2:] == (8,)  # and one a mode that was found
    assert float(az.ess(theta.values[..., 0])) > 300
    assert advice.idata["sample_stats"]["diverging"].shape == theta.shape[:2]


@pytest.mark.stan
def test_generated_quantities_come_with_the_draws() -> None:
    program = StanProgram(
        "parameters { real x; } model { x ~ normal(1, 2); } "
        "generated quantities { real y = normal_rng(x, 1); real twice = 2 * x; }"
    )
    posterior = bridge.fit(program, random_seed=1).idata["posterior"]
    np.testing.assert_allclose(posterior["twice"], 2 * posterior["x"])
    assert json.loads(posterior.attrs["generated_quantities"]) == ["y", "twice"]
    by_nuts = nuts(program, chains=1, warmup=50, draws=10, random_seed=1)["posterior"]
    assert set(by_nuts.data_vars) == set(posterior.data_vars)
    noise = np.asarray(posterior["y"] - posterior["x"])
    assert abs(noise.std() - 1) < monte_carlo(1 / np.sqrt(2 * noise.size))
    again = bridge.fit(program, random_seed=1).idata["posterior"]
    np.testing.assert_array_equal(posterior["y"], again["y"])


def test_a_flow_comes_before_nuts_where_a_density_is_wanted(monkeypatch) -> None:
    """A banana, which no Gaussian fits."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", x**2, 0.5)
    short = replace(METHODS["bernstein"], run=replace(METHODS["bernstein"].run, n=4000))
    monkeypatch.setitem(METHODS, "bernstein", short)
    options = {"methods": "batch-match", "random_seed": 1, "progressbar": False}
    advice = bridge.fit(model, want="density", **options)
    assert advice.method == "bernstein" and advice.trusted, advice.reasons
    assert abs(advice.attempts[-1].log_marginal_is) < 0.05  # normalised
    at = np.array([[0.0, 0.0], [1.0, 1.0]])
    exact = -np.log(np.pi) - np.array([0.0, 0.5])
    np.testing.assert_allclose(advice.fit.log_q(at), exact, atol=0.3)
    np.testing.assert_array_equal(advice.density.logpdf(at), advice.fit.log_q(at))
    assert advice.density.notes["method"] == "bernstein" and advice.density.notes["usable"]


def test_what_is_tried_in_vain_is_bounded_by_what_nuts_would_take() -> None:
    """Its prediction, in the coordinates of the best that was tried, is told and is not far off."""
    needs("nutpie")
    with pm.Model() as model:
        pm.Gumbel("x", 0, 1, shape=3)
    options = {"random_seed": 1, "progressbar": False}
    two = {"methods": ["laplace", "batch-match"], "khat": 0.01, **options}
    advice = bridge.fit(model, effort=1e-3, **two)
    assert [a.method for a in advice.attempts] == [
        "laplace",
        "batch-match",
        "warm-nuts",
    ]
    assert "not tried: " in advice.attempts[1].verdict
    last = advice.attempts[-1]
    assert last.predicted / 4 < last.gradients < 4 * last.predicted
    assert f", {in_words(last.predicted)} predicted" in advice.reasons
    advice = bridge.fit(model, **two)  # what is named is tried
    assert advice.attempts[1].gradients > 0
    named = {**two, "methods": ["laplace", "bernstein"]}
    advice = bridge.fit(model, effort=1, **named)
    assert "it takes some 200,000" in advice.attempts[1].verdict


def test_a_seed_means_a_result_of_chains_too() -> None:
    needs("nutpie")
    with pm.Model() as model:
        pm.StudentT("x", nu=2, mu=0, sigma=1)
    runs = [
        bridge.fit(model, methods="laplace", random_seed=1, ess=50, progressbar=False)
        for _ in range(2)
    ]
    assert runs[0].method == "warm-nuts"
    x = [run.idata["posterior"]["x"].values for run in runs]
    np.testing.assert_array_equal(*x)


def test_an_improper_posterior_is_said_and_costs_little() -> None:
    """Of a and b the data know a + b only: q widens without end, and so do chains."""
    density = ZOO["flat-direction"].make()
    counted = CountedDensity(density)
    with pytest.raises(NoAnswerError, match=r"improper.*\n.*NUTS gave no draws either: ") as caught:
        bridge.fit(counted, random_seed=1)
    assert counted.gradients < 200_000  # a million before
    assert "were spent on warm-up" in caught.value.why
    assert "larger" not in caught.value.why  # no budget settles it
    assert str(caught.value).startswith("hierarchical: failed: RunawayError: q kept widening along")
    for remedy in ("proper priors", "real<offset=M, multiplier=S>", "in PyMC divide the data"):
        assert remedy in caught.value.attempts[0].verdict
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value) and again.attempts[0].improper


@pytest.mark.parametrize("name", ["separated", "slow-tail", "flat-log-scale"])
def test_no_chains_run_where_log_p_never_falls(name) -> None:
    """A million gradients before, and no word of an improper posterior."""
    counted = CountedDensity(ZOO[name].make())
    methods = ["hierarchical", "bernstein-match"]
    with pytest.raises(NoAnswerError) as caught:
        bridge.fit(counted, methods=methods, want="density", random_seed=1)
    assert counted.gradients < 20_000
    (only,) = caught.value.attempts  # nor is another method tried
    assert only.endless and "give these variables proper priors" in only.verdict
    assert str(caught.value).endswith(
        "not trusted: no draws: the posterior is improper, so that there are none; NUTS did not run"
    )


def test_chains_of_what_looks_improper_are_judged_as_any() -> None:
    """A method that runs away is no proof: chains that pass are trusted, others say both."""

    def runs_away(problem, draws, seed):
        raise RunawayError("q kept widening along ['x']")

    density = CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    method = Method("runaway", "x", "pymc", runs_away)
    found = bridge.fit(density, methods=[method], random_seed=1)
    assert found.trusted and found.attempts[0].improper == "q kept widening along ['x']"
    refused = bridge.fit(density, methods=[method], ess=100_000, random_seed=1)
    assert refused.doubts[0] == "q kept widening along ['x']" and len(refused.doubts) > 1


def test_failures_and_missing_stan_are_reasons():
    with pm.Model() as unbounded:  # no mode: Laplace fails, NUTS runs
        tau = pm.HalfCauchy("tau", 1)
        pm.Normal("x", 0, tau, shape=4)
    methods = ["stan-laplace", "laplace"]
    advice = bridge.fit(unbounded, methods=methods, random_seed=1, draws=40, progressbar=False)
    assert advice.attempts[0].verdict == "not tried: it needs a Stan program"
    assert advice.attempts[1].verdict.startswith("failed: NoModeError")
    assert advice.method == "warm-nuts"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"want": "samples"}, "want must be 'draws' or 'density'"),
     ({"effort": 0}, "effort must be a positive number, got 0"),
     ({"effort": -1.0}, "effort must be"), ({"effort": np.nan}, "effort must be"),
     ({"ess": 0}, "ess must be a positive number"), ({"ess": -1.0}, "ess must be a positive"),
     ({"khat": 0.0}, r"khat must be in \(0, 1\], got 0"),
     ({"draws": -5}, "^draws must be at least 4, got -5$"),
     ({"fresh_draws": 10}, "fresh_draws must be at least 1000, got 10"),
     ({"methods": ["stan-nuts"]}, "approximations"), ({"methods": []}, "approximations"),
     ({"data": {"N": 1}}, "belong to a Stan program")],
)  # fmt: skip
def test_bad_input(options, message):
    with pytest.raises(ValueError, match=message):
        bridge.fit(gaussian_model(), **options)


@pytest.mark.parametrize("options", [{"draws": 10.5}, {"draws": "many"}, {"fresh_draws": True}])
def test_counts_are_integers(options):
    with pytest.raises(TypeError, match="draws must be an integer, got "):
        bridge.fit(gaussian_model(), **options)


@pytest.mark.parametrize("name", ["effort", "ess", "khat"])
@pytest.mark.parametrize("value", ["1", True])
def test_numbers_are_numbers(name, value):
    with pytest.raises(TypeError, match=f"{name} must be a number, got {value!r}"):
        bridge.fit(gaussian_model(), **{name: value})


@pytest.mark.parametrize(
    ("keyword", "sentence"),
    [("chains", "bridge.fit takes no chains=: chains run only where .* ess=400 draws, which is"),
     ("tune", "takes no tune=: .*pm.sample"), ("method", "takes no method=: give methods="),
     ("seed", "give random_seed="), ("draw", r"takes no draw=: did you mean draws=\?"),
     ("xyz", r"takes no xyz=: it takes \['model', 'data', ")],
)  # fmt: skip
def test_keywords_of_samplers_have_a_sentence(keyword, sentence):
    with pytest.raises(TypeError, match=sentence):
        bridge.fit(gaussian_model(), **{keyword: 4})


def test_unknown_method():
    with pytest.raises(UnknownMethodError, match="laplace"):
        bridge.fit(gaussian_model(), methods=["laplac"])
    with pytest.raises(ValueError, match=r"got \['nuts'\]: NUTS runs by itself"):
        bridge.fit(gaussian_model(), methods="nuts")


def failing(error: Exception) -> Method:
    def run(problem, draws, seed):
        raise error

    return Method("failing", "fails on purpose", "pymc", run)


@pytest.mark.parametrize(
    "error",
    [AssertionError("a bug"), TypeError("a bug"), AttributeError("a bug"), KeyError("a bug"),
     IndexError("a bug"), NameError("a bug")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_in_the_code_of_a_method_is_seen(error):
    with pytest.raises(type(error), match="a bug"):
        bridge.fit(gaussian_model(), methods=[failing(error), "laplace"], random_seed=1)


@pytest.mark.parametrize(
    "error",
    [NoModeError("no mode"), FloatingPointError("overflow"), np.linalg.LinAlgError("singular"),
     StanRunError("killed"), BridgeError("no"), SamplingError("no"), MemoryError("large"),
     TimeoutError("late"), NullTypeGradError("no derivative"), MethodNotDefined("grad"),
     FitStopped("the iterations are used up")],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_what_a_method_may_fail_with_is_a_reason_to_go_on(error):
    advice = bridge.fit(gaussian_model(), methods=[failing(error), "laplace"], random_seed=1)
    assert advice.method == "laplace"
    assert advice.attempts[0].verdict.startswith(f"failed: {type(error).__name__}: ")


def test_a_model_needs_no_second_derivatives():
    """Hessians are differences of scores."""

    class Square(Op):
        itypes = otypes = (pt.dscalar,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.asarray(inputs[0] ** 2)

        def pullback(self, inputs, outputs, cotangents):
            return [cotangents[0] * Double()(inputs[0])]

        L_op = pullback

    class Double(Op):
        itypes = otypes = (pt.dscalar,)

        def perform(self, node, inputs, outputs):
            outputs[0][0] = np.asarray(2 * inputs[0])

    with pm.Model() as model:
        pm.Potential("square", -Square()(pm.Flat("x")) / 2)
    # NumPy runs it, so that numba does not warn that it has no code for these
    advice = bridge.fit(model, methods=["laplace"], random_seed=1, draws=40, progressbar=False)
    assert advice.attempts[0].exact


def test_draws_without_log_q_are_an_error_of_the_method():
    def run(problem, draws, seed):
        theta = np.zeros((1, draws, problem.target.dimension))
        return Fit(problem.target, theta, np.zeros((1, draws)), 0.0)

    with pytest.raises(TypeError, match="draws without log q"):
        bridge.fit(gaussian_model(), methods=[Method("m", "", "pymc", run)], random_seed=1)


# ---- draws that a fit is judged by ---------------------------------------------------------------


class Counting(px.CallableDensity):
    """A density that notes of how many points its value was asked for."""

    def __init__(self, log_density, score, dimension):
        super().__init__(log_density, score, dimension=dimension)
        self.values = 0

    def log_density(self, theta):
        self.values += len(theta)
        return super().log_density(theta)


def quartic(strength):
    """Of independent coordinates the first has lighter tails than a Gaussian."""

    def log_density(t):
        return -0.5 * np.sum(t**2, axis=1) - strength * t[:, 0] ** 4

    def score(t):
        found = -t.copy()
        found[:, 0] -= 4 * strength * t[:, 0] ** 3
        return found

    return Counting(log_density, score, 3)


def test_a_clear_fit_is_judged_by_few_draws_and_a_doubtful_one_by_all():
    clear = bridge.fit(quartic(0.1), methods="hierarchical", random_seed=1, draws=3_000)
    assert clear.trusted and clear.fit.lp.size == FIRST_BLOCK
    more = bridge.fit(quartic(0.1), methods="hierarchical", random_seed=1, draws=6_000)
    assert more.trusted and more.fit.lp.size == 2 * FIRST_BLOCK
    np.testing.assert_array_equal(more.fit.theta[:, :FIRST_BLOCK], clear.fit.theta)

    # of a Student-t with 3 degrees of freedom, k̂ is near the limit: all draws are looked at
    def log_density(t):
        return -2 * np.sum(np.log1p(t**2 / 3), axis=1)

    density = Counting(log_density, lambda t: -4 * t / 3 / (1 + t**2 / 3), 3)
    search = Search(as_problem(density, None), Demands(0.7, 400, 20_000, 4_000), 1, 1)
    search.attempt(METHODS["batch-match"])
    assert search.attempts[0].khat > 0.5
    assert search.found is not None and search.found.lp.size == 20_000


def test_draws_that_the_fit_was_judged_by_cost_no_values():
    density = quartic(0.1)
    fit = METHODS["batch-match"].run(as_problem(density, None), 1, 1)
    assert fit.lp.size == 1
    before = density.values
    fit = fit.more(FRESH_DRAWS)
    assert density.values == before
    np.testing.assert_allclose(fit.lp[0], density.log_density(fit.theta[0]), atol=1e-12)
    np.testing.assert_allclose(fit.lq[0], fit.log_q(fit.theta[0]), atol=1e-12)
    before = density.values
    fit = fit.more(FRESH_DRAWS + 10)
    assert density.values == before + 10
    np.testing.assert_allclose(fit.lp[0], density.log_density(fit.theta[0]), atol=1e-12)


def test_more_draws_for_weights_are_of_the_proposal_alone():
    density = Counting(
        lambda t: -3 * np.sum(np.log1p(t**2 / 5), axis=1), lambda t: -6 * t / (5 + t**2), 3
    )
    first = METHODS["batch-match"].run(as_problem(density, None), FRESH_DRAWS, 1)
    assert first.proposal is not None
    before = density.values
    more = first.more(FRESH_DRAWS + 10)
    assert density.values == before + 10
    np.testing.assert_array_equal(more.theta, first.theta)
    np.testing.assert_array_equal(more.proposal.theta[:, :FRESH_DRAWS], first.proposal.theta)
    assert more.weighted.lp.size == FRESH_DRAWS + 10


def test_an_algorithm_that_returns_another_q_than_it_judged_is_a_fault():
    class Shifted(BatchMatch):
        def run(self, density, start, **settings):
            found = super().run(density, start, **settings)
            moved = Gaussian(found.q.mean + 1, found.q.root)
            return replace(found, q=moved)

    method = replace(METHODS["batch-match"], name="shifted", run=FittedBy(Shifted()))
    with pytest.raises(AssertionError, match="must return the q that its fresh draws are of"):
        bridge.fit(quartic(0.1), methods=method, random_seed=1)


def test_what_weights_cannot_mend_is_refused_by_its_first_draws():
    """A Gaussian against a product of Cauchy-like tails: weights without a mean."""

    def log_density(t):
        return -0.75 * np.sum(np.log1p(t**2), axis=1)

    density = Counting(log_density, lambda t: -1.5 * t / (1 + t**2), 30)
    search = Search(as_problem(density, None), Demands(0.7, 400, 20_000, 4_000), 1, 1)
    search.attempt(METHODS["laplace"])
    (attempt,) = search.attempts
    assert attempt.khat > 1 and not attempt.good and "refused: k̂" in attempt.verdict
    assert search.found is not None and search.found.lp.size == FIRST_BLOCK


def test_the_ess_of_resampled_draws_is_not_that_of_their_copies():
    theta = np.random.default_rng(1).standard_normal((1, 2_000, 1))
    density = px.CallableDensity(lambda t: -0.5 * (t**2).sum(1), lambda t: -t, dimension=1)
    problem = as_problem(density, None)
    lp = density.log_density(theta[0])[None]
    fit = Fit(problem.target, theta, lp, 0.0, lp)
    weights = np.random.default_rng(2).dirichlet(np.full(2_000, 0.1))  # worth some 200
    worth = 1 / (weights @ weights)
    drawn = resampled(problem, fit, weights, 4_000, 1)
    assert drawn.values["theta"].shape == (4, 1_000, 1)
    assert drawn.statistics["lp"].shape == (4, 1_000)
    ess = float(az.ess(drawn.values["theta"][..., 0], method="bulk"))
    assert 0.5 * worth < ess < 3 * worth
    odd = resampled(problem, fit, np.full(2_000, 1 / 2_000), 1_001, 1)
    assert odd.values["theta"].shape == (1, 1_001, 1)
    assert len(np.unique(odd.values["theta"])) == 1_001


def test_resampling_takes_no_draw_twice_whose_weight_is_small():
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.ones(1_000))
    counts = np.zeros(1_000)
    for _ in range(400):
        rows = systematic(weights, 500, rng)
        times = np.bincount(rows, minlength=1_000)
        assert rows.size == 500 and np.all(np.abs(times - 500 * weights) < 1)
        counts += times
    expected = 400 * 500 * weights
    share = 500 * weights % 1
    error = np.sqrt(400 * share * (1 - share))
    assert np.all(np.abs(counts - expected) <= 5 * error + 1e-9)


def test_a_map_whose_training_ended_for_weights_in_vain_is_trained_on_for_chains() -> None:
    """Neal's funnel: its law serves, but no draws tell the sds of what it governs."""
    needs("nutpie")
    advice = bridge.fit(ZOO["funnel-10"].make(), random_seed=1)
    names = [attempt.method for attempt in advice.attempts]
    assert advice.trusted and names == ["hierarchical", "hierarchical", "warm-nuts"]
    first, second, _ = advice.attempts
    assert 2 * first.gradients < second.gradients
