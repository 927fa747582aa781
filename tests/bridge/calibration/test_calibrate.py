"""An exact posterior is calibrated, wrong ones are not; runs are kept, and bad input is refused."""

from __future__ import annotations

import json

import joblib
import numpy as np
import pymc as pm
import pytest
from scipy.stats import norm

import bridge
import pymc_ext as px
from bridge.calibration.run import MOST, _loaded
from bridge.errors import RecordsError, UnknownMethodError
from bridge.methods.method import Fit, Method, Problem
from pymc_ext.density.model import PyMCDensity
from pymc_ext.variational.gaussian.laplace import Laplace
from tests.bridge.calibration.conftest import Normal, chains, conjugate, observed
from tests.needed import needs
from tests.tolerances import monte_carlo

S = 250
DRAWS = 1_000


def calibrated(model: pm.Model, method: Method, simulations: int = S, **options):
    return bridge.calibrate(model, method, simulations, fresh_draws=DRAWS, random_seed=1, **options)


# ---- exact, and negative controls ---------------------------------------------------------------


def test_an_exact_posterior_is_calibrated(model) -> None:
    found = calibrated(model, chains("exact", Normal()))
    assert found.quantities == ("means::mu[0]", "means::mu[1]", "log_lik", "lp")
    assert found.calibrated("plain") and found.calibrated("psis")
    assert found.trusted.all() and found.failed.empty
    for level in (0.5, 0.95):
        share, se = found.coverage(level)
        assert abs(share - level) < monte_carlo(np.sqrt(level * (1 - level) / S))
        assert 0 < se < 1.5 * np.sqrt(level * (1 - level) / S)
    assert (found.table()["p_symmetric"] > 0.01).all()


def test_the_prior_as_posterior_is_seen_by_what_depends_on_data_alone(model) -> None:
    found = calibrated(model, chains("prior", Normal(ignores_data=True)))
    p = found.table()["p_uniform"]
    assert (p.iloc[:2] > 0.01).all()  # of parameters the ranks are uniform
    assert p["log_lik"] < 1e-3 and not found.calibrated()


def test_too_narrow_a_posterior_is_seen(model) -> None:
    found = calibrated(model, chains("narrow", Normal(scale=0.8)))
    assert not found.calibrated()
    assert found.coverage(0.95)[0] < 0.92
    assert (found.table()["p_symmetric"].iloc[:2] > 0.01).all()  # its centre is right


def test_a_biased_point_estimate_is_asymmetric(model) -> None:
    found = calibrated(model, chains("biased", Normal(shift=0.4)))
    assert (found.table()["p_symmetric"].iloc[:2] < 1e-3).all()


def two_modes() -> pm.Model:
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Normal("y", pm.math.abs(x), 0.3, observed=1.0)
    return model


def modes(problem: Problem, draws: int, seed: int, *, of: tuple[int, ...]) -> Fit:
    """The exact posterior of |x|, on some of both branches."""
    y, rng = float(observed(problem)), np.random.default_rng(seed)
    variance = 1 / (1 + 1 / 0.09)
    m, s = variance * y / 0.09, np.sqrt(variance)
    size = m + s * norm.isf(rng.uniform(0, norm.sf(-m / s), draws))  # truncated at zero
    theta = (rng.choice(of, draws) * size)[:, None]
    return Fit(problem.target, theta[None], problem.target.log_density(theta)[None], 0.0)


def both(problem: Problem, draws: int, seed: int) -> Fit:
    return modes(problem, draws, seed, of=(-1, 1))


def one(problem: Problem, draws: int, seed: int) -> Fit:
    return modes(problem, draws, seed, of=(1,))


def test_a_dropped_mode_is_seen() -> None:
    assert calibrated(two_modes(), chains("both", both)).calibrated()
    found = calibrated(two_modes(), chains("one", one))
    p = found.table()["p_uniform"]
    assert p["x"] < 1e-3 and not found.calibrated()
    assert p["log_lik"] > 0.01  # both modes are alike, which only the parameter tells apart


# ---- weights and verdicts ----------------------------------------------------------------------


def test_weights_repair_what_is_too_wide_and_the_verdict_is_kept(model) -> None:
    wide = Method("wide", "too wide", "pymc", Normal(scale=1.4))
    found = bridge.calibrate(model, wide, 120, fresh_draws=5_000, random_seed=2)
    assert not found.calibrated("plain") and found.calibrated("psis")
    assert found.trusted.all() and (found.runs["khat"] < 0.7).all()
    summary = found.summary()
    assert summary.loc[("psis", "trusted"), "inside"] and summary["share"].eq(1.0).all()


