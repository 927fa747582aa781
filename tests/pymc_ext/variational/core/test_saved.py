"""Fitted q's in files, as laws without PyMC, and as priors of the next data."""

from __future__ import annotations

import functools
import json
import logging
import subprocess
import sys

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_ext as px
from posteriordb_cases.zoo import ZOO
from pymc_ext.variational.core.defensive import DefensiveMixture
from pymc_ext.variational.core.saved.file import HEADER, VERSION
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from tests.tolerances import EXACT

GROUP = np.arange(24) % 6
Y = np.random.default_rng(1).normal(1.0, 1.0, 24) + np.linspace(-1, 1, 6)[GROUP]


def hierarchy(groups=range(6)):
    with pm.Model(coords={"group": groups}) as model:
        mu = pm.Normal("mu", 0, 3)
        tau = pm.HalfNormal("tau", 1)
        theta = pm.Normal("theta", mu, tau, dims="group")
        pm.Normal("y", theta[GROUP], 1.0, observed=Y)
    return model


def flow(**shape):
    own = px.FlowShape(5, (4,), **shape)
    return px.BernsteinVI(own, base="identity", polish=None, random_seed=1)


FAMILIES = {
    "batch-match": lambda: px.BatchMatchVI(random_seed=1),
    "low rank": lambda: px.BatchMatchVI(rank=2, random_seed=1),
    "hierarchical": lambda: px.HierarchicalVI(random_seed=1),
    "basins": lambda: px.BasinsVI(random_seed=1),
    "diagonal": lambda: px.MonteCarloVI("diagonal", random_seed=1),
    "full": lambda: px.MonteCarloVI(random_seed=1),
    "flow": flow,
    "flow, student-t": lambda: flow(latent="student-t", tails="linear"),
    "flow, f3": lambda: flow(input_map="f3"),
}


@functools.cache  # a fit is not changed by what is asked of it here
def fitted(name):
    with hierarchy():
        return pm.fit(60, method=FAMILIES[name](), progressbar=False)


# ---- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FAMILIES))
def test_what_is_loaded_is_what_was_saved(name, tmp_path):
    approx = fitted(name)
    path = approx.save(tmp_path / "q.npz")
    law = px.load(path)
    theta, log_q = approx.q.forward(
        np.random.default_rng(3).standard_normal((7, approx.q.latent_dimension))
    )
    np.testing.assert_array_equal(law.rvs(7, random_state=3), theta)
    np.testing.assert_allclose(law.logpdf(theta), log_q, rtol=1e-8, atol=1e-8)
    assert law.names == tuple(approx.density.unconstrained_names) and law.dim == 8
    assert law.notes["khat"] == approx.result.fresh.khat and law.notes["verdict"]
    np.testing.assert_allclose(law.by_variable(theta)["theta"], theta[:, 2:], rtol=EXACT)
    again = px.load(px.save(tmp_path / "again.npz", law))
    np.testing.assert_array_equal(again.rvs(7, random_state=3), theta)
    assert again.variables == law.variables and len(list(tmp_path.iterdir())) == 2


def test_a_loaded_q_is_an_approximation_of_its_model(tmp_path):
    approx = fitted("hierarchical")
    path = approx.save(tmp_path / "q.npz")
    again = px.load(path, model=hierarchy())
    ours, theirs = (a.sample(50, random_seed=2).posterior["theta"] for a in (again, approx))
    np.testing.assert_array_equal(ours.values, theirs.values)
    assert ours.dims == ("chain", "draw", "group")
    assert again.evaluate(random_seed=1).elbo == approx.evaluate(random_seed=1).elbo


