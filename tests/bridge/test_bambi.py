"""Models of bambi: what `bridge.fit` hands back is what bambi's own ``fit`` does."""

from __future__ import annotations

import re
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from bridge.errors import BambiVersionError
from bridge.methods.problems import as_problem
from bridge.targets.bambi import is_bambi
from bridge.targets.draws import group_names
from tests.bridge.test_elpd import elpd
from tests.needed import needs
from tests.tolerances import EXACT, monte_carlo

bmb = needs("bambi")
pytestmark = pytest.mark.filterwarnings(
    "ignore::FutureWarning",
    "ignore::DeprecationWarning",
    "ignore::UserWarning:arviz",
    "ignore:Cannot cache compiled function",  # numba's, of what bambi draws with on PyMC 6
)
ROWS, GROUPS = 200, 20


@cache
def data() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    group, x = np.arange(ROWS) % GROUPS, rng.normal(2, 1, ROWS)
    eta = 0.3 + 0.6 * (x - 2)
    effect = rng.normal(0, 0.6, GROUPS)[group]
    slope = rng.normal(0, 0.5, GROUPS)[group] * (x - 2)
    trials, p = rng.integers(5, 15, ROWS), 1 / (1 + np.exp(-eta))
    utility = np.stack([0 * eta, eta, 0.2 * x - 0.5], axis=1) + rng.gumbel(size=(ROWS, 3))
    steps = np.digitize(eta + rng.logistic(size=ROWS), [-1, 0.5, 2])
    return pd.DataFrame({
        "x": x,
        "z": x - 2,
        "group": [f"g{i:02}" for i in group],
        "level": rng.choice(["low", "mid", "high"], ROWS),
        "normal": eta + rng.normal(0, 1, ROWS),
        "robust": eta + rng.standard_t(4, ROWS),
        "yes": rng.binomial(1, p),
        "count": rng.poisson(np.exp(eta)),
        "spread": rng.negative_binomial(2, 2 / (2 + np.exp(eta))),
        "grouped": eta + effect + rng.normal(0, 1, ROWS),
        "sloped": eta + effect + slope + rng.normal(0, 1, ROWS),
        "trials": trials,
        "successes": rng.binomial(trials, 1 / (1 + np.exp(-eta - effect))),
        "noisy": eta + rng.normal(0, np.exp(0.4 * (x - 2))),
        "rating": pd.Categorical(steps, ordered=True),
        "kind": np.array(["a", "b", "c"])[utility.argmax(1)],
        "positive": rng.gamma(2, np.exp(eta) / 2),
        "share": rng.beta(5 * p, 5 * (1 - p)),
    })  # fmt: skip


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {  # the kinds of bambi's own gallery
    "normal": ("normal ~ x + level", {}),
    "robust": ("robust ~ x", {"family": "t"}),
    "logistic": ("yes ~ x + level", {"family": "bernoulli"}),
    "poisson": ("count ~ x", {"family": "poisson"}),
    "negative binomial": ("spread ~ x", {"family": "negativebinomial"}),
    "groups": ("grouped ~ x + (1|group)", {}),
    "slopes": ("sloped ~ z + (z|group)", {"noncentered": False}),
    "binomial groups": ("p(successes, trials) ~ x + (1|group)", {"family": "binomial"}),
    "distributional": (("noisy ~ x", "sigma ~ x"), {}),
    "ordinal": ("rating ~ 0 + x", {"family": "cumulative"}),
    "categorical": ("kind ~ x", {"family": "categorical"}),
    "gamma": ("positive ~ x", {"family": "gamma", "link": "log"}),
    "beta": ("share ~ x", {"family": "beta"}),
    "spline": ("normal ~ bs(x, df=5)", {}),
}


RARE = ("gamma", "beta", "spline")
FAST = tuple(name for name in MODELS if name not in RARE)
SPECIAL = ("groups", "distributional")  # more dims, more components
OTHERS = tuple(name for name in MODELS if name not in SPECIAL)
SLOW = pytest.mark.slow


@cache
def model(name: str) -> Any:
    formula, options = MODELS[name]
    formula = formula if isinstance(formula, str) else bmb.Formula(*formula)
    return bmb.Model(formula, data(), **options)


@cache
def answer(name: str) -> Any:
    return bridge.fit(model(name), random_seed=1, progressbar=False)


def own(name: str, draws: int = 4, tune: int = 4) -> Any:
    """bambi's own draws."""
    with warnings.catch_warnings():  # of chains that have not warmed up
        warnings.simplefilter("ignore", RuntimeWarning)
        return model(name).fit(
            draws=draws, tune=tune, chains=4, cores=1, random_seed=2, progressbar=False
        )


