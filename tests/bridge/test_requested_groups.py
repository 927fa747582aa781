"""Groups on request: log_likelihood, log_prior, prior; predictions by the names of the data."""

from __future__ import annotations

from typing import Any

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import bridge
import pymc_ext as px
from bridge.targets.draws import group_names
from tests.bridge.test_elpd import elpd
from tests.tolerances import monte_carlo

Y = np.array([1.2, -0.7, 3.1, 0.4])
PROGRAM = """
data { int<lower=0> N; vector[N] y; }
parameters { real mu; real<lower=0> sigma; }
model { mu ~ normal(0, 5); sigma ~ normal(0, 5); y ~ normal(mu, sigma); }
generated quantities {
  real mu_prior = normal_rng(0, 5);
  real lprior = normal_lpdf(mu | 0, 5);
  array[N] real y_rep = normal_rng(rep_vector(mu, N), sigma);
  vector[N] log_lik;
  for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu, sigma);
}
"""
DATA = {"N": len(Y), "y": Y}
BARE = "parameters { real x; } model { x ~ normal(0, 1); }"


def line() -> pm.Model:
    with pm.Model(coords={"row": np.arange(4) + 100}) as model:
        mu = pm.Normal("mu", 0, 5)
        sigma = pm.HalfNormal("sigma", 5)
        mean = pm.Deterministic("mean", mu + np.zeros(4), dims="row")
        pm.Normal("y", mean, sigma, observed=Y, dims="row")
    return model


def require_all(idata: Any, draws: int) -> None:
    """The three groups; the prior's are draws of it."""
    assert {"log_likelihood", "log_prior", "prior"} <= set(group_names(idata))
    mu, sigma = (idata["posterior"][name].values for name in ("mu", "sigma"))
    expected = stats.norm(mu[..., None], sigma[..., None]).logpdf(Y)
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values, expected, rtol=1e-7)
    np.testing.assert_allclose(
        idata["log_prior"]["mu"].values, stats.norm(0, 5).logpdf(mu), rtol=1e-7
    )
    prior = idata["prior"]
    assert set(prior.data_vars) == {"mu", "sigma", "mean"} and prior["mean"].dims[2] == "row"
    assert prior["mu"].shape == (1, draws)
    assert stats.kstest(prior["mu"].values.ravel(), stats.norm(0, 5).cdf).pvalue > 1e-3
    assert stats.kstest(prior["sigma"].values.ravel() / 5, stats.halfnorm.cdf).pvalue > 1e-3


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # of four rows
def test_a_model_has_them_in_bridge_fit(tmp_path: Any) -> None:
    advice = bridge.fit(
        line(), log_likelihood=True, log_prior=True, prior=True, random_seed=1, progressbar=False
    )
    require_all(advice.idata, 4_000)
    assert advice.unresampled is not None
    require_all(advice.unresampled, 4_000)
    assert np.isfinite(elpd(advice.idata)[0])
    advice.idata.to_netcdf(str(tmp_path / "kept.nc"))
    kept = az.from_netcdf(str(tmp_path / "kept.nc"))
    assert set(group_names(kept)) == set(group_names(advice.idata))


def test_a_family_has_them() -> None:
    asked = {"log_likelihood": True, "log_prior": True, "prior": True}
    idata = px.fit("laplace", model=line(), random_seed=1, progressbar=False, **asked)
    require_all(idata, 1_000)
    assert idata["posterior"].attrs["verdict"].endswith("q itself are not corrected by weights")
    with line():
        approx = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
    first, again = (approx.sample(50, chains=2, prior=True, random_seed=3) for _ in range(2))
    assert first["prior"]["mu"].shape == (1, 100)
    np.testing.assert_array_equal(first["prior"]["mu"], again["prior"]["mu"])
    without = approx.sample(50, chains=2, random_seed=3)
    np.testing.assert_array_equal(without["posterior"]["mu"], first["posterior"]["mu"])
    assert "prior" not in group_names(without)


