"""Docstrings: every example prints what it says, and what is raised and every shape is said."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import is_dataclass
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


CHECKS = re.compile(r"_?(?:require|check|refuse)_")  # functions that raise, by their names


def raises(function: Callable[..., object]) -> bool:
    """Whether it raises, or calls a function that checks."""
    nodes = list(ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))))
    called = (node.func for node in nodes if isinstance(node, ast.Call))
    names = (getattr(name, "id", getattr(name, "attr", "")) for name in called)
    by_itself = any(isinstance(node, ast.Raise) and node.exc is not None for node in nodes)
    return by_itself or any(map(CHECKS.match, names))


def test_every_public_function_says_what_it_does_and_raises() -> None:
    silent, hidden = [], []
    for name, function in public_functions().items():
        text = inspect.getdoc(function) or ""
        silent += [] if text else [name]
        hidden += [name] if raises(function) and not re.search("[Rr]aise|Error", text) else []
    assert len(public_functions()) > 200
    assert not silent, f"without a docstring: {silent}"
    assert not hidden, f"raise what their docstrings do not say: {hidden}"


ARRAY = re.compile(
    r"\b(?:(?:Array|ArrayLike|NDArray|ndarray|Matrix|Inputs|TensorLike|TensorVariable|Parameters)\b"
    r"|(?:Sequence|list|tuple)\[float(?:, \.\.\.)?\])"
)
# of a model's variables: they have the shapes that the model gives them
GRAPHS = re.compile(r"(?:Sequence|Mapping|list)\[(?:\w+, )?TensorVariable\]")
SIZE = r"(?:\.\.\.|\*?[A-Za-z]\w*(?:\.shape)?\*?|len\(\w+\)|\d+|\w+ [+−-] \w+)"
SHAPE = re.compile(
    rf"(?<!\w)\(\)|(?<!\w)\((?=[^)]*[A-Za-z.])(?:\.\.\.|{SIZE},|{SIZE}(?:, {SIZE})+)\)"
    r"|\b(?:[Ss]calars?|any shape|own shape)\b"
)
ALL = re.compile(r"\b(?:[Ee]lementwise\b|[Aa]s in (?::\w+:)?`|As of any )")


def told_apart(text: str) -> tuple[str, dict[str, str]]:
    """A docstring's words before its sections, and its entry on each parameter and the return."""
    words, *rest = re.split(r"(?:^|\n)(\w+)\n-{3,}\n", text)
    entries: dict[str, str] = {}
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        if title == "Returns":
            entries["return"] = body
        elif title in {"Parameters", "Attributes"}:
            for entry in re.split(r"\n(?=\S)", body):
                names = entry.partition("\n")[0].partition(" : ")[0]
                entries |= dict.fromkeys(names.split(", "), entry)
    return words, entries


def arrays(annotations: dict[str, str]) -> dict[str, int]:
    """What is an array, a return too, and how many it is: a tuple may be several."""
    found = {name: ARRAY.findall(GRAPHS.sub("", kind)) for name, kind in annotations.items()}
    return {
        name: len(kinds) if annotations[name].startswith("tuple") else 1
        for name, kinds in found.items()
        if kinds and not name.startswith("_")
    }


def without_shape(text: str, annotations: dict[str, str]) -> list[str]:
    """The arrays whose shapes a docstring does not say.

    The entry of an array says a shape, or ``As in`` another docstring. Those without an entry have
    as many shapes before the sections as they are; after "each" one does for all that is returned,
    and another for all that is taken.
    """
    words, entries = told_apart(text)
    if words.startswith("Raises "):  # it takes nothing
        return []
    found = arrays(annotations)
    missing = [
        name
        for name in found
        if name in entries and not (SHAPE.search(entries[name]) or ALL.search(entries[name]))
    ]
    others = {name: count for name, count in found.items() if name not in entries}
    wanted = sum(others.values())
    if re.search(r"\beach\b", words):
        wanted = len({name == "return" for name in others})
    if len(SHAPE.findall(words)) < wanted and not ALL.search(words):
        missing += others
    return missing


def public_annotations() -> dict[str, tuple[str, dict[str, str]]]:
    """Docstring and annotations of every public function, and of the making of every class."""
    found = {
        name: (inspect.getdoc(function) or "", inspect.get_annotations(function))
        for name, function in public_functions().items()
    }
    for package in PUBLIC:
        for name in package.__all__:
            kind = getattr(package, name)
            if inspect.isclass(kind):
                made = {} if is_dataclass(kind) else inspect.get_annotations(kind.__init__)
                told = inspect.get_annotations(kind) | made
                found[f"{package.__name__}.{name}"] = (inspect.getdoc(kind) or "", told)
    return found


def test_every_public_function_says_the_shapes_of_its_arrays() -> None:
    told = public_annotations()
    silent = {name: missing for name, about in told.items() if (missing := without_shape(*about))}
    assert sum(bool(arrays(annotations)) for _, annotations in told.values()) > 200
    assert not silent, f"shapes that docstrings do not say: {silent}"


TAKES = {"x": "ArrayLike", "size": "int"}


@pytest.mark.parametrize(
    ("text", "annotations", "missing"),
    [
        ("Its mean.", {"return": "float"}, []),
        ("Its mean.", {"return": "Array"}, ["return"]),
        ("Its mean, (D,).", {"return": "Array"}, []),
        ("Its mean, a scalar.", {"return": "TensorVariable"}, []),
        ("log q, (..., D) -> (...).", TAKES | {"return": "Array"}, []),
        ("log q (N,).", TAKES | {"return": "Array"}, ["x", "return"]),
        ("Mean and sd, (N,).", {"return": "tuple[Array, Array]"}, ["return"]),
        ("Mean and sd, each (N,).", {"return": "tuple[Array, Array]"}, []),
        ("Mean and sd, each (N,).", TAKES | {"return": "tuple[Array, Array]"}, ["x", "return"]),
        ("A level in (0, 1) of f(x, y).", TAKES, ["x"]),
        ("A sum.\n\nParameters\n----------\nsize\n    (N, D)\nx\n    Points.", TAKES, ["x"]),
        ("A sum.\n\nParameters\n----------\nx, y : (N, D)\n    Points.", TAKES, []),
        ("A law.\n\nParameters\n----------\nx\n    As in `fit`.", TAKES, []),
        ("Compile.", {"graphs": "Sequence[TensorVariable]"}, []),
    ],
)
def test_a_shape_that_is_not_said_is_seen(text, annotations, missing) -> None:
    assert without_shape(text, annotations) == missing
