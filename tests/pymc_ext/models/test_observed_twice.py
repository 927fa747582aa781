"""A model is fitted again after predictions were drawn from it."""

from __future__ import annotations

import numpy as np
import pymc as pm

import bridge
import pymc_ext as px
from pymc_ext.models.observed_twice import mend_observed
from tests.tolerances import EXACT


def nested() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        with pm.Model("inner"):
            pm.Normal("y", mu, 1, observed=[1.2, -0.7, 3.1, 0.4])
        pm.Normal("z", mu, 1, observed=[0.3])
    return model


def test_predictions_leave_a_model_that_fits_again() -> None:
    model = nested()
    with model:
        first = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
        idata = first.sample(20, random_seed=1)
        pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
        again = pm.fit(method=px.LaplaceVI(random_seed=1), progressbar=False)
        np.testing.assert_allclose(again.mean.eval(), first.mean.eval(), rtol=EXACT)
        assert again.result.elbo == first.result.elbo
        pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    answer = bridge.fit(model, methods="laplace", random_seed=1)
    assert answer.method == "laplace"
    with model:
        pm.sample_posterior_predictive(answer.idata, random_seed=1, progressbar=False)
    target = bridge.pymc_target(model)
    np.testing.assert_allclose(target.log_density(np.zeros((1, 1))), first.log_p(np.zeros((1, 1))))


def test_only_what_stands_twice_is_taken_out() -> None:
    model = nested()
    before = list(model.observed_RVs)
    mend_observed(model)
    assert list(model.observed_RVs) == before
    model.observed_RVs.extend(before)
    mend_observed(model)
    assert list(model.observed_RVs) == before
    assert np.isfinite(model.compile_logp()(model.initial_point()))