def test_the_proposal_beside_q_is_kept(tmp_path):
    approx = fitted("batch-match")
    directions = np.eye(8)[:2]
    approx = px.load(approx.save(tmp_path / "q.npz"), model=hierarchy())
    assert (approx.proposal is None) == (fitted("batch-match").proposal is None)
    approx.proposal = DefensiveMixture(approx.q, directions, tails_alone=True)
    path = approx.save(tmp_path / "both.npz")
    with np.load(path) as stored:
        assert len(stored.files) == 4  # the header, q's two arrays once, and directions
    law = px.load(path)
    again = px.load(px.save(tmp_path / "again.npz", law), model=hierarchy())
    assert again.proposal.tails_alone
    z = np.random.default_rng(3).standard_normal((7, 10))
    for ours, theirs in zip(again.proposal.forward(z), approx.proposal.forward(z), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    ours, theirs = (a.weighted_draws(9, random_seed=1)[0] for a in (again, approx))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["flow", "flow, student-t", "flow, f3", "batch-match", "full"])
@pytest.mark.parametrize("far", [1e8, 1e200, np.inf, -np.inf])
def test_there_is_no_density_beyond_numbers(name, far, tmp_path):
    law = px.load(fitted(name).save(tmp_path / "q.npz"))
    points = np.stack([np.full(8, far), law.mean()])
    beyond, inside = law.logpdf(points)
    assert beyond < -300 and np.isfinite(inside)
    np.testing.assert_allclose(law.logpdf(points[0]), beyond, rtol=EXACT)
    assert law.pdf(points[0]) == 0


def test_a_law_without_its_model_says_how_it_gets_it(tmp_path):
    law = px.load(fitted("batch-match").save(tmp_path / "q.npz"))
    for call in (px.sample, px.diagnose):
        with pytest.raises(TypeError, match=r"got SavedPosterior: px\.load\(path, model=model\)"):
            call(law)
    with pytest.raises(TypeError, match=r"got NoneType: .*where bridge\.fit gave None its reasons"):
        px.save(tmp_path / "none.npz", None)


def test_a_law_of_any_density_is_kept_with_names(tmp_path):
    fit = BatchMatch().fit(ZOO["singular-10"].make(), random_seed=1)
    names = [f"x{i}" for i in range(fit.q.dimension)]
    law = px.load(px.save(tmp_path / "q.npz", fit.q, names=names))
    assert law.q == fit.q and law.names == tuple(names) and not law.variables
    np.testing.assert_allclose(law.mean(), fit.q.mean)
    np.testing.assert_allclose(law.cov(), fit.q.cov)
    np.testing.assert_allclose(law.pdf(law.mean()), np.exp(fit.q.log_density(law.mean()[None])[0]))
    with pytest.raises(ValueError, match=r"coordinates, got 1 names"):
        px.save(tmp_path / "q.npz", fit.q, names=["x"])
    with pytest.raises(ValueError, match="of no model"):
        law.by_variable(law.mean())


