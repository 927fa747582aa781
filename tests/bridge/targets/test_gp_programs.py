"""Stan's Gaussian-process programs, the MCMC baseline of `px.gp`: same density, same posterior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.gp.util import stabilize

import pymc_ext as px
from bridge import pymc_target, stan_target
from bridge.measures.moments import reference_moments
from bridge.targets.agreement import check_agreement
from pymc_ext.arviz_versions import without
from stan_models import StanProgram, nuts, program_path
from tests.tolerances import monte_carlo

pytestmark = pytest.mark.stan

N, NU = 14, 4.0
JITTER = 1e-4  # PyMC adds 1e-12 to squared distances: K's smallest eigenvalues must be above
PRIORS = {"length_scale_shape": 4.0, "length_scale_rate": 4.0, "signal_scale": 2.0}
NOISE_SCALE = 0.5
ROUNDED = 2e-9 * (N + 3)  # PyMC's log(2 pi) is short of digits: 1.9e-9 a normal variable
KINDS = ("logit", "probit", "student-t")


def data(kind: str) -> dict[str, Any]:
    """What the Stan program of this kind reads."""
    rng = np.random.default_rng(5)
    x = np.repeat(np.sort(rng.uniform(-2, 2, size=N // 2)), 2)  # repeats tell noise from signal
    f = 2 * np.sin(2 * x)
    shared = {"N": N, "D": 1, "x": x[:, None], "jitter": JITTER} | PRIORS
    if kind == "student-t":
        y = f + 0.2 * rng.standard_t(NU, size=N)
        return shared | {"y": y, "nu": NU, "noise_scale": NOISE_SCALE}
    y = (f + rng.logistic(size=N) > 0).astype(int)
    return shared | {"y": y, "probit": int(kind == "probit")}


def program(kind: str) -> StanProgram:
    stem = "gp_student_t" if kind == "student-t" else "gp_classification"
    return StanProgram(program_path(stem))


def hyperparameters(kind: str) -> dict[str, Any]:
    """The priors of both programs as PyMC variables."""
    shape, rate = PRIORS["length_scale_shape"], PRIORS["length_scale_rate"]
    out = {
        "length_scale": pm.InverseGamma("length_scale", alpha=shape, beta=rate),
        "signal": pm.HalfNormal("signal", PRIORS["signal_scale"]),
    }
    if kind == "student-t":
        out["noise"] = pm.HalfNormal("noise", NOISE_SCALE)
    return out


def kernel(h: dict[str, Any]) -> Any:
    return h["signal"] ** 2 * pm.gp.cov.Matern52(1, ls=h["length_scale"])


def latent_model(kind: str) -> pm.Model:
    """The same model with its latents, in PyMC alone."""
    d = data(kind)
    with pm.Model() as model:
        h = hyperparameters(kind)
        z = pm.Normal("z", shape=N)
        K = stabilize(kernel(h)(d["x"]), JITTER)
        f = pm.Deterministic("f", pt.linalg.cholesky(K) @ z)
        if kind == "student-t":
            pm.StudentT("y", nu=NU, mu=f, sigma=h["noise"], observed=d["y"])
        elif kind == "probit":
            # Bernoulli(p=invprobit(f)) is -inf where p rounds to 0 or 1, pm.logcdf errs by 1e-8
            p = pt.erfc((1 - 2 * d["y"]) * f / np.sqrt(2)) / 2
            pm.Potential("y", pt.log(p).sum())
        else:
            pm.Bernoulli("y", logit_p=f, observed=d["y"])
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_stan_and_pymc_state_the_same_density(kind: str) -> None:
    stan = stan_target(program(kind).density(data(kind)))
    agreement = check_agreement(stan, pymc_target(latent_model(kind)), n=40)
    assert abs(agreement.constant) < ROUNDED
    assert agreement.deviation < 1e-8


def marginal_model(kind: str) -> tuple[pm.Model, Any]:
    """The same model with its latents integrated out by expectation propagation."""
    d = data(kind)
    with pm.Model() as model:
        h = hyperparameters(kind)
        likelihood = {"logit": px.gp.BernoulliLogit, "probit": px.gp.BernoulliProbit}.get(kind)
        gp = px.gp.Approximate(
            cov_func=kernel(h),
            likelihood=likelihood() if likelihood else px.gp.StudentT(nu=NU, sigma=h["noise"]),
            rule=px.gp.EP(damping=0.5, tolerance=1e-5),
        )
        gp.marginal_likelihood("y", X=d["x"], y=d["y"])
    return model, gp


def moments_by_quadrature(kind: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and sd of the hyperparameters and latents: EP on a grid of log hyperparameters."""
    model, gp = marginal_model(kind)
    graph = gp.graph(model)
    axes = [np.linspace(-2.2, 2.0, 15), np.linspace(-2.5, 2.2, 15), np.linspace(-4.0, 0.6, 13)]
    grid = np.stack(np.meshgrid(*axes[: len(graph.names)], indexing="ij"), axis=-1)
    log_weight, values = [], []
    for theta in grid.reshape(-1, grid.shape[-1]):
        (phi, *prior), log_prior = graph.forward(theta)
        try:
            found = gp.solver.solve(graph.y, phi, tuple(prior))
        except px.gp.ConvergenceError:  # a corner of the grid; mass there would shift the moments
            continue
        post = found.fixed_point.posterior
        log_weight.append(found.value + log_prior + theta.sum())  # log transforms
        values.append((np.exp(theta), post.mean, post.variance))
    w = np.exp(np.array(log_weight) - np.max(log_weight))
    w /= w.sum()
    h, mu, v = (np.array(x) for x in zip(*values, strict=True))
    names = [rv.name for rv in model.free_RVs]
    out = {n: _mean_sd(w, h[:, i], 0.0) for i, n in enumerate(names)}
    return out | {"f": _mean_sd(w, mu, v)}


def _mean_sd(w: np.ndarray, mean: np.ndarray, variance: Any) -> tuple[np.ndarray, np.ndarray]:
    centre = w @ mean
    return np.atleast_1d(centre), np.atleast_1d(np.sqrt(w @ (mean**2 + variance) - centre**2))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ep_and_stan_have_the_same_posterior_moments(kind: str) -> None:
    idata = nuts(program(kind), data(kind), draws=1500, adapt_delta=0.99, random_seed=1)
    assert int(idata.sample_stats["diverging"].sum()) == 0
    table = reference_moments(without(idata, ["z"])["posterior"])
    for name, (mean, sd) in moments_by_quadrature(kind).items():
        stan = table[[label.split("[")[0] == name for label in table.index]]
        own = (0.1 if kind == "student-t" else 0.03) * stan["sd"]  # EP's error
        assert np.all(np.abs(mean - stan["mean"]) < monte_carlo(1) * stan["mean_mcse"] + own)
        assert np.all(np.abs(sd - stan["sd"]) < monte_carlo(1) * stan["sd_mcse"] + own)
