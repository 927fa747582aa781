"""What is said of ``pm.Minibatch`` data: whose they are, and what takes them."""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from pymc_ext.models.minibatch import of_batches, refuse_batches

X = np.random.default_rng(1).normal(size=(200, 2))


def regression(y: np.ndarray) -> tuple[pm.Model, object, object]:
    with pm.Model() as model:
        rows, batch = pm.Minibatch(X, y, batch_size=20)
        beta = pm.Normal("beta", 0, 1, shape=2)
    return model, rows @ beta, batch


def linear() -> pm.Model:
    model, mean, batch = regression(X @ [1.0, 2.0])
    with model:
        pm.Normal("y", mean, 1, observed=batch, total_size=200)
        pm.Normal("whole", model["beta"][0], 1, observed=[1.0])
    return model


def logistic() -> pm.Model:
    model, mean, batch = regression((X[:, 0] > 0).astype("int32"))
    with model:
        pm.Bernoulli("y", logit_p=mean, observed=batch, total_size=200)
    return model


def test_variables_with_batches_are_named() -> None:
    model = linear()
    with model:
        pm.Potential("more", -pm.Minibatch(np.ones(9), batch_size=3).sum() * model["beta"][0] ** 2)
        pm.Potential("none", -(model["beta"][1] ** 2))
    assert of_batches(model) == ["y", "more"]
    with pm.Model() as whole:
        pm.Normal("y", pm.Normal("mu"), 1, observed=[1.0])
    assert of_batches(whole) == [] and refuse_batches(whole) is None


def test_the_message_names_what_takes_batches() -> None:
    """Each door that it names, called as it says."""
    with pytest.raises(ValueError, match=r"^the rows of \['y'\] are a pm.Minibatch") as caught:
        bridge.fit(linear(), random_seed=1)
    assert "pm.Data" in str(caught.value) and "\n" not in str(caught.value)
    named = re.findall(r"px\.fit\('([\w-]+)'\)", str(caught.value))
    assert named == ["bernstein", "monte-carlo", "viper"]
    for name in named:
        model = logistic() if name == "viper" else linear()
        idata = px.fit(name, model=model, n=50, draws=20, random_seed=1, progressbar=False)
        assert idata["posterior"]["beta"].shape == (4, 5, 2)
    (advi,) = re.findall(r"pm\.fit\(method='(\w+)'\)", str(caught.value))
    pm.fit(20, method=advi, model=linear(), progressbar=False)