@pytest.mark.filterwarnings("ignore:Numba will use object mode")  # PyMC 6, of the CustomDist
def test_a_prior_without_draws_is_refused_before_any_fit(monkeypatch: Any) -> None:
    monkeypatch.setattr(
        "bridge.advice.search.Search.attempt", lambda *_: pytest.fail("it was fitted")
    )
    with pm.Model() as flat:
        pm.Normal("y", pm.Flat("level"), 1, observed=Y)
    with pytest.raises(ValueError, match=r"\['level'\] are pm.Flat .*leave out prior=True"):
        bridge.fit(flat, prior=True)
    with pm.Model() as custom:
        pm.Normal("y", pm.CustomDist("level", logp=lambda v: -(v**2)), 1, observed=Y)
    with pytest.raises(ValueError, match=r"'CustomDist_level'.* not been .*leave out prior"):
        bridge.fit(custom, prior=True)
    if int(pm.__version__.partition(".")[0]) < 6:  # numba's draws wrap around instead
        with pm.Model() as wide:
            count = pm.Poisson("count", pm.LogNormal("rate", 0, 50))
            pm.Normal("y", count, 1, observed=Y)
        with pytest.raises(ValueError, match=r"lam value too large, of some .*leave out prior"):
            bridge.fit(wide, prior=True)
    with line() as potential:
        pm.Potential("more", -(potential["mu"] ** 2))
    with pytest.raises(ValueError, match=r"ignore the model's potentials \['more'\]"):
        bridge.fit(potential, prior=True)
    with pm.Model() as unobserved:
        pm.Normal("x")
    with pytest.raises(ValueError, match="log_likelihood needs observed variables"):
        bridge.fit(unobserved, log_likelihood=True)
    density = px.CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=2)
    with pytest.raises(ValueError, match="log_prior, prior cannot be had of a density"):
        bridge.fit(density, log_prior=True, prior=True)
    with pytest.raises(ValueError, match="names generated quantities of a Stan program"):
        bridge.fit(line(), prior={"mu": "mu_prior"})


@pytest.mark.stan
def test_a_program_has_what_it_generates(monkeypatch: Any) -> None:
    idata = bridge.fit(
        PROGRAM, DATA, log_likelihood=True, log_prior=True, prior={"mu": "mu_prior"},
        random_seed=1, progressbar=False,
    ).idata  # fmt: skip
    mu = idata["posterior"]["mu"].values
    np.testing.assert_allclose(idata["log_prior"]["lprior"], stats.norm(0, 5).logpdf(mu))
    assert idata["log_likelihood"]["log_lik"].shape == (*mu.shape, len(Y))
    assert set(idata["posterior"].data_vars) == {"mu", "sigma", "y_rep"}
    assert abs(idata["prior"]["mu"].values.std() - 5) < monte_carlo(5 / np.sqrt(2 * mu.size))


@pytest.mark.stan
def test_a_program_that_generates_none_is_refused() -> None:
    for asked, sentence in (
        ({"prior": True}, r"mu_prior = normal_rng.* name it: prior=\{'mu': 'mu_prior'\}"),
        ({"log_likelihood": True}, r"log_lik .* generates \[\]: add vector\[N\] log_lik"),
        ({"log_prior": True}, r"lprior .* generates \[\]: add real lprior"),
        ({"prior": {"x": "x_prior"}}, r"prior must name .* got \['x_prior'\]; it generates \[\]"),
    ):
        with pytest.raises(ValueError, match=sentence):
            bridge.fit(BARE, **asked)
    with pytest.raises(ValueError, match=r"got \{'q': 'mu_prior'\} and no \['q'\]; it has \['mu'"):
        bridge.fit(PROGRAM, DATA, prior={"q": "mu_prior"})
    with pytest.raises(ValueError, match=r"draws of mu, which has shape \(\), got y_rep of shape"):
        bridge.fit(PROGRAM, DATA, prior={"mu": "y_rep"})


@pytest.mark.stan
@pytest.mark.filterwarnings("ignore::matplotlib.MatplotlibDeprecationWarning")  # of ArviZ 0.23
def test_predictions_by_the_names_of_data_are_plotted_as_they_are(monkeypatch: Any) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    idata = bridge.fit(
        PROGRAM, DATA, posterior_predictive={"y": "y_rep"}, random_seed=1, progressbar=False
    ).idata
    predicted, observed = idata["posterior_predictive"]["y"], idata["observed_data"]["y"]
    assert predicted.dims == ("chain", "draw", *observed.dims)
    assert predicted.shape[2:] == observed.shape
    np.testing.assert_array_equal(observed, Y)
    assert list(idata["constant_data"].data_vars) == ["N"]
    if hasattr(az, "plot_ppc"):
        az.plot_ppc(idata, num_pp_samples=5)
        plt.close("all")
    else:
        az.plot_ppc_dist(idata, num_samples=5, backend="none")


@pytest.mark.stan
def test_names_of_data_that_there_are_not_are_refused() -> None:
    with pytest.raises(ValueError, match=r"by the names of data.*got \['z'\]; it has \['N', 'y'\]"):
        bridge.fit(PROGRAM, DATA, posterior_predictive={"z": "y_rep"})
    with pytest.raises(ValueError, match="each generated quantity once"):
        bridge.fit(PROGRAM, DATA, posterior_predictive={"y": "y_rep", "N": "y_rep"})
