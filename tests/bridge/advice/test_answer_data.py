"""What `bridge.fit` hands back carries on in ArviZ and PyMC, unmodified."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bridge
import pymc_ext as px
from bridge.advice.answer import Advice
from bridge.attempt import Attempt
from bridge.methods.named_draws import NamedDraws
from bridge.targets.draws import group_names
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from stan_models import StanProgram
from tests.needed import needs

ROWS = 60
X = np.linspace(-1, 1, ROWS)
Y = 1 + 2 * X + np.random.default_rng(1).normal(size=ROWS)
PROGRAM = """
data { int N; vector[N] y; }
parameters { real mu; }
model { mu ~ normal(0, 5); y ~ normal(mu, 1); }
generated quantities {
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, 1);
  real twice = 2 * mu;
}
"""


def line() -> pm.Model:
    with pm.Model(coords={"row": np.arange(ROWS) + 100}) as model:
        x = pm.Data("x", X, dims="row")
        slope, sigma = pm.Normal("slope", 0, 5), pm.HalfNormal("sigma", 2)
        mean = pm.Deterministic("mean", 1 + slope * x, dims="row")
        pm.Normal("y", mean, sigma, observed=Y, dims="row")
    return model


@pytest.fixture(scope="module", params=["weights", "chains"])
def advice(request: pytest.FixtureRequest) -> Advice:
    if request.param == "weights":
        return bridge.fit(line(), random_seed=1)
    needs("nutpie")
    return bridge.fit(line(), methods="laplace", khat=0.01, random_seed=1)


def test_the_data_of_a_model_come_with_its_draws(advice) -> None:
    idata = advice.idata
    groups = set(group_names(idata)) - {""}
    assert groups == {"posterior", "sample_stats", "observed_data", "constant_data"}
    assert idata["posterior"]["mean"].dims == ("chain", "draw", "row")
    for group, name, values in (("observed_data", "y", Y), ("constant_data", "x", X)):
        np.testing.assert_array_equal(idata[group][name], values)
        np.testing.assert_array_equal(idata[group]["row"], np.arange(ROWS) + 100)
    np.testing.assert_allclose(
        idata["posterior"]["mean"], 1 + idata["posterior"]["slope"] * idata["constant_data"]["x"]
    )


def test_attributes_say_how_the_draws_came_about(advice) -> None:
    attributes = advice.idata["posterior"].attrs
    assert attributes["trusted"] == 1 and attributes["random_seed"] == 1
    assert attributes["pymc_version"] == pm.__version__
    options = json.loads(attributes["options"])
    assert options["draws"] == 4_000 and options["methods"] in (["hierarchical"], ["laplace"])
    if advice.fit is None:
        assert attributes["method"] == "warm-nuts" and "khat" not in attributes
    else:
        taken = advice.attempts[-1]  # k̂ may be anything where weights hardly differ
        assert attributes["khat"] == taken.khat and taken.good
        assert "algorithm" in json.loads(attributes["method_options"])


def test_evidence_is_told_where_the_answer_is_trusted_alone() -> None:
    """The error of log Z is by what weights reach, and says nothing of what they miss."""
    trusted = bridge.fit(line(), random_seed=1)
    refused = replace(trusted, doubts=("a mode is missed",))
    log_z, error = trusted.log_evidence
    assert f"log evidence: {log_z:.3f} ± {error:.3f}" in trusted.reasons
    assert trusted.idata["posterior"].attrs["log_evidence"] == log_z
    assert refused.log_evidence is None and "log evidence" not in refused.reasons
    attributes = refused.idata["posterior"].attrs
    assert attributes["khat"] == trusted.attempts[-1].khat and attributes["trusted"] == 0
    assert not [name for name in attributes if name.startswith("log_evidence")]


def test_of_several_attempts_by_one_method_it_speaks_of_the_one_that_was_taken() -> None:
    """As of basins, whose last need not be the best."""
    trusted = bridge.fit(line(), random_seed=1)
    worse = replace(trusted.attempts[-1], khat=9.0, log_marginal_is=0.0, checks=())
    later = replace(trusted, attempts=(*trusted.attempts, worse))
    assert later.log_evidence == trusted.log_evidence and later.checks == trusted.checks
    assert later.attributes["khat"] == trusted.attributes["khat"]


def test_printed_it_says_what_was_tried_and_shown_it_is_short(advice) -> None:
    assert str(advice) == advice.reasons
    assert repr(advice) == f"<Advice of {advice.method}, trusted>"


def test_a_notebook_shows_a_table_that_needs_nothing_else() -> None:
    tried = (
        replace(Attempt.without_answer("<b>", "failed: x < 0 & y", 1.25), gradients=1_234),
        replace(Attempt.without_answer("nuts", "ran", 2.0), search_gradients=56),
    )
    found = Advice("nuts", tried, None, NamedDraws({}, {}), doubts=("R̂ > 1.01",))
    shown = found._repr_html_()
    root = ElementTree.fromstring(f"<div>{shown.replace('<br>', '<br/>')}</div>")  # well formed
    rows = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert rows == [
        ["method", "verdict", "gradients", "seconds"],
        ["<b>", "failed: x < 0 & y", "1,234", "1.2"],
        ["nuts", "ran", "– + 56 for missed mass", "2.0"],
    ]
    said = "".join(root.find("p").itertext())
    assert said == "taken: nuts (not trusted)not trusted: R̂ > 1.01"
    assert not {"script", "link", "img", "style"} & {element.tag for element in root.iter()}
    assert found.reasons.endswith("taken: nuts (not trusted)\nnot trusted: R̂ > 1.01")


def test_the_draws_go_on_in_pymc_and_arviz(advice, tmp_path) -> None:
    idata, model = advice.idata.copy(), line()
    with model:
        pm.sample_posterior_predictive(
            idata, extend_inferencedata=True, random_seed=1, progressbar=False
        )
    pm.stats.compute_log_likelihood(idata, model=model, progressbar=False)
    pm.stats.compute_log_prior(idata, model=model, progressbar=False)
    assert idata["posterior_predictive"]["y"].sizes["row"] == ROWS
    loo = az.loo(idata, pointwise=True)
    assert np.isfinite(loo.elpd if hasattr(loo, "elpd") else loo["elpd_loo"])
    idata.to_netcdf(str(tmp_path / "kept.nc"))
    kept = az.from_netcdf(str(tmp_path / "kept.nc"))
    assert set(group_names(kept)) == set(group_names(idata))
    assert kept["posterior"].attrs["reasons"] == advice.reasons
    np.testing.assert_array_equal(kept["observed_data"]["y"], Y)


def test_what_was_resampled_is_kept_apart(advice) -> None:
    """Its weights give the mean that the resampled draws give, up to the noise of both."""
    idata = advice.unresampled
    if advice.fit is None:
        assert idata is None
        return
    assert "lq" not in advice.idata["sample_stats"]  # no weights are to be taken of these again
    stats = idata["sample_stats"]
    weights = np.exp(stats["log_weight"].values.ravel())
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(stats["lq"].values, advice.fit.weighted.lq)
    slopes = idata["posterior"]["slope"].values.ravel()
    assert len(np.unique(slopes)) == slopes.size
    resampled = advice.idata["posterior"]["slope"].values.ravel()
    worth = advice.idata["posterior"].attrs["effective_draws"]
    assert worth == pytest.approx(1 / (weights @ weights))
    error = resampled.std() * np.sqrt(1 / worth + 1 / resampled.size)
    assert abs(weights @ slopes - resampled.mean()) < 4 * error
    if hasattr(az, "loo_approximate_posterior"):
        pm.stats.compute_log_likelihood(idata, model=line(), progressbar=False)
        loo = az.loo_approximate_posterior(idata, log_p=stats["lp"], log_q=stats["lq"])
        assert np.isfinite(loo.elpd)


@pytest.mark.stan
def test_log_lik_of_a_program_is_its_log_likelihood() -> None:
    advice = bridge.fit(PROGRAM, {"N": ROWS, "y": Y}, methods="laplace", random_seed=1)
    idata = advice.idata
    assert "twice" in idata["posterior"] and "log_lik" not in idata["posterior"]
    mu = idata["posterior"]["mu"].values[..., None]
    expected = -0.5 * (Y - mu) ** 2 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(idata["log_likelihood"]["log_lik"], expected, atol=1e-10)
    az.loo(idata)
    assert idata["posterior"].attrs["exact"] == 1
    assert "stan_version" in idata["posterior"].attrs
    assert "log_likelihood" in group_names(advice.unresampled)


def test_what_is_read_is_told_where_no_draws_tell_its_moments() -> None:
    """Weights are judged on log s, which has all moments; s is a half Cauchy, which has none."""
    with pm.Model(coords={"of": ["wide"]}) as model:
        pm.Normal("mu", 0, 1)
        pm.HalfCauchy("s", 1, dims="of")
    advice = bridge.fit(model, random_seed=1)
    assert advice.trusted and advice.method == "hierarchical"
    assert advice.unknown == ("s[wide]",)
    assert "take quantiles: mean and sd of s[wide] (tail k̂ " in advice.reasons
    assert advice.idata["posterior"].attrs["unknown"] == "s[wide]"
    row = advice.summary().loc["s[wide]"]
    assert row[["mean", "sd", "mcse_mean", "mcse_sd"]].isna().all()
    assert row["khat_sd"] == advice.heavy[0].khat == 2 * row["khat_mean"]  # weights hardly differ


@pytest.mark.stan
def test_what_is_said_of_a_program_has_its_own_indices() -> None:
    """From 1, of unconstrained coordinates and of what is read; arrays are indexed from 0."""
    program = """
        parameters { array[2] real<lower=0> s; real<lower=0> tau; array[1] vector[3] x; }
        model { s[1] ~ exponential(1); s[2] ~ cauchy(0, 1); tau ~ exponential(1);
                x[1] ~ normal(0, tau); }
    """
    density = StanProgram(program).density()
    assert density.unconstrained_names == ["s[1]", "s[2]", "tau", "x[1,1]", "x[1,2]", "x[1,3]"]
    advice = bridge.fit(program, random_seed=1)
    assert advice.unknown == ("s[2]",) and "mean and sd of s[2] (tail k̂ " in advice.reasons
    links = Hierarchical().fit(density, random_seed=1).result.links
    assert "tau governs x[1,1] … x[1,3]: slopes" in str(links)
    chains = bridge.fit(program, methods="laplace", khat=1e-9, random_seed=1)
    assert chains.fit is None and "s[2]" in chains.unknown


REPLICATED = Path(__file__).parents[2] / "stan_models/programs/replicated.stan"
DATA = {"N": ROWS, "y": Y}


@pytest.mark.stan
@pytest.mark.parametrize("chains", [False, True])
def test_predictions_of_a_program_go_where_they_are_said_to(chains, tmp_path) -> None:
    khat = 1e-9 if chains else 0.7  # no approximation is that good, so that chains answer
    advice = bridge.fit(
        REPLICATED, DATA, methods="pathfinder", khat=khat, ess=100,
        posterior_predictive=["y_rep"], random_seed=1,
    )  # fmt: skip
    idata = advice.idata
    assert set(idata["posterior"].data_vars) == {"mu", "twice"}
    predicted = idata["posterior_predictive"]["y_rep"]
    assert predicted.shape == (*idata["posterior"]["mu"].shape, ROWS)
    assert abs(float(predicted.mean() - Y.mean())) < 0.2
    assert "log_lik" in idata["log_likelihood"]
    assert idata["posterior"].attrs["method"] == advice.method
    idata.to_netcdf(str(tmp_path / "kept.nc"))
    kept = az.from_netcdf(str(tmp_path / "kept.nc"))
    assert list(kept["posterior_predictive"].data_vars) == ["y_rep"]
    if not chains:
        assert "posterior_predictive" in group_names(advice.unresampled)


@pytest.mark.stan
def test_names_of_predictions_are_not_guessed_and_wrong_ones_are_refused() -> None:
    left = bridge.fit(REPLICATED, DATA, methods="laplace", random_seed=1).idata
    assert "y_rep" in left["posterior"] and "posterior_predictive" not in group_names(left)
    for wrong in ("mu", "log_lik", "y_hat"):
        message = rf"got \['{wrong}'\]; it generates \['y_rep', 'twice'\]"
        with pytest.raises(ValueError, match=message):
            bridge.fit(REPLICATED, DATA, posterior_predictive=wrong)
    for none in (True, ["y_rep", 1]):
        with pytest.raises(TypeError, match="names in the Stan program, such as 'y_rep'"):
            bridge.fit(REPLICATED, DATA, posterior_predictive=none)


@pytest.mark.stan
@pytest.mark.filterwarnings("ignore::matplotlib.MatplotlibDeprecationWarning")  # of ArviZ 0.23
@pytest.mark.parametrize("kept", ["mapping", "file"])
def test_data_of_a_program_go_where_they_are_said_to(kept, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    data = {"N": ROWS, "y": Y, "not of the program": 1.0}
    if kept == "file":
        (tmp_path / "data.json").write_text(json.dumps({**data, "y": Y.tolist()}))
    advice = bridge.fit(
        REPLICATED, data if kept == "mapping" else tmp_path / "data.json", methods="laplace",
        posterior_predictive="y_rep", observed_data=["y"], random_seed=1,
    )  # fmt: skip
    idata = advice.idata
    np.testing.assert_array_equal(idata["observed_data"]["y"], Y)
    assert idata["observed_data"]["y"].dims == ("y_dim_0",)
    assert list(idata["constant_data"].data_vars) == ["N"]
    assert idata["constant_data"]["N"].item() == ROWS
    assert idata["constant_data"]["N"].dtype.kind == "i"
    assert "observed_data" in group_names(advice.unresampled)
    idata.to_netcdf(str(tmp_path / "kept.nc"))
    read = az.from_netcdf(str(tmp_path / "kept.nc"))
    np.testing.assert_array_equal(read["observed_data"]["y"], Y)
    if hasattr(az, "plot_ppc"):
        az.plot_ppc(read, data_pairs={"y": "y_rep"}, num_pp_samples=5)
        plt.close("all")
    else:  # ArviZ 1 pairs what has one name
        predicted = (
            read["posterior_predictive"].to_dataset().rename(y_rep="y", y_rep_dim_0="y_dim_0")
        )
        read["posterior_predictive"] = xr.DataTree(predicted)
        az.plot_ppc_dist(read, num_samples=5, backend="none")


@pytest.mark.stan
def test_which_data_are_observed_is_not_guessed_and_wrong_names_are_refused() -> None:
    alone = bridge.fit(REPLICATED, DATA, methods="laplace", random_seed=1).idata
    assert not {"observed_data", "constant_data"} & set(group_names(alone))
    message = r"got \['yy'\]; it has \['N', 'y'\]; did you mean y\?"
    with pytest.raises(ValueError, match="observed_data must name .*" + message):
        bridge.fit(REPLICATED, DATA, observed_data="yy")
    with pytest.raises(ValueError, match=r"and a model whose own data come with its draws"):
        bridge.fit(line(), observed_data=["y"])
    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    with pytest.raises(ValueError, match=r"got .'y'. and a density, which holds none"):
        bridge.fit(density, observed_data=["y"])


@pytest.mark.stan
def test_predictions_by_the_names_of_data_have_their_shapes() -> None:
    with pytest.raises(ValueError, match=r"of y, which has shape \(60,\), got twice of shape \(\)"):
        bridge.fit(REPLICATED, DATA, posterior_predictive={"y": "twice"})


def test_who_predicts_otherwise_is_told_how() -> None:
    with pytest.raises(ValueError, match=r"a PyMC model: call pm.sample_posterior_predictive"):
        bridge.fit(line(), posterior_predictive=["y"])
    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    with pytest.raises(ValueError, match="a density, which generates none"):
        bridge.fit(density, posterior_predictive=["y"])
