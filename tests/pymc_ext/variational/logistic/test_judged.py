"""Closed forms end with a k̂ of fresh draws, at the numbers of the model."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import expit

from pymc_ext.density import CountedDensity, PyMCDensity
from pymc_ext.variational.logistic import judged as module
from pymc_ext.variational.logistic.density import LogisticDensity
from pymc_ext.variational.logistic.jaakkola import JaakkolaVI
from pymc_ext.variational.logistic.judged import LogisticNumbers
from pymc_ext.variational.logistic.viper import Viper, ViperVI
from tests.tolerances import NUMERIC, monte_carlo

ROWS = 150


def regression(batch=None) -> pm.Model:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(ROWS, 3))
    y = rng.binomial(4, expit(X @ [1.0, -0.5, 0.2] + 0.3))
    with pm.Model() as model:
        if batch:
            X, y = pm.Minibatch(X, y.astype("int32"), batch_size=batch)
        intercept, slope = pm.Normal("intercept", 1, 2), pm.Normal("slope", 0, 1.5, shape=3)
        logit = intercept + X @ slope
        pm.Binomial("y", n=4, logit_p=logit, observed=y, total_size=ROWS if batch else None)
    return model


def test_log_p_at_the_numbers_is_the_models(monkeypatch) -> None:
    model = regression()
    density = LogisticDensity(model, split=Viper.read(model))
    monkeypatch.setattr(module, "TOGETHER", 64)  # some rows at a time
    counted = CountedDensity(density)
    numbers = LogisticNumbers(density.prior(), density.data(), counted)
    theta = np.random.default_rng(2).normal(size=(7, 4))
    np.testing.assert_allclose(
        numbers.log_density(theta), PyMCDensity(model).log_density(theta), rtol=NUMERIC
    )
    assert counted.values == 7


@pytest.mark.parametrize("family", [ViperVI, JaakkolaVI])
def test_a_fit_ends_with_its_khat(family) -> None:
    with regression():
        result = pm.fit(method=family(random_seed=1), progressbar=False).result
    assert result.fresh.draws == 4096 and np.isfinite(result.khat)
    assert result.verdict == result.fresh.verdict
    assert abs(result.fresh.elbo - result.exact_elbo) < monte_carlo(result.fresh.elbo_se)


def test_what_takes_too_many_rows_is_not_judged_and_says_so(monkeypatch) -> None:
    monkeypatch.setattr(module, "NUMBERS", 1_200 * ROWS)
    with regression():
        assert pm.fit(method=ViperVI(), progressbar=False).result.fresh.draws == 1_200
        monkeypatch.setattr(module, "NUMBERS", 10 * ROWS)
        assert pm.fit(method=ViperVI(), progressbar=False).result.fresh.draws == 1_000
        monkeypatch.setattr(module, "MOST_NUMBERS", 999 * ROWS)
        result = pm.fit(method=ViperVI(), progressbar=False).result
    assert result.khat is None
    assert result.verdict.startswith("not judged: 1,000 fresh draws at more than 100,000 rows take")
    assert result.verdict.endswith("call px.diagnose(approx) for them")


def test_of_a_minibatch_there_is_none_and_the_reason_is_said() -> None:
    with regression(batch=20):
        result = pm.fit(20, method=ViperVI(random_seed=1), progressbar=False).result
    assert result.verdict.startswith("not judged: log p̃ of a pm.Minibatch is an estimate")
    assert "px.load(path, model=...)" in result.verdict