def test_a_law_needs_neither_pymc_nor_pytensor(tmp_path):
    path = fitted("hierarchical").save(tmp_path / "q.npz")
    code = (
        "import sys, pymc_ext as px\n"
        f"law = px.load({str(path)!r})\n"
        "law.logpdf(law.rvs(3, random_state=1))\n"
        "assert not {'pymc', 'pytensor'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_no_such_file_is_said(tmp_path):
    path = fitted("batch-match").save(tmp_path / "q.npz")
    damaged = tmp_path / "damaged.npz"
    with pytest.raises(
        FileNotFoundError, match=r"no file .*nowhere\.npz: give the path that approx"
    ):
        px.load(tmp_path / "nowhere.npz")

    def rewritten(change):
        with np.load(path) as stored:
            arrays = dict(stored)
        header = json.loads(str(arrays.pop(HEADER)))
        change(header, arrays)
        np.savez(damaged, **{HEADER: np.array(json.dumps(header))}, **arrays)

    with pytest.raises(FileNotFoundError, match=r"nothing\.npz"):
        px.load(tmp_path / "nothing.npz")
    with pytest.raises(FileNotFoundError, match="create its folder"):
        fitted("batch-match").save(tmp_path / "nowhere" / "q.npz")
    damaged.write_bytes(path.read_bytes()[:200])
    with pytest.raises(px.FileError, match=r"no file that approx\.save wrote, or is damaged"):
        px.load(damaged)
    damaged.write_text("mu,tau\n1,2\n")
    with pytest.raises(px.FileError, match=r"no file that approx\.save wrote"):
        px.load(damaged)
    others = {"x": np.ones(3)}, {HEADER: np.array("{}")}, {HEADER: np.array(3)}
    for arrays in others:
        np.savez(damaged, **arrays)
        sentence = (
            rf"no file that approx\.save wrote, but one of the arrays \['{next(iter(arrays))}'"
        )
        with pytest.raises(px.FileError, match=sentence):
            px.load(damaged)
    np.savez(damaged, x=np.array([{"a": 1}], dtype=object))  # pickled: never read
    with pytest.raises(px.FileError, match=r"no file that approx\.save wrote"):
        px.load(damaged)
    rewritten(lambda header, arrays: header.update(version=VERSION + 1))
    with pytest.raises(px.FileError, match=rf"of version {VERSION + 1}, and this release reads"):
        px.load(damaged)
    rewritten(lambda header, arrays: arrays.pop("array_0"))
    with pytest.raises(px.FileError, match=r"damaged: KeyError\('array_0'\)"):
        px.load(damaged)
    rewritten(lambda header, arrays: header["q"].update({"class": "os.system"}))
    with pytest.raises(px.FileError, match="damaged"):
        px.load(damaged)
    rewritten(lambda header, arrays: header["q"]["parts"].pop("mean"))
    with pytest.raises(px.FileError, match="damaged: no Gaussian of"):
        px.load(damaged)
    for text in ("", "mu"):
        damaged.write_text(text)
        with pytest.raises(px.FileError, match=r"; give the path that .*, or fit and save again"):
            px.load(damaged)
    rewritten(lambda header, arrays: header.pop("q"))
    with pytest.raises(px.FileError, match="damaged: it has no q; fit and save again"):
        px.load(damaged)
    rewritten(lambda header, arrays: arrays["array_0"].fill(np.nan))
    with pytest.raises(px.FileError, match="damaged: draws of q are NaN"):
        px.load(damaged)
    rewritten(lambda header, arrays: arrays.update(array_1=arrays["array_1"][:5, :5]))
    with pytest.raises(px.FileError, match="damaged: q makes no draws"):
        px.load(damaged)
    rewritten(lambda header, arrays: arrays.update(array_0=arrays["array_0"][:1]))
    with pytest.raises(px.FileError, match="damaged: "):
        px.load(damaged)
    small = Gaussian(np.zeros(2), np.eye(2))
    px.save(
        damaged,
        px.SavedPosterior(
            Gaussian(np.zeros(3), np.eye(3)),
            ("a", "b", "c"),
            proposal=DefensiveMixture(small, small.root),
        ),
    )
    with pytest.raises(px.FileError, match="q has 3 scalars, its proposal 2"):
        px.load(damaged)
    rewritten(lambda header, arrays: header["variables"].pop())
    with pytest.raises(px.FileError, match=r"damaged: q has 8 scalars"):
        px.load(damaged)


def test_no_bit_that_is_flipped_ends_otherwise_or_changes_the_law(tmp_path):
    path, damaged = fitted("diagonal").save(tmp_path / "q.npz"), tmp_path / "damaged.npz"
    law, whole = px.load(path), path.read_bytes()
    rng = np.random.default_rng(1)
    directory = range(whole.index(b"PK\x01\x02"), len(whole))
    somewhere = [(place, rng.integers(8)) for place in rng.integers(len(whole), size=1000)]
    for place, bit in [*somewhere, *((place, bit) for place in directory for bit in range(8))]:
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        damaged.write_bytes(bytes(changed))
        try:
            found = px.load(damaged)
        except px.FileError:
            continue
        np.testing.assert_array_equal(found.rvs(2, random_state=1), law.rvs(2, random_state=1))
        assert found.names == law.names and found.notes == law.notes


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_said(path):
    approx = fitted("batch-match")
    for call in (approx.save, px.load, lambda path: px.save(path, approx.q)):
        with pytest.raises(TypeError, match=f"path must be a text or .* got {path}: give the"):
            call(path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="it is a folder; name a file in it"):
        fitted("batch-match").save(tmp_path)
    with pytest.raises(
        FileNotFoundError, match="is a folder and no file: give the path that approx"
    ):
        px.load(tmp_path)


def test_what_is_no_law_is_not_saved(tmp_path):
    for q in (3, fitted("batch-match")):
        with pytest.raises(TypeError, match=f"got {type(q).__name__}: of what pm.fit gave call"):
            px.save(tmp_path / "q.npz", q)


def test_another_model_is_refused_with_what_differs(tmp_path):
    path = fitted("batch-match").save(tmp_path / "q.npz")
    with pm.Model() as other:
        mu = pm.Normal("mu", 0, 3)
        pm.Normal("theta", mu, pm.HalfNormal("tau", 1), shape=5)
    with pytest.raises(ValueError, match=r"another model.*'theta': \(6,\).*\['theta'\] differ"):
        px.load(path, model=other)


def test_labels_in_another_order_are_refused(tmp_path):
    """Else the first group would have the effect of the last."""
    path = fitted("batch-match").save(tmp_path / "q.npz")
    with pytest.raises(ValueError, match=r"coordinate 2 is theta\[0\], this model's is theta\[5\]"):
        px.load(path, model=hierarchy(range(5, -1, -1)))


def test_a_q_of_ones_own_is_not_kept(tmp_path):
    class Mine:
        dimension = latent_dimension = 1

        def forward(self, z):
            return z, z[:, 0]

    with pytest.raises(px.NotKeptError, match="a Mine cannot be kept"):
        px.save(tmp_path / "q.npz", Mine())
    assert list(tmp_path.iterdir()) == []


def test_hyperparameters_have_no_law(tmp_path):
    with pm.Model():
        pm.Normal("x", 0, pm.HalfNormal("sd"))
        pm.Normal("y", 0, 1)
        approx = pm.fit(
            method=px.LaplaceVI(hyperparameters=["sd"], start={"sd": 1.0}), n=1, progressbar=False
        )
    with pytest.raises(ValueError, match=r"given the hyperparameters \['sd'\]"):
        approx.save(tmp_path / "q.npz")


@pytest.mark.parametrize("x", [np.zeros(7), 0.0, np.full(8, np.nan)])
def test_points_that_are_none_are_refused(x, tmp_path):
    law = px.load(fitted("batch-match").save(tmp_path / "q.npz"))
    with pytest.raises(ValueError, match="x must"):
        law.logpdf(x)


# ---- priors ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", ["a", -1, 1.5])
def test_what_is_no_seed_is_refused(seed, tmp_path):
    law = px.load(fitted("batch-match").save(tmp_path / "q.npz"))
    with pytest.raises(TypeError, match=f"random_state must be None, .*, got {seed!r}"):
        law.rvs(2, random_state=seed)


def far_from_yesterday(y: float):
    """Yesterday an sd of .1 about zero, today a row at y."""
    with pm.Model():
        pm.Normal("y", pm.Normal("mu", 0, 10), 0.1, observed=[0.0])
        monday = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    with pm.Model():
        prior = px.prior_from(monday, "monday")
        pm.Normal("y", prior["mu"], 0.1, observed=[y])
        return pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)


