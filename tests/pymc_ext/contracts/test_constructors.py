"""Options are values: constructors are short, explicit, and take each option in one way."""

import dataclasses
import inspect

import pytest

import pymc_ext as px
from pymc_ext.variational.core import Algorithm
from tests.contracts import ALGORITHMS

MOST = 8  # parameters of a constructor: more cannot be read at a glance
METHODS = [name for name in px.__all__ if name.endswith("VI")]
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
        ("MixedVI", {"engine": 1024}),
        ("MixtureVI", {"search": "wide"}),
        ("MixtureVI", {"engine": {"draws": 10}}),
        ("BernsteinVI", {"shape": 30}),
        ("BernsteinVI", {"step": 0.01}),
    ],
    ids=str,
)
def test_what_is_no_such_value_is_refused(method, options):
    import pymc as pm

    with pm.Model() as model:
        pm.Normal("x")
    (name,) = options
    with pytest.raises(TypeError, match=rf"{name} must be a \w+\(\.\.\.\), got"):
        getattr(px, method)(model=model, **options)