def test_what_is_not_trusted_is_counted_apart(model) -> None:
    far = Method("far", "beside the posterior", "pymc", Normal(scale=0.5, shift=3.0))
    found = bridge.calibrate(model, far, 20, fresh_draws=DRAWS, random_seed=2)
    assert not found.trusted.any()
    summary = found.summary()
    assert summary.loc[("plain", "all"), "fits"] == 20
    assert summary.loc[("plain", "trusted"), "fits"] == 0
    assert not summary.loc[("plain", "trusted"), "inside"]
    assert "0% trusted" in str(found)


def test_all_of_fit_and_a_family_are_calibrated(model) -> None:
    for method in (None, "answer"):
        answer = bridge.calibrate(model, method, 8, fresh_draws=DRAWS, random_seed=3)
        assert answer.method == "answer" and answer.trusted.all()
        assert answer.runs["verdict"].str.startswith("hierarchical: ").all()
    with model:
        family = px.LaplaceVI(random_seed=1)
    for method in (family, Laplace(), "laplace"):
        found = bridge.calibrate(model, method, 8, fresh_draws=DRAWS, random_seed=3)
        assert found.method == "laplace" and (found.ranks["plain"] >= 0).all()


def test_nothing_is_compiled_again(model, monkeypatch) -> None:
    made, compiled = [], PyMCDensity.compile

    def counted(self, *arguments, **options):
        made.append(self)
        return compiled(self, *arguments, **options)

    monkeypatch.setattr(PyMCDensity, "compile", counted)
    numbers = []
    for simulations in (8, 16):  # by eight values are compiled without the score too, once
        made.clear()
        _loaded.cache_clear()
        found = bridge.calibrate(model, "laplace", simulations, fresh_draws=DRAWS, random_seed=1)
        assert found.failed.empty
        numbers.append(len(made))
    assert numbers[0] == numbers[1] > 0


@pytest.mark.slow  # two processes that import PyMC
def test_processes_give_the_same_ranks() -> None:
    with pm.Model() as model:  # not of this module, which the processes need not have
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.zeros(3))
    options = {"fresh_draws": DRAWS, "random_seed": 1}
    here = bridge.calibrate(model, "laplace", 6, **options)
    with joblib.parallel_config(n_jobs=2):
        there = bridge.calibrate(model, "laplace", 6, **options)
    assert there.failed.empty
    np.testing.assert_array_equal(here.ranks["psis"], there.ranks["psis"])


# ---- records -----------------------------------------------------------------------------------


def test_an_interrupted_calibration_goes_on(model, tmp_path) -> None:
    method, made = chains("exact", Normal()), []

    def stop(record, done, total) -> None:
        made.append(record["seed"])
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrated(model, method, 6, out=tmp_path, on_record=stop)
    again = calibrated(
        model, method, 6, out=tmp_path, on_record=lambda r, *_: made.append(r["seed"])
    )
    assert made == [1, 2, 3, 4, 5, 6]
    whole = calibrated(model, method, 6)
    for kind in ("plain", "psis"):
        np.testing.assert_array_equal(again.ranks[kind], whole.ranks[kind])
    more = calibrated(model, method, 8, out=tmp_path)
    np.testing.assert_array_equal(more.ranks["plain"][:6], whole.ranks["plain"])
    assert len(calibrated(model, method, 4, out=tmp_path).runs) == 4


def test_a_seed_on_record_is_taken(model, tmp_path) -> None:
    method = chains("exact", Normal())
    first = bridge.calibrate(model, method, 3, fresh_draws=DRAWS, out=tmp_path)
    again = bridge.calibrate(model, method, 3, fresh_draws=DRAWS, out=tmp_path)
    np.testing.assert_array_equal(first.ranks["plain"], again.ranks["plain"])
    assert first.runs["seconds"].equals(again.runs["seconds"])  # none was made again


