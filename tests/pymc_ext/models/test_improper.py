"""Flat variables: refused where no data inform them, and nowhere else."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import Interval

import pymc_ext as px
from pymc_ext.models.improper import refuse_unobserved_flat

# those of logistic likelihoods refuse every Flat, in words of their own
OTHERS = "AlgorithmVI", "JaakkolaVI", "MatchingVI", "ViperVI"
METHODS = [name for name in px.__all__ if name.endswith("VI") and name not in OTHERS]


def unused() -> None:
    pm.Flat("x")


def half() -> None:
    pm.HalfFlat("x")


def with_unobserved_children() -> None:
    """∫ p(child | x) = 1, whatever x is."""
    pm.Normal("child", pm.Flat("x"), 1)


def observed() -> None:
    pm.Normal("z", pm.Flat("x"), 1, observed=0.0)


def observed_through_a_child() -> None:
    pm.Normal("z", pm.Normal("child", pm.Flat("x"), 1), 1, observed=0.0)


def in_a_potential() -> None:
    pm.Potential("square", -(pm.Flat("x") ** 2))


def on_an_interval() -> None:
    """Uniform, by another name."""
    pm.Flat("x", initval=0.5, transform=Interval(0, 1))


def made(part) -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.arange(3.0))
        part()
    return model


@pytest.mark.parametrize("part", [unused, half, with_unobserved_children])
def test_a_flat_variable_that_nothing_observes_is_refused(part) -> None:
    with pytest.raises(
        ValueError, match=r"improper: nothing observed depends on 'x'.*proper prior"
    ):
        refuse_unobserved_flat(made(part))


@pytest.mark.parametrize(
    "part", [observed, observed_through_a_child, in_a_potential, on_an_interval]
)
def test_a_flat_variable_that_is_proper_is_let_through(part) -> None:
    refuse_unobserved_flat(made(part))


@pytest.mark.parametrize("method", METHODS)
def test_every_family_says_so_before_it_compiles(method, monkeypatch) -> None:
    model = made(unused)
    monkeypatch.setattr(pm.pytensorf, "compile", None)
    with pytest.raises(ValueError, match="improper: nothing observed depends on 'x'"):
        getattr(px, method)(model=model)