def form(idata: Any) -> dict[str, Any]:
    """All that is not values: groups' names, dims, types, coordinates, and bambi's attributes."""
    posterior = idata.posterior
    keys = ("modeling_interface", "modeling_interface_version")
    return {
        "variables": [(k, v.dims, v.dtype, v.shape[2:]) for k, v in posterior.data_vars.items()],
        "coordinates": {
            k: v.values.tolist() for k, v in posterior.coords.items() if k not in ("chain", "draw")
        },
        "attributes": [{k: idata[name].attrs[k] for k in keys} for name in group_names(idata)],
        "groups": group_names(idata),
        "observed": {k: v.values.tolist() for k, v in idata.observed_data.data_vars.items()},
    }


@pytest.mark.parametrize("name", [*SPECIAL, *(pytest.param(n, marks=SLOW) for n in OTHERS)])
def test_the_form_is_that_of_bambis_own_draws(name: str) -> None:
    assert form(answer(name).idata) == form(own(name))


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(n, marks=SLOW) for n in RARE)])
def test_is_trusted_and_predicts(name: str) -> None:
    advice = answer(name)
    assert advice.trusted, advice.reasons
    idata = advice.idata.copy()
    new = data().head(7)
    model(name).predict(idata, kind="response", random_seed=1)
    again = model(name).predict(idata, kind="response_params", data=new, inplace=False)
    parent = model(name).family.likelihood.parent
    assert dict(again.posterior[parent].sizes)["__obs__"] == len(new)
    np.testing.assert_allclose(
        again.posterior[parent].values[:, :, : len(new)],
        idata.posterior[parent].values[:, :, : len(new)],
        rtol=EXACT,
    )
    model(name).compute_log_likelihood(idata)
    assert np.isfinite(elpd(idata)[0])
    (predicted,) = idata.posterior_predictive.data_vars.values()
    assert predicted.shape[2] == ROWS


def test_predictions_are_those_of_the_models_own_mean() -> None:
    """The intercept that bambi hands back is of x itself; that of its PyMC model of centred x."""
    advice = answer("groups")
    idata = model("groups").predict(advice.idata, inplace=False)
    of_pymc = as_problem(model("groups").backend.model, None).target
    draws = {name: advice.draws.values[name] for name in of_pymc.parameter_names}
    theta = of_pymc.unconstrain({k: x.reshape(-1, *x.shape[2:]) for k, x in draws.items()})
    mu = of_pymc.constrain(theta)["mu"].reshape(idata.posterior["mu"].shape)
    np.testing.assert_allclose(idata.posterior["mu"].values, mu, rtol=1e-9, atol=1e-9)


def test_no_value_a_row_is_computed() -> None:
    target = as_problem(model("distributional"), None).target
    assert set(target.constrain(np.zeros((1, target.dimension)))) == {
        "Intercept", "x", "sigma_Intercept", "sigma_x",
    }  # fmt: skip
    assert not {"mu", "sigma"} & set(answer("distributional").draws.values)


def test_draws_before_resampling_have_the_same_form() -> None:
    advice = answer("groups")
    assert list(advice.unresampled.posterior.data_vars) == list(advice.idata.posterior.data_vars)
    assert "log_weight" in advice.unresampled.sample_stats
    posterior = advice.idata.posterior
    assert posterior.attrs["trusted"] == 1 and posterior.attrs["modeling_interface"] == "bambi"


def test_groups_that_are_asked_for() -> None:
    idata = bridge.fit(
        model("normal"), log_likelihood=True, prior=True, draws=400, random_seed=1,
        progressbar=False,
    ).idata  # fmt: skip
    assert np.isfinite(elpd(idata)[0])
    assert idata["prior"]["x"].shape == (1, 400)
    assert idata["prior"].attrs["modeling_interface"] == "bambi"
    with pytest.raises(ValueError, match="log_prior cannot be had in bambi's form"):
        bridge.fit(model("normal"), log_prior=True)


def test_a_prior_is_drawn_without_the_response(caplog: pytest.LogCaptureFixture) -> None:
    """Of counts whose prior means are beyond what NumPy draws; PyMC does not list what it draws."""
    counts = pd.DataFrame({"x": 10 + data()["x"], "count": data()["count"]})
    wide = bmb.Model("count ~ x", counts, family="negativebinomial")
    with caplog.at_level("INFO"):
        prior = bridge.fit(wide, prior=True, random_seed=1, progressbar=False).idata["prior"]
    assert "count" not in prior.data_vars and prior["x"].shape == (1, 4_000)
    assert np.exp(prior["Intercept"]).max() > 1e18
    assert "Sampling" not in caplog.text