def test_a_posterior_in_the_far_tails_of_yesterdays_law_is_named():
    """Half way between both, that is at z = 5 and at z = 1."""
    found = px.diagnose(far_from_yesterday(1.0), random_seed=1)
    assert found.trusted and found.beyond == {"monday_z[0]": pytest.approx(5, abs=0.05)}
    assert "prior: monday_z[0] has a mean of 5, beyond 3 sds of the earlier fit" in str(found)
    found = px.diagnose(far_from_yesterday(0.2), random_seed=1)
    assert not found.beyond and "prior:" not in str(found)


def test_jax_refuses_a_prior_that_it_cannot_trace_at_once():
    law = fitted("hierarchical").as_law()
    for q, refused in ((law, True), (fitted("batch-match").as_law(), False)):
        with pm.Model():
            px.prior_from(q, "old")
            if not refused:
                px.BernsteinVI(backend="jax")
                continue
            with pytest.raises(ValueError, match=r"behind 'old_z' is a HierarchicalMap.*leave out"):
                px.BernsteinVI(backend="jax")


def test_two_days_of_a_conjugate_model_are_one():
    """N(0, 2²) mean of N(μ, 1) data: the posterior of both days is that of all data."""
    monday, tuesday = np.random.default_rng(2).normal(1.5, 1, (2, 12))
    with pm.Model():
        pm.Normal("y", pm.Normal("mu", 0, 2), 1, observed=monday)
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    with pm.Model():
        prior = px.prior_from(approx, "monday")
        pm.Normal("y", prior["mu"], 1, observed=tuesday)
        second = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    precision = 1 / 4 + 24
    mean = (monday.sum() + tuesday.sum()) / precision
    draws = second.sample(4000, random_seed=1).posterior["monday_mu"].values
    first = approx.q
    np.testing.assert_allclose(first.mean + first.root @ second.q.mean, [mean], rtol=1e-6)
    assert abs(draws.mean() - mean) < 4 * precision**-0.5 / np.sqrt(4000)
    assert abs(draws.std() * precision**0.5 - 1) < 4 / np.sqrt(8000)


