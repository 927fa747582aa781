"""What is wrong with an argument is said at every door, before anything is fitted or drawn."""

from __future__ import annotations

import pymc as pm
import pytest

import bridge
import pymc_ext as px
from bridge.methods.problems import as_problem
from bridge.methods.warm_nuts import WarmNUTS
from posteriordb_cases import load_case
from pymc_ext import options
from pymc_ext.sampling.options import Sampling
from stan_models import StanProgram, advi, laplace, nuts, pathfinder

CASE = "two_successes-bernoulli_beta"


@pytest.fixture(scope="module")
def model() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        pm.Normal("y", mu, 1, observed=[1.2, -0.7, 3.1, 0.4])
    return model


@pytest.fixture(scope="module")
def approx(model):
    with model:
        return pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)


BOOL = "must be True or False"
NAMES = "must be True or False, or a list of names of variables"
OF_ALL = [  # at doors that take draws and groups
    ({"prior": 3}, f"prior {BOOL}.*, got 3"),
    ({"log_likelihood": "yes"}, f"log_likelihood {BOOL}.*, got 'yes'"),
    ({"log_prior": None}, f"log_prior {BOOL}.*, got None"),
    ({"draws": 0}, "draws must be .*, got 0"),
    ({"draws": "x"}, "draws must be an integer.*, got 'x'"),
    ({"random_seed": "a"}, "random_seed must be None.*, got 'a': give an integer"),
]
OF_FIT = [
    *OF_ALL,
    ({"log_likelihood": "yes"}, f"log_likelihood {NAMES}, got 'yes'"),
    ({"chains": 0}, r"px.fit takes no chains=: chains are run by pm.sample\(\)"),
    ({"tune": -1}, "px.fit takes no tune=: chains are run"),
    ({"seed": 1}, "px.fit takes no seed=: give random_seed="),
    (
        {"search": px.ModeSearch(1)},
        r"no search=: .*; for options of the family give an instance: px.fit\(px.Laplace",
    ),
    ({"method": "mixed-eig", "base": "unit"}, r"no base=: .* px.fit\(px.MixedVI\(...\)\)$"),
    ({"drows": 1}, "px.fit takes no drows=: did you mean draws="),
    ({"method": px.HierarchicalVI}, r"the class HierarchicalVI: write px.HierarchicalVI\(\)"),
    ({"method": pm.ADVI}, "got the class ADVI: what PyMC has of its own goes to pm.fit"),
]