def test_bambis_plots_take_it() -> None:
    idata = answer("normal").idata
    bmb.interpret.plot_predictions(model("normal"), idata, "x")
    bmb.interpret.plot_comparisons(
        model("normal"), idata, contrast={"level": ["low", "mid"]}, conditional="x"
    )
    bmb.interpret.plot_slopes(model("normal"), idata, wrt="x", conditional="level")


def logistic_by_hand() -> pm.Model:
    levels = pd.get_dummies(data()["level"], dtype=float)[["low", "mid"]]
    X = np.column_stack([data()["x"], levels])
    priors = model("logistic").components["p"].common_terms
    sds = [priors["x"].prior.args["sigma"], *np.ravel(priors["level"].prior.args["sigma"])]
    intercept = model("logistic").components["p"].intercept_term.prior.args
    with pm.Model() as by_hand:
        a = pm.Normal("a", intercept["mu"], intercept["sigma"])
        b = pm.Normal("b", 0, sds, shape=3)
        pm.Bernoulli("y", logit_p=a + (X - X.mean(0)) @ b, observed=data()["yes"])
    return by_hand


def test_viper_reads_its_logistic_models() -> None:
    found = []
    for each in (as_problem(model("logistic"), None).model, logistic_by_hand()):
        with each:
            found.append(pm.fit(method=px.ViperVI(random_seed=1), progressbar=False))
    bambis, ours = found
    np.testing.assert_allclose(bambis.result.train_elbo, ours.result.train_elbo, rtol=EXACT)
    np.testing.assert_allclose(bambis.mean.eval(), ours.mean.eval(), rtol=1e-6, atol=1e-8)


@SLOW
def test_viper_averages_over_the_scale_of_groups() -> None:
    with as_problem(model("binomial groups"), None).model:
        approx = pm.fit(method=px.ViperVI(random_seed=1), progressbar=False)
    evidence, error = answer("binomial groups").log_evidence
    assert evidence - 2 < approx.result.elbo < evidence + monte_carlo(error)


def test_calibration_takes_it() -> None:
    small = bmb.Model("normal ~ x", data().head(20), priors={"sigma": 1.0})
    found = bridge.calibrate(small, "laplace", simulations=20, random_seed=1)
    assert found.calibrated()


def test_data_are_refused_beside_it() -> None:
    with pytest.raises(ValueError, match="already holds its own"):
        bridge.fit(model("normal"), {"x": [1.0]})


def test_another_form_of_draws_is_refused_before_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model("normal").build()
    backend = type(model("normal").backend)
    monkeypatch.setattr(backend, "_clean_results", lambda self, idata, idata_from: idata)
    with pytest.raises(BambiVersionError, match="got idata, idata_from; install"):
        bridge.fit(model("normal"))


def test_a_family_says_what_to_give_in_its_place() -> None:
    with pytest.raises(TypeError, match=r"got a bambi model: after its build\(\) give its backend"):
        px.fit("laplace", model=model("normal"))


def test_other_classes_are_not_taken_for_it() -> None:
    class Model:
        pass

    class Derived(bmb.Model):
        pass

    assert not is_bambi(Model()) and not is_bambi(None) and not is_bambi(bmb.Prior("Normal"))
    assert is_bambi(model("normal")) and is_bambi(Derived("normal ~ x", data()))


@SLOW
@pytest.mark.parametrize("name", ["logistic", "groups", "distributional"])
def test_agrees_with_nuts(name: str) -> None:
    """Means, and what is predicted of rows left out."""
    ours, nuts = answer(name).idata.copy(), own(name, draws=1000, tune=1000)
    a, b = az.summary(ours), az.summary(nuts)
    off = (a["mean"] - b["mean"]).abs()
    error = np.hypot(b["sd"] / np.sqrt(b["ess_bulk"]), a["sd"] / np.sqrt(a["ess_bulk"]))
    rounding = 1e-3  # of the summary's digits
    assert (off <= monte_carlo(1) * error + rounding).all(), off[off > 3 * error]
    for idata in (ours, nuts):
        model(name).compute_log_likelihood(idata)
    (first, _), (second, se) = elpd(ours), elpd(nuts)
    assert abs(first - second) < 2 * se
    assert abs(first - second) < 0.5  # nats, of the same rows


@SLOW
def test_the_page_runs() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "bambi.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "bambi_page"}
    for number, block in enumerate(
        re.findall(r"^```(?:python|{code-cell} ipython3)\n(.*?)^```", page, flags=re.M | re.S)
    ):
        exec(compile(block, f"docs/bambi.md, block {number}", "exec"), names)
    assert names["advice"].trusted
    viper = bridge.fit(names["logistic"], methods="viper-full", random_seed=1, progressbar=False)
    assert viper.method == "viper-full" and "Intercept" in viper.idata.posterior