def test_two_days_of_a_hierarchy_are_one(tmp_path):
    """Against the fit of both days at once, which shares nothing with the files."""
    rng = np.random.default_rng(3)
    theta = rng.normal(1.0, 0.8, 12)
    days = rng.normal(theta, 0.5, (6, 12))

    def of(rows):
        mu, tau = pm.Normal("mu", 0, 3), pm.HalfNormal("tau", 1)
        pm.Normal("y", pm.Normal("theta", mu, tau, shape=12), 0.5, observed=rows)

    def moments(approx, names):
        theta, lp, lq = approx.weighted_draws(8000, random_seed=5)
        w = np.exp(lp - lq - np.max(lp - lq))
        w /= w.sum()
        values = approx.constrain(theta)
        rows = np.column_stack([values[name].reshape(len(w), -1) for name in names])
        mean = w @ rows
        return mean, np.sqrt(w @ (rows - mean) ** 2)

    with pm.Model():
        of(days)
        joint = pm.fit(method=px.HierarchicalVI(random_seed=1), progressbar=False)
    with pm.Model():
        of(days[:3])
        path = pm.fit(method=px.HierarchicalVI(random_seed=2), progressbar=False).save(
            tmp_path / "monday.npz"
        )
    with pm.Model():
        prior = px.prior_from(px.load(path), "monday")
        pm.Normal("y", prior["theta"], 0.5, observed=days[3:])
        second = pm.fit(method=px.HierarchicalVI(random_seed=3), progressbar=False)
    mean, sd = moments(joint, ["mu", "tau", "theta"])
    found, sds = moments(second, ["monday_mu", "monday_tau", "monday_theta"])
    # weights worth some thousand draws: .1 sds are three standard errors and more
    assert np.abs((found - mean) / sd).max() < 0.1
    np.testing.assert_allclose(sds, sd, rtol=0.1)


