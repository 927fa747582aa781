"""Every example in a docstring is run, and prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import arviz as az
import joblib
import numpy as np
import pymc as pm
import pytest
import scipy.stats

import bridge
import pymc_ext as px
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
