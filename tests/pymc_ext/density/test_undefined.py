"""A log density that is finite nowhere: which variable, and which data, are at fault."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.exceptions import ImputationWarning

import bridge
import pymc_ext as px
from pymc_ext.density import DensityError
from pymc_ext.density.model import PyMCDensity
from pymc_ext.density.undefined import require_defined
from pymc_ext.variational.ill_posed.runaway import RunawayError


def nan_in_data(observed: bool) -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("x", np.ones(3))
        mu = pm.Normal("mu", 0, 1)
        if observed:
            pm.Normal("y", mu, 1, observed=x)
        else:
            pm.Normal("y", mu * x, 1, observed=np.arange(3.0))
        x.set_value(np.array([1.0, np.nan, 2.0]))
    return model


def nan_in_an_array() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu * np.array([1.0, np.nan, 2.0]), 1, observed=np.arange(3.0))
    return model


def negative_under_a_gamma() -> pm.Model:
    with pm.Model() as model:
        a = pm.HalfNormal("a", 1)
        pm.Normal("fine", a, 1, observed=np.arange(4.0))
        pm.Gamma("y", a, 1, observed=np.array([1.0, -2.0, 3.0]))
    return model


def negative_counts() -> pm.Model:
    with pm.Model() as model:
        pm.Poisson("y", pm.HalfNormal("a", 1), observed=np.array([3, -1, -4]))
    return model


def bad_potential() -> pm.Model:
    with pm.Model() as model:
        a = pm.HalfNormal("a", 1)
        pm.Potential("root", pm.math.log(-a))
        with pytest.warns(ImputationWarning):
            pm.Normal("z", a, 1, observed=[0.0, np.nan])
    return model


UNDEFINED = {
    "NaN in covariates": (
        lambda: nan_in_data(False),
        r"is nan at its start.*log p of 'y' is nan in 1 of 3 entries \(NaN in its data: 'x'\)",
    ),
    "NaN observed": (lambda: nan_in_data(True), r"nan in 1 of 3 entries \(NaN in its data: 'x'\)"),
    "NaN in an array": (nan_in_an_array, r"\(NaN in its data: an array of shape \(3,\)\)"),
    "negative under a Gamma": (
        negative_under_a_gamma,
        r"at none of 20 points around: log p of 'y' is -inf in 1 of 3 entries \(observed there: "
        r"-2\); correct the data",
    ),
    "negative counts": (negative_counts, r"in 2 of 3 entries \(observed there: -4, -1\)"),
    "a Potential": (bad_potential, "log p of 'root' is nan; correct"),
}


@pytest.mark.parametrize(("make", "message"), UNDEFINED.values(), ids=UNDEFINED)
def test_what_is_finite_nowhere_is_named(make, message) -> None:
    density = PyMCDensity(make())
    with pytest.raises(DensityError, match=message):
        require_defined(density, np.zeros(density.dimension))


@pytest.mark.parametrize("door", ["bridge.fit", "HierarchicalVI", "BernsteinVI"])
def test_missing_data_are_refused_before_anything_is_compiled(door, monkeypatch) -> None:
    with pm.Model() as model:
        x = pm.Data("x", np.ones(3))
        pm.Normal("y", pm.Normal("mu", 0, 1) * x, 1, observed=np.arange(3.0))
        method = None if door == "bridge.fit" else getattr(px, door)()
        pm.set_data({"x": [1.0, np.nan, 2.0]})
    monkeypatch.setattr(pm.pytensorf, "compile", None)
    with pytest.raises(DensityError, match="data 'x' hold NaN in 1 of 3 entries: expected numbers"):
        bridge.fit(model) if method is None else method.fit(progressbar=False)


@pytest.mark.parametrize("method", ["HierarchicalVI", "LaplaceVI", "BernsteinVI", "PathfinderVI"])
def test_every_family_says_so(method) -> None:
    with (
        negative_under_a_gamma() as model,
        pytest.raises(DensityError, match=r"log p of 'y' is -inf .*-2\)"),
    ):
        pm.fit(10, method=getattr(px, method)(model=model), progressbar=False)


def test_it_is_said_without_nuts(monkeypatch) -> None:
    monkeypatch.setattr(pm, "sample", None)
    with pytest.raises(DensityError, match=r"log p of 'y' is -inf .*-2\)"):
        bridge.fit(negative_under_a_gamma(), random_seed=1)


def test_a_start_alone_that_is_not_defined_is_no_reason() -> None:
    """At its start, 0, this is −∞; at half of the points around it is not."""
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        pm.Gamma("y", 2, 1, observed=1.0)
        pm.Potential("positive", pm.math.log(x))
    density = PyMCDensity(model)
    require_defined(density, np.zeros(1))
    with pytest.raises(ValueError, match=r"at the starting point \[0.\], as log p of 'positive'"):
        px.BernsteinVI(model=model).fit(10, progressbar=False)


@pytest.mark.parametrize("rows", [4, 5_000])
@pytest.mark.parametrize("index", ["constants", "data", "one"])
@pytest.mark.parametrize("method", [None, px.LaplaceVI])
def test_an_index_out_of_range_is_said_without_a_graph(method, index, rows) -> None:
    """Of numba's, on PyMC 6, which looks at no bounds, as well."""
    with pm.Model(coords={"group": range(3)}) as model:
        a = pm.Normal("a", 0, 1, dims="group")
        of_row = np.r_[0, 3, 1, 3, np.zeros(rows - 4, dtype=int)]
        at = pm.Data("of_row", of_row) if index == "data" else of_row
        pm.Normal("y", a[3] if index == "one" else a[at], 1, observed=np.zeros(rows))
    with pytest.raises(
        DensityError, match=r"cannot be evaluated: index 3 is out of .*correct"
    ) as e:
        if method is None:
            bridge.fit(model, random_seed=1)
        else:
            pm.fit(method=method(model=model), progressbar=False, model=model)
    assert "Apply node" not in str(e.value)


def test_equal_rows_whose_noise_may_vanish_are_named() -> None:
    with pm.Model() as model:
        sigma, a = pm.HalfNormal("sigma", 1), pm.Normal("a", 0, 1, shape=4)
        pm.Normal("y", a[np.repeat(range(4), 5)], sigma, observed=np.ones(20))
    with pytest.raises(RunawayError, match="rows that are all equal have a noise that may vanish"):
        pm.fit(method=px.HierarchicalVI(model=model), progressbar=False, model=model)
