"""Options are values: constructors are short, explicit, and take each option in one way."""

import dataclasses
import inspect

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px
from pymc_ext.variational.core import Algorithm
from tests.contracts import ALGORITHMS

MOST = 8  # parameters of a constructor: more cannot be read at a glance
METHODS = [name for name in px.__all__ if name.endswith("VI")]
ALIKE = [name for name in METHODS if name not in ("AlgorithmVI", "MatchingVI")]  # take a start
VALUES = ("FixedDraws", "FlowShape", "ImportanceWeighted", "ModeSearch", "Polish", "StepOptions")


@pytest.mark.parametrize("name", [*METHODS, *VALUES])
def test_constructors_are_short_and_explicit(name):
    parameters = inspect.signature(getattr(px, name)).parameters.values()
    assert len(parameters) <= MOST
    if name != "AlgorithmVI":  # whose group takes options that only a subclass knows
        assert all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in parameters)


@pytest.mark.parametrize("make", ALGORITHMS.values(), ids=ALGORITHMS)
def test_each_option_is_in_one_place(make):
    def names(value):
        for field in dataclasses.fields(value):
            yield field.name
            held = getattr(value, field.name)
            if dataclasses.is_dataclass(held) and not isinstance(held, Algorithm):
                yield from names(held)

    algorithm = make()
    own = {f.name for f in dataclasses.fields(algorithm)}
    assert len(own) <= MOST
    nested = [name for name in names(algorithm) if name not in own]
    assert own.isdisjoint(nested)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("LaplaceVI", {"search": 3}),
        ("MixedVI", {"fixed_draws": 1024}),
        ("MixtureVI", {"search": "wide"}),
        ("MixtureVI", {"fixed_draws": {"draws": 10}}),
        ("BernsteinVI", {"shape": 30}),
        ("BernsteinVI", {"step": 0.01}),
    ],
    ids=str,
)
def test_what_is_no_such_value_is_refused(method, options):
    with pm.Model() as model:
        pm.Normal("x")
    (name,) = options
    with pytest.raises(TypeError, match=rf"{name} must be a \w+\(\.\.\.\), got"):
        getattr(px, method)(model=model, **options)


TAKES = {name: inspect.signature(getattr(px, name)).parameters for name in METHODS}
LEARN = [name for name, parameters in TAKES.items() if "hyperparameters" in parameters]


@pytest.mark.parametrize("method", [name for name in METHODS if name not in LEARN])
def test_who_learns_no_hyperparameters_says_who_does(method):
    with pytest.raises(TypeError, match=rf"^{method} takes no hyperparameters=: it gives") as said:
        getattr(px, method)(hyperparameters=["tau"])
    for name in METHODS:
        learns = name in LEARN and name != "AlgorithmVI"
        assert (f"px.{name}" in str(said.value)) == learns


def test_a_keyword_of_another_function_is_answered():
    with pytest.raises(TypeError, match=r"LaplaceVI takes no n=: give it to pm\.fit\(n, method="):
        px.LaplaceVI(n=100)
    with pytest.raises(TypeError, match="BatchMatchVI takes no path=: did you mean paths="):
        px.BatchMatchVI(path=3)


def logistic():
    with pm.Model() as model:
        b = pm.Normal("b", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=np.ones((4, 2)) @ b, observed=[0, 1, 1, 1])
    return model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"start": "x"}, r"start must be a mapping .* got 'x'; the model has \['b'\]"),
        ({"start": [0.0, 1.0]}, r"start must be a mapping of variable names to values, such as"),
        ({"random_seed": "x"}, "random_seed must be None or an integer from .* got 'x': give"),
        (
            {"random_seed": 2.5},
            "random_seed must be None or an integer .* got 2.5: give",
        ),
        ({"model": "x"}, "model must be a pm.Model, .* got 'x'"),
        ({"model": None}, "no model: pass model= to the family"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ALIKE)
def test_what_all_families_take_is_refused_in_words(method, options, message):
    with pytest.raises(TypeError, match=message):
        getattr(px, method)(**{"model": logistic(), **options})


@pytest.mark.parametrize("method", ALIKE)
def test_a_family_fits_the_model_it_was_made_for_and_no_other(method):
    inference = getattr(px, method)(model=logistic())
    with logistic(), pytest.raises(ValueError, match=f"{method} was made for another model than"):
        pm.fit(method=inference)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: px.LaplaceVI(model=logistic(), hyperparameters=3), "a sequence of free variables"),
        (lambda: px.FlowShape(hidden=2.5), "hidden must be a sequence .* got 2.5"),
        (lambda: px.FlowShape(ordering=3), "ordering must be a sequence of names, got 3"),
        (lambda: px.FlowShape(latent=["normal"]), r"latent must be one of .* got \['normal'\]"),
        (lambda: px.ModeSearch(spread="x"), "spread must be a number, got 'x'"),
        (lambda: px.ViperVI(model=logistic(), tolerance=None), "tolerance must be a number"),
        (lambda: px.MatchingVI(model=logistic(), n_draws=2.5), "n_draws must be a power of two"),
        (lambda: px.MatchingVI(model=3), "model must be a pm.Model"),
        (bridge.fit, "no model: give a pm.Model, a Stan program or a density, or call inside"),
        (bridge.calibrate, "no model: give a pm.Model or a Stan program, or call inside"),
    ],
)
def test_wrong_types_are_refused_in_words(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