@pytest.mark.parametrize(("options", "message"), OF_FIT, ids=str)
def test_px_fit_says_it(model, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        px.fit(**{"method": "laplace", "model": model, "progressbar": False, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *OF_ALL,
        ({"chains": 0}, "chains must be an integer >= 1, got 0"),
        (
            {"log_likelihood": ["z"]},
            r"must name observed variables .*, got \['z'\]; it has \['y'\]",
        ),
        ({"log_prior": ["y"]}, r"must name free variables .*, got \['y'\]; it has \['mu'\]"),
        ({"logs": "no"}, f"logs {BOOL}, got 'no'"),
        (
            {"log_liklihood": True},
            r"does not take \['log_liklihood'\]: did you mean log_likelihood=\? beside its own",
        ),
        ({"chain": 2}, r"does not take \['chain'\]: did you mean chains=\? beside its own"),
        ({"tune": -1}, r"approx.sample does not take \['tune'\] \(for chains call px.sample"),
    ],
    ids=str,
)
def test_approx_sample_says_it(approx, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        approx.sample(**options)


def test_a_case_is_known_by_its_name() -> None:
    with pytest.raises(TypeError, match=r"a case is known by its name, .*, got 3: list_cases"):
        load_case(3)


def test_names_of_variables_are_no_wrong_argument(approx) -> None:
    idata = approx.sample(10, log_likelihood=["y"], random_seed=1)
    assert idata["log_likelihood"]["y"].shape == (1, 10, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *OF_ALL,
        ({"ess": "x"}, "ess must be a number, got 'x'"),
        ({"prior": 3}, f"prior {BOOL}, or of a Stan program names, .*, got 3"),
        ({"methods": 5}, r"methods must be names, such as .*, got 5: see `python -m bridge list`"),
        ({"chains": 0}, "bridge.fit takes no chains="),
    ],
    ids=str,
)
def test_bridge_fit_says_it(model, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        bridge.fit(model, **{"progressbar": False, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chains": 0}, "chains must be an integer >= 2, got 0"),
        ({"ess": "x"}, "ess must be a number, got 'x'"),
        ({"tune": -1}, r"px.sample does not take \['tune'\] \(ess=400 says"),
        ({"random_seed": "a"}, "random_seed must be None.*, got 'a'"),
        ({"search": 3}, f"search {BOOL}, got 3"),
        ({"log_likelihood": "yes"}, f"log_likelihood {NAMES}, got 'yes'"),
        ({"log_likelihood": ["z"]}, r"log_likelihood must name observed .* got \['z'\]"),
        ({"prior": True}, "prior must be a mapping .* got True: .* pm.sample_prior_predictive"),
        ({"sampler": 3}, r"sampler must make chains, as .*NutpieNUTS\(\) does, got 3"),
    ],
    ids=str,
)
def test_px_sample_says_it(approx, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        px.sample(approx, **{"progressbar": False, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ess": "x"}, "ess must be a number, got 'x'"),
        ({"draws": "x"}, "draws must be an integer, got 'x'"),
        ({"draws": 500.5}, "draws must be an integer, got 500.5"),
        ({"random_seed": "a"}, "random_seed must be None.*, got 'a'"),
    ],
    ids=str,
)
def test_px_diagnose_says_it(approx, options, message) -> None:
    with pytest.raises(TypeError, match=message):
        px.diagnose(approx, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cases": 3}, "cases must be the name of a posterior .*, got 3: `python -m bridge list`"),
        ({"cases": [3]}, r"cases must .*, got \[3\]: .*; a model of your own is for"),
        (
            {"cases": "mine.stan"},
            "no case 'mine.stan' .*a program of your own is for bridge.fit",
        ),
        ({"methods": 5}, "methods must be names, .*, got 5"),
        ({"seeds": 0}, "at least one case, method and seed"),
        ({"draws": "x"}, "draws must be an integer, got 'x'"),
        ({"draws": 2000.5}, "draws must be an integer, got 2000.5"),
        ({"repetitions": None}, "repetitions must be an integer, got None"),
        ({"budget": "x"}, "budget must be a number, got 'x'"),
        ({"run_limit": "x"}, "run_limit must be a number, got 'x'"),
        ({"run_limit": 0}, "run_limit must be a positive number, got 0"),
        ({"out": None}, "out must be a text or a pathlib.Path, got None"),
        ({"database": 3}, "database must be a text or a pathlib.Path, got 3"),
        ({"retry_failed": "x"}, f"retry_failed {BOOL}, got 'x'"),
        ({"on_record": 3}, "on_record must be a function .*, got 3"),
    ],
    ids=str,
)
def test_bridge_compare_says_it(tmp_path, options, message) -> None:
    arguments = {"cases": CASE, "methods": "laplace", "seeds": 1, "out": tmp_path / "out"}
    with pytest.raises((TypeError, ValueError), match=message):
        bridge.compare(**{**arguments, **options})
    assert not list(tmp_path.iterdir())


WRONG = [
    (bridge.pymc_target, (pm.Model,), "got the class Model: give a model of it"),
    (bridge.pymc_target, (list(range(99)),), "for that .*, got list$"),
    (StanProgram, ("my model",), "its source text, .* or the path of a .stan file, got 'my model'"),
    (bridge.pymc_target, (3,), "model must be a pm.Model, or None for that .*, got 3"),
    (bridge.pymc_target, (None,), "no model: pass model=, or call inside `with model:`"),
    (bridge.stan_target, (3,), "density must be a compiled Stan log density, got int without dim"),
    (bridge.merge, (3, "out"), "each of folders must be a text or a pathlib.Path, got 3"),
    (bridge.merge, (["a", 3], "out"), "each of folders must be a text or a pathlib.Path, got 3"),
    (bridge.merge, ([], "out"), "must name at least one folder of a comparison, got none"),
    (bridge.merge, (["a"], None), "out must be a text or a pathlib.Path, got None"),
    (bridge.stan_model, (3,), "a Stan program must be its source text or the path .*, got int"),
    (bridge.calibrate, (3,), "model must be a pm.Model or a Stan program, got int"),
    (bridge.moment_errors, (3, {"x": [range(9)]}), "draws must be arrays by name, .*, got int"),
    (bridge.moment_errors, ({}, 3), "reference must be ArviZ data with a posterior.*, got int"),
    (bridge.pareto_khat, ("a", "b"), "lp must be numbers in an array, got 'a'"),
    (bridge.kl_from_q, ([1, 2], [1, 2], 3), "log_evidence must be a LogEvidence.*, got 3"),
    (
        bridge.kl_to_q,
        ([1, 2], ["a", 2], 3),
        r"log q at draws of p must be numbers .*, got \['a', 2\]",
    ),
    (bridge.log_evidence, (3, [[[1.0]]]), "target must be a target.*, got int without"),
]


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    WRONG,
    ids=[f"{f.__name__}-{i}" for i, (f, *_) in enumerate(WRONG)],
)
def test_the_other_doors_of_bridge_say_it(tmp_path, monkeypatch, call, arguments, message) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError), match=message):
        call(*arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": 3}, "a shard is a text i/n with 1 <= i <= n, as '2/3', got 3"),
        ({"shard": "3/2"}, "a shard is i/n with 1 <= i <= n, as 2/3, got '3/2'"),
        ({"cases": 3}, "cases must be the name of a posterior .*, got 3"),
        ({"cases": "gaussian"}, "no case 'gaussian' among"),
    ],
    ids=str,
)
def test_bridge_sweep_says_it(tmp_path, options, message) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        bridge.sweep(**{"methods": "laplace", "seeds": 1, "out": tmp_path / "out", **options})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("source", [3, None])
def test_what_is_no_stan_program_is_said(source) -> None:
    with pytest.raises(TypeError, match="must be its source text or the path of a"):
        StanProgram(source)
    with pytest.raises(TypeError, match="name must be a text, such as 'schools', or None, got 3"):
        StanProgram("parameters { real x; } model { }", name=3)