@pytest.mark.parametrize("name", ["batch-match", "low rank", "diagonal", "hierarchical", "flow"])
def test_the_prior_is_q_with_its_gradient(name):
    approx = fitted(name)
    with pm.Model() as model:
        prior = px.prior_from(approx, "old", constrained=False)
        centre = np.arange(6.0)
        pm.Potential("pull", -0.5 * ((prior["theta"] - centre) ** 2).sum() + prior["mu"])
    z = np.random.default_rng(4).standard_normal((1, 8))
    theta = approx.q.forward(z)[0][0]
    logp, slope = model.compile_logp(), model.compile_dlogp()
    expected = -0.5 * (z**2).sum() - 4 * np.log(2 * np.pi)
    expected += -0.5 * ((theta[2:] - centre) ** 2).sum() + theta[0]
    np.testing.assert_allclose(logp({"old_z": z[0]}), expected, rtol=1e-10)
    h = 1e-5
    numeric = [
        (logp({"old_z": z[0] + e}) - logp({"old_z": z[0] - e})) / (2 * h) for e in h * np.eye(8)
    ]
    np.testing.assert_allclose(slope({"old_z": z[0]}), numeric, rtol=1e-5, atol=1e-6)
    many = np.random.default_rng(5).standard_normal((4, 8))  # all in one call
    values, scores = px.PyMCDensity(model).log_density_gradient(many)
    np.testing.assert_allclose(values, [logp({"old_z": row}) for row in many], rtol=1e-10)
    np.testing.assert_allclose(scores, [slope({"old_z": row}) for row in many], rtol=1e-8)


def test_every_transform_that_a_file_keeps_is_the_models(tmp_path):
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        pm.HalfNormal("half", shape=2)
        pm.Beta("share", 2, 2)
        pm.Uniform("between", [-2.0, 0.0], [5.0, 1.0])
        pm.TruncatedNormal("above", 0, 1, lower=-1)
        pm.TruncatedNormal("below", 0, 1, upper=3)
        pm.Dirichlet("shares", np.ones(4))
        pm.Normal("rising", 0, 1, shape=3, transform=ordered, initval=[-1, 0, 1])
        pm.ZeroSumNormal("zero", shape=4)
        approx = pm.fit(40, method=px.BatchMatchVI(random_seed=1), progressbar=False)
    law = px.load(approx.save(tmp_path / "q.npz"))
    z = np.random.default_rng(5).standard_normal((1, law.dim))
    expected = approx.constrain(approx.q.forward(z)[0])
    with pm.Model() as new:
        prior = px.prior_from(law, "old")
    found = new.compile_fn(list(prior.values()), inputs=[new["old_z"]], point_fn=False)(z[0])
    assert list(prior) == [rv.name for rv in model.free_RVs]
    for own, value in zip(prior, found, strict=True):
        np.testing.assert_allclose(value, expected[own][0], rtol=1e-10, atol=1e-12, err_msg=own)


def test_a_transform_of_other_variables_is_not_kept():
    with pm.Model():
        top = pm.HalfNormal("top")
        pm.Uniform("x", 0, top)
        approx = pm.fit(40, method=px.BatchMatchVI(random_seed=1), progressbar=False)
    with pm.Model():
        with pytest.raises(ValueError, match=r"interval of other variables.* of x depends"):
            px.prior_from(approx, "old")
    with pm.Model():
        assert set(px.prior_from(approx, "old", constrained=False)) == {"top", "x"}