def test_a_folder_is_of_one_model_and_one_method(model, tmp_path) -> None:
    method = chains("exact", Normal())
    calibrated(model, method, 2, out=tmp_path)
    with pytest.raises(RecordsError, match="another calibration, method exact"):
        calibrated(model, chains("prior", Normal(ignores_data=True)), 2, out=tmp_path)
    with pm.Model(name="means") as other:
        mu = pm.Normal("mu", 0, 2, shape=2)  # another sd
        pm.Normal("y", mu[:, None], 1, observed=np.zeros((2, 3)))
    with pytest.raises(RecordsError, match="another calibration, settings"):
        calibrated(other, method, 2, out=tmp_path)
    with pytest.raises(RecordsError, match=r'expected .*"random_seed": 5'):
        bridge.calibrate(model, method, 2, fresh_draws=DRAWS, random_seed=5, out=tmp_path)
    assert len(calibrated(conjugate(), method, 2, out=tmp_path).runs) == 2  # the same, made anew


def sometimes(problem: Problem, draws: int, seed: int) -> Fit:
    if observed(problem)[0, 0] > 0:
        raise FloatingPointError("overflow on purpose")
    return Normal()(problem, draws, seed)


def test_failures_are_counted_and_shown(model, tmp_path) -> None:
    found = calibrated(model, chains("sometimes", sometimes), 20, out=tmp_path)
    assert 0 < len(found.failed) < 20 and len(found.runs) == 20
    assert found.failed["reason"].eq("FloatingPointError: overflow on purpose").all()
    assert not found.trusted[found.runs["status"] == "failed"].any()
    assert f"{len(found.failed)} failed" in str(found) and "overflow on purpose" in str(found)
    share = found.summary().loc[("plain", "all"), "share"]
    assert share == 1 - len(found.failed) / 20
    again = calibrated(model, chains("sometimes", sometimes), 20, out=tmp_path, retry_failed=True)
    assert len(again.failed) == len(found.failed)  # for the same reason


def never(problem: Problem, draws: int, seed: int) -> Fit:
    raise FloatingPointError("no fit on purpose")


def test_a_method_that_never_fits_is_not_calibrated(model) -> None:
    found = calibrated(model, chains("never", never), 3)
    assert not found.calibrated() and len(found.failed) == 3 and "3 failed" in str(found)
    with pytest.raises(ValueError, match="no fit of never has ranks"):
        found.plot()


# ---- what ArviZ sees ---------------------------------------------------------------------------


def test_the_group_is_shaped_as_simuks(model) -> None:
    found = calibrated(model, chains("exact", Normal()), 30)
    group = found.inference_data()["prior_sbc"]
    assert group["means::mu"].dims[:2] == ("chain", "draw")
    assert group["means::mu"].shape == (1, 30, 2) and group["lp"].shape == (1, 30)
    values = (found.ranks["psis"] + 0.5) / (MOST + 1)
    np.testing.assert_array_equal(group["means::mu"].values[0], values[:, :2])
    assert json.dumps(dict(group.attrs))


def test_arviz_plots_it(model) -> None:
    plots = needs("arviz_plots")
    found = calibrated(model, chains("exact", Normal()), 30)
    assert plots.plot_ecdf_pit(found.inference_data(), group="prior_sbc") is not None


def test_the_figure_names_what_is_outside(model) -> None:
    found = calibrated(model, chains("narrow", Normal(scale=0.5)))
    (axis,) = found.plot().axes
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert "means::mu[0]" in labels and "95% band" in labels


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize("simulations", [0, -3, 2.5, True])
def test_simulations_are_counted(model, simulations) -> None:
    with pytest.raises(ValueError, match="simulations must be an integer >= 1"):
        bridge.calibrate(model, "laplace", simulations)


def test_numbers_and_names_are_checked_before_work(model, tmp_path) -> None:
    with pytest.raises(ValueError, match="fresh_draws must be at least 1000"):
        bridge.calibrate(model, "laplace", 3, fresh_draws=10)
    with pytest.raises(ValueError, match="budget must be a positive"):
        bridge.calibrate(model, "laplace", 3, budget=0)
    with pytest.raises(UnknownMethodError, match="did you mean laplace"):
        bridge.calibrate(model, "laplce", 3)
    with pytest.raises(TypeError, match="calibrated by name, such as 'viper-full'"):
        bridge.calibrate(model, 7, 3)
    with pytest.raises(ValueError, match="needs a Stan program"):
        bridge.calibrate(model, "stan-nuts", 3, out=tmp_path / "new")
    with pytest.raises(TypeError, match=r"must be a pm\.Model or a Stan program, got int"):
        bridge.calibrate(7, "laplace", 3)
    assert not list(tmp_path.iterdir())
