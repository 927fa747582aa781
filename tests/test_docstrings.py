"""Every example in a docstring is run, and prints what it says."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import arviz as az
import joblib
import numpy as np
import pymc as pm
import pytest
import scipy.stats

import bridge
import posteriordb_cases
import pymc_ext as px
import stan_models
from posteriordb_cases import load_case

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pymc_ext", "stan_models", "bridge", "posteriordb_cases", "trusted_posteriors")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
SLOW = {"BernsteinVI", "MatchedClassifier"}
SCHOOLS = "eight_schools-eight_schools_noncentered"


def examples() -> list[doctest.DocTest]:
    """The docstrings with examples, each with the names of its module."""
    files = [p for package in PACKAGES for p in (ROOT / package).rglob("*.py")]
    names = [
        ".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for p in sorted(files)
        if ">>>" in p.read_text(encoding="utf-8")
    ]
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in names for test in finder.find(importlib.import_module(name))]
    return [test for test in found if test.examples]


def marked(test: doctest.DocTest):
    marks = [pytest.mark.slow] if test.name.rsplit(".")[-1] in SLOW else []
    marks += [pytest.mark.stan] if "stan" in test.name else []
    return pytest.param(test, id=test.name, marks=marks)


class ShownOutput(doctest.OutputChecker):
    """An example that shows no output does not promise that there is none."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


@pytest.fixture
def names(request, tmp_path, monkeypatch) -> dict[str, object]:
    """What the examples take as given: imports, a logistic model, a Stan program with data."""
    case = load_case(SCHOOLS)
    (tmp_path / "eight_schools.stan").write_text(case.stan_code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 2))
    y = (rng.random(50) < 0.5).astype(int)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=pm.math.dot(X, beta), observed=y)
    given = {"X": X, "y": y, "model": model, "data": case.data}
    if request.node.get_closest_marker("stan"):
        from stan_models import StanProgram

        given["program"] = StanProgram(case.stan_code, name="eight_schools")
    modules = {"az": az, "bridge": bridge, "joblib": joblib, "np": np, "pm": pm, "px": px}
    return modules | {"scipy": scipy} | given


@pytest.mark.parametrize("test", [marked(test) for test in examples()])
def test_example_prints_what_it_says(test, names) -> None:
    test.globs = {**names, **test.globs}
    report: list[str] = []
    runner = doctest.DocTestRunner(checker=ShownOutput(), optionflags=FLAGS)
    runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


def test_a_wrong_example_is_seen() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    runner = doctest.DocTestRunner(checker=ShownOutput(), optionflags=FLAGS)
    runner.run(test, out=lambda text: None)
    assert runner.failures == 1


PUBLIC = (bridge, px, px.gp, stan_models, posteriordb_cases)


def public_functions() -> dict[str, Callable[..., object]]:
    """Functions that the packages export, and public methods of classes that they export."""
    found = {}
    for package in PUBLIC:
        for name in package.__all__:
            thing = getattr(package, name)
            of = vars_of(thing) if inspect.isclass(thing) else {"": thing}
            for key, member in of.items():
                function = getattr(member, "fget", None) or getattr(member, "func", None)
                function = function or getattr(member, "__func__", None) or member
                if inspect.isfunction(function) and function.__module__.startswith(PACKAGES):
                    found[f"{package.__name__}.{name}.{key}".rstrip(".")] = function
    return found


def vars_of(kind: type) -> dict[str, object]:
    names = [name for name in dir(kind) if not name.startswith("_")]
    return {name: inspect.getattr_static(kind, name) for name in names}


def raises(function: Callable[..., object]) -> bool:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return any(isinstance(node, ast.Raise) and node.exc is not None for node in ast.walk(tree))


def test_every_public_function_says_what_it_does_and_raises() -> None:
    silent, hidden = [], []
    for name, function in public_functions().items():
        text = inspect.getdoc(function) or ""
        silent += [] if text else [name]
        hidden += [name] if raises(function) and not re.search("[Rr]aise|Error", text) else []
    assert len(public_functions()) > 200
    assert not silent, f"without a docstring: {silent}"
    assert not hidden, f"raise what their docstrings do not say: {hidden}"