def test_what_is_no_prior_is_refused():
    approx = fitted("batch-match")
    without_a_gradient = [fitted(name) for name in ("basins", "flow, student-t")]
    law = px.SavedPosterior(DiagonalGaussian(np.zeros(1), np.ones(1)), ("a",))
    with pm.Model():
        with pytest.raises(ValueError, match=r"unknown variables \['tua'\]: the fit has"):
            px.prior_from(approx, "old", variables=["tua"])
        with pytest.raises(TypeError, match=r"list of names, got 'mu': write \['mu'\]"):
            px.prior_from(approx, "old", variables="mu")
        for name in ("", 3):
            with pytest.raises(TypeError, match=f"name must be a text .*, got {name!r}"):
                px.prior_from(approx, name)
        with pytest.raises(ValueError, match="of no model"):
            px.prior_from(law, "old")
        with pytest.raises(TypeError, match=r"what px\.load gave, got Gaussian"):
            px.prior_from(Gaussian(np.zeros(1), np.eye(1)), "old")
        for approx in without_a_gradient:
            with pytest.raises(TypeError, match="has no map of 8 normals"):
                px.prior_from(approx, "old")


def test_a_poor_fit_makes_a_prior_with_a_warning(caplog):
    approx = fitted("flow")
    assert not approx.result.fresh.usable
    with pm.Model(), caplog.at_level(logging.WARNING):
        px.prior_from(approx, "old", variables=["mu"])
    assert "the fit is not usable, and the prior made of it is off by as much: k̂" in caplog.text


def test_a_third_day_has_the_variables_of_the_first(tmp_path):
    """Three days of a normal mean, each a prior of the next, against the sum in closed form."""
    days = np.random.default_rng(2).normal(1.5, 1.0, (3, 8))

    def fit():
        return pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)

    with pm.Model():
        mu, _ = pm.Normal("mu", 0, 2), pm.Normal("shift")
        pm.Normal("y", mu, 1, observed=days[0])
        monday = fit()
    with pm.Model():
        prior = px.prior_from(monday, "monday")
        pm.Normal("y", prior["mu"] + pm.Normal("shift"), 1, observed=days[1])
        path = fit().save(tmp_path / "tuesday.npz")
    kept = px.load(path)
    theta = kept.rvs(4, random_state=1)
    values = kept.by_variable(theta)
    assert set(values) == {"monday_z", "shift", "mu", "monday_shift"}
    first = monday.q.forward(values["monday_z"])[0]
    np.testing.assert_array_equal(values["mu"], first[:, 0])
    np.testing.assert_array_equal(values["monday_shift"], first[:, 1])
    with pm.Model() as model:
        prior = px.prior_from(kept, "tuesday")
        assert set(prior) == {"shift", "mu", "monday_shift"}
        assert model["tuesday_mu"] is prior["mu"]
        pm.Normal("y", prior["mu"], 1, observed=days[2])
        wednesday = fit()
    draws = wednesday.sample(4000, random_seed=1).posterior["tuesday_mu"].values
    # of mu, that its second day has a shift of its own: 8 rows worth 1 / (1 / 8 + 1)
    weights = np.array([8.0, 1 / (1 / 8 + 1), 8.0])
    precision = 1 / 4 + weights.sum()
    mean = weights @ days.mean(axis=1) / precision
    assert abs(draws.mean() - mean) < 4 * precision**-0.5 / np.sqrt(4000)
    assert abs(draws.std() * precision**0.5 - 1) < 4 / np.sqrt(8000)
    with pm.Model():  # names of the normals themselves, and of yesterday's yesterday
        assert set(px.prior_from(wednesday, "w", variables=["tuesday_z", "mu"])) == {
            "tuesday_z",
            "mu",
        }


def test_a_prior_has_the_dims_of_the_fit(tmp_path):
    law = px.load(fitted("hierarchical").save(tmp_path / "q.npz"))
    with pm.Model() as new:
        px.prior_from(law, "old")
    assert new.named_vars_to_dims["old_theta"] == ["group"]
    assert list(new.coords["group"]) == list(range(6))
    with pm.Model(coords={"group": range(6)}) as same:
        px.prior_from(law, "old")
        pm.Normal("more", same["old_theta"], 1, dims="group")
    with pm.Model(coords={"group": range(1, 7)}) as other:
        with pytest.raises(ValueError, match=r"theta has the dim 'group' of 6 labels 0, 1, .*6:"):
            px.prior_from(law, "old")
        assert not other.named_vars
        assert set(px.prior_from(law, "old", variables=["mu", "tau"])) == {"mu", "tau"}


