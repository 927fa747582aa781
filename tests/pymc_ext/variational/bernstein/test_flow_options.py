"""What a flow says of options that it does not take: what it got, and what to give."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.density import CallableDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.gaussian.batch_match import BatchMatch
from pymc_ext.variational.hierarchical.algorithm import Hierarchical


def normal(dimension: int) -> CallableDensity:
    return CallableDensity(lambda x: -0.5 * (x**2).sum(1), lambda x: -x, dimension=dimension)


def model() -> pm.Model:
    with pm.Model() as made:
        pm.Normal("x", 0, 1)
    return made


@pytest.mark.parametrize(
    ("made", "option", "message"),
    [
        (px.FlowShape, "ordr", "FlowShape takes no ordr=: did you mean order="),
        (px.StepOptions, "gradent", "StepOptions takes no gradent=: did you mean gradient="),
        (px.BernsteinVI, "order", r"BernsteinVI takes no order=: give shape=px.FlowShape\(order="),
        (px.BernsteinVI, "draws", r"BernsteinVI takes no draws=: give step=px.StepOptions\(draws="),
        (px.BernsteinVI, "polsh", "BernsteinVI takes no polsh=: did you mean polish="),
        (px.BernsteinVI, "seed", "BernsteinVI takes no seed=: give random_seed="),
    ],
)
def test_a_keyword_that_is_none_is_answered(made, option, message) -> None:
    with model(), pytest.raises(TypeError, match=message):
        made(**{option: 3})


def test_options_are_copied_and_kept() -> None:
    for options in (px.FlowShape(order=3), StepOptions(20, group=4)):
        assert copy.deepcopy(options) == options == pickle.loads(pickle.dumps(options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": 3}, "a multiple of group, got draws=10 and group=3: take draws=12"),
        ({"max_norm": -1}, "max_norm must be None or a number > 0, got -1"),
        ({"max_norm": np.nan}, "max_norm must be None or a number > 0, got nan"),
        ({"max_norm": "a"}, "max_norm must be None or a number > 0, got 'a'"),
    ],
)
def test_steps_that_cannot_be_taken_are_refused(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        StepOptions(**options)


@pytest.mark.parametrize("callbacks", [3, [3], "stop", lambda *_: None])
def test_callbacks_that_are_none_are_refused(callbacks) -> None:
    with model(), pytest.raises(TypeError, match=r"callbacks must be a list of functions.*, got "):
        pm.fit(5, method=px.LaplaceVI(), callbacks=callbacks, progressbar=False)


def test_a_base_that_is_none_is_refused() -> None:
    indefinite = np.array([[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(ValueError, match="got a smallest eigenvalue of -1: leave out base="):
        Bernstein(base=(np.zeros(2), indefinite))
    with model():
        approx = pm.fit(method=px.BatchMatchVI(random_seed=1), progressbar=False)
    fitted = BatchMatch().fit(normal(1), random_seed=1)
    for holder in (approx, fitted):
        with pytest.raises(ValueError, match=r"that holds it: give its \.q, as base=approx\.q"):
            Bernstein(base=holder)
    flow = Bernstein(px.FlowShape(5, (4,)), base="match").fit(normal(1), n=5, random_seed=1).q
    with pytest.raises(ValueError, match="a hierarchical map, got a flow: go on from it by refine"):
        Bernstein(base=flow)


def test_the_map_of_another_model_is_refused_as_base() -> None:
    def log_density(t):
        return -0.5 * t[:, 0] ** 2 - t[:, 0] - 0.5 * (t[:, 1] * np.exp(-t[:, 0])) ** 2

    def score(t):
        square = (t[:, 1] * np.exp(-t[:, 0])) ** 2
        return np.stack([square - 1 - t[:, 0], -t[:, 1] * np.exp(-2 * t[:, 0])], axis=1)

    funnel = CallableDensity(log_density, score, dimension=2)
    q = Hierarchical().fit(funnel, random_seed=1).q
    with pytest.raises(
        ValueError, match=r"got \(2,\).*, or a q of so many coord.*: give one fitted"
    ):
        Bernstein(base=q).fit(normal(3), random_seed=1)