@pytest.mark.parametrize("run", [nuts, advi, laplace, pathfinder])
def test_source_text_is_no_program_that_stan_runs(run) -> None:
    with pytest.raises(TypeError, match=r"a stan_models.StanProgram, got str: write StanProgram\("):
        run("parameters { real x; } model { }")


FAR = 10**13  # numbers: more than any machine of today holds
TOO_MANY = rf"draws={FAR} takes at least 160,000 GB, for arrays of shape \({FAR}, 1\), and this"


def test_draws_beyond_the_memory_are_refused_before_any_are_made(model, approx, tmp_path) -> None:
    for call in (
        lambda: px.fit("laplace", model=model, draws=FAR, progressbar=False),
        lambda: approx.sample(FAR),
        lambda: approx.evaluate(FAR),
        lambda: px.diagnose(approx, draws=FAR),
        lambda: bridge.fit(model, draws=FAR, prior=True, progressbar=False),
        lambda: bridge.fit(model, fresh_draws=FAR, progressbar=False),
        lambda: bridge.compare(CASE, "laplace", 1, out=tmp_path, draws=FAR),
    ):
        with pytest.raises(ValueError, match=TOO_MANY):
            call()


def test_what_no_chains_can_reach_is_refused_before_anything_runs(
    model, approx, monkeypatch
) -> None:
    for call in (
        lambda: bridge.fit(model, ess=1e9),
        lambda: px.sample(approx, ess=1e9),
        lambda: px.sample(approx, ess=2_000, budget=1_000),
        lambda: WarmNUTS(options=Sampling(ess=1e9))(as_problem(model), 0, 1),
    ):
        with pytest.raises(ValueError, match="at least as many gradients, and its budget is 1,000"):
            call()
    monkeypatch.setattr(options, "machine_memory", lambda: 10**6)
    Sampling(ess=30_000).require_reachable(dimension=2)
    for call in (
        lambda: px.sample(approx, ess=900_000),
        lambda: Sampling(ess=900_000).require_reachable(dimension=2),
    ):
        with pytest.raises(ValueError, match="ess=900000 takes at least"):
            call()


def test_where_the_memory_is_not_known_nothing_is_refused(monkeypatch) -> None:
    def unknown(name):
        raise ValueError(name)

    monkeypatch.setattr("os.sysconf", unknown)
    options.machine_memory.cache_clear()
    try:
        options.require_memory("draws", FAR, 2)
    finally:
        options.machine_memory.cache_clear()