def test_dims_that_disagree_are_refused_before_anything_is_added():
    """Tuesday's groups are others than Monday's, of which it took the mean alone."""
    with pm.Model(coords={"x": [0.0, 1.0], "g": ["a", "b"]}):
        pm.Normal("theta", pm.Normal("mu", dims="x").sum(), dims="g")
        monday = pm.fit(40, method=px.BatchMatchVI(random_seed=1), progressbar=False)
    with pm.Model(coords={"g": ["c", "d"]}):
        mu = px.prior_from(monday, "monday", variables=["mu"])["mu"]
        pm.Normal("eff", mu.sum(), dims="g")
        tuesday = pm.fit(40, method=px.BatchMatchVI(random_seed=1), progressbar=False)
    for coords in ({}, {"g": ["c", "d"]}):
        with pm.Model(coords=coords) as model:
            with pytest.raises(ValueError, match=r"has the dim 'g' of 2 labels .*, that of .* is"):
                px.prior_from(tuesday, "tuesday")
            assert set(model.coords) == set(coords) and not model.named_vars
            wanted = ["mu", "eff"]
            assert list(px.prior_from(tuesday, "tuesday", variables=wanted)) == wanted


def test_labels_are_what_they_mean():
    days = np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]")
    kinds = [days, days.astype("datetime64[ns]"), pd.DatetimeIndex(days), [d.item() for d in days]]
    for one in kinds:
        with pm.Model(coords={"day": one, "x": [1.0, np.nan]}):
            pm.Normal("level", dims=("day", "x"))
            approx = pm.fit(40, method=px.BatchMatchVI(random_seed=1), progressbar=False)
        for other in kinds:
            with pm.Model(coords={"day": other, "x": [1.0, np.nan]}):
                assert px.prior_from(approx, "old")["level"].name == "old_level"


def test_one_name_every_day_loses_no_variable():
    """Each day has a shift of its own and the last prior, always called old."""
    values = np.array([1.0, 20.0, 300.0])
    approx = None
    for day, value in enumerate(values):
        with pm.Model():
            if approx is not None:
                px.prior_from(approx, "old")
            pm.Normal("y", pm.Normal("shift", value, 1e-3), 1, observed=value)
            approx = pm.fit(method=px.BatchMatchVI(random_seed=day), progressbar=False)
    with pm.Model(name="sub") as model:
        prior = px.prior_from(approx, "old")
        with pytest.raises(ValueError, match=r"has \['sub::old_.* already: give the prior another"):
            px.prior_from(approx, "old")
    assert {name: round(float(pm.draw(x, random_seed=1))) for name, x in prior.items()} == {
        "shift": 300, "old_shift": 20, "old_old_shift": 1,
    }  # fmt: skip
    assert model["old_old_shift"] is prior["old_shift"]
    law = approx.as_law()
    one = law.by_variable(law.mean())
    assert {name: round(float(one[name])) for name in prior} == {
        "shift": 300, "old_shift": 20, "old_old_shift": 1,
    }  # fmt: skip


def test_dims_of_a_simplex_are_those_of_its_shares():
    with pm.Model(coords={"kind": np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")}):
        pm.Dirichlet("shares", np.ones(2), dims="kind")
        approx = pm.fit(40, method=px.BatchMatchVI(random_seed=1), progressbar=False)
    with pm.Model() as new:
        px.prior_from(approx, "old")
    assert new.named_vars_to_dims["old_shares"] == ["kind"]
    assert list(new.coords["kind"]) == ["2020-01-01", "2021-01-01"]
    with pm.Model() as unconstrained:
        px.prior_from(approx, "old", constrained=False)
    assert not unconstrained.named_vars_to_dims and not unconstrained.coords
