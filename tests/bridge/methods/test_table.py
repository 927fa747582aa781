"""Methods of others: handed over as objects, or found by the name that a package registers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint

import joblib
import numpy as np
import pymc as pm
import pytest

import bridge
from bridge.__main__ import main
from bridge.comparison.compare import compare
from bridge.comparison.records import Records
from bridge.comparison.sweep import sweep
from bridge.errors import BrokenMethodError, UnknownMethodError
from bridge.methods import table
from bridge.methods.method import Fit, Method, Problem
from bridge.methods.table import METHODS, find_methods
from tests.bridge.conftest import GAUSSIAN, gaussian_fit


class Shifted:
    """A method of a package of its own, with a setting: an instance is its `run`."""

    def __init__(self, shift: float) -> None:
        self.shift = shift

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        return gaussian_fit(problem, draws, seed, shift=self.shift, scale=1.0)


THEIRS = Method("theirs", "a method of somebody else", "pymc", Shifted(0.3))
not_a_method = "nothing"


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Entry points as installed packages would have them: names to what they load."""

    def register(**values: str) -> None:
        found = [EntryPoint(k.replace("_", "-"), v, table.ENTRY_POINTS) for k, v in values.items()]
        monkeypatch.setattr(
            table, "entry_points", lambda group: found if group == table.ENTRY_POINTS else []
        )

    return register


def test_a_method_of_ones_own_is_compared_under_its_name(gaussian_database, tmp_path) -> None:
    frame = compare(GAUSSIAN, [THEIRS], 2, out=tmp_path, database=gaussian_database, draws=2000)
    assert list(frame["method"]) == ["theirs"] * 2 and list(frame["status"]) == ["ok"] * 2
    assert list(Records(tmp_path / "records.sqlite").frame()["method"]) == ["theirs"] * 2
    assert (tmp_path / frame["draws_file"][0]).name == "theirs-1.nc"
    assert "theirs" not in METHODS


def test_a_sweep_takes_it_too_and_goes_on_by_its_name(gaussian_database, tmp_path) -> None:
    calls = []

    def counted(problem: Problem, draws: int, seed: int) -> Fit:
        calls.append(seed)
        return THEIRS.run(problem, draws, seed)

    method = replace(THEIRS, run=counted)
    for _ in range(2):
        sweep([GAUSSIAN], method, 1, out=tmp_path, database=gaussian_database, draws=2000)
    assert calls == [1]
    assert len(Records(tmp_path / "records.sqlite").frame()) == 1


def test_processes_get_the_method_itself(gaussian_database, tmp_path) -> None:
    """A worker imports `bridge` anew and knows the method only by what it was sent."""
    with joblib.parallel_config(n_jobs=2):
        frame = compare(GAUSSIAN, [THEIRS], 2, out=tmp_path, database=gaussian_database, draws=2000)
    assert list(frame["status"]) == ["ok"] * 2, frame.get("reason")


def test_what_cannot_be_sent_to_a_process_is_refused_before_any_run(
    gaussian_database, tmp_path
) -> None:
    lock = threading.Lock()

    def locked(problem: Problem, draws: int, seed: int) -> Fit:
        with lock:
            return THEIRS.run(problem, draws, seed)

    with pytest.raises(BrokenMethodError, match=r"'theirs' cannot be sent .* cannot pickle"):
        compare(
            GAUSSIAN, [replace(THEIRS, run=locked)], 1, out=tmp_path, database=gaussian_database
        )
    assert not (tmp_path / "records.sqlite").exists()


def test_what_no_record_can_hold_is_a_failure_of_the_run(gaussian_database, tmp_path) -> None:
    def chatty(problem: Problem, draws: int, seed: int) -> Fit:
        return replace(THEIRS.run(problem, draws, seed), info={"trace": np.zeros(3)})

    methods = [replace(THEIRS, name="chatty", run=chatty), THEIRS]
    frame = compare(GAUSSIAN, methods, 1, out=tmp_path, database=gaussian_database, draws=2000)
    assert list(frame["status"]) == ["failed", "ok"]
    assert frame["reason"][0].startswith("TypeError: column 'trace' of a record must be text")


def test_fit_takes_a_method_of_ones_own() -> None:
    def exact(problem: Problem, draws: int, seed: int) -> Fit:
        theta = np.random.default_rng(seed).standard_normal((1, draws, 1))
        lp = problem.target.log_density(theta[0])[None]
        return Fit(problem.target, theta, lp, 0.0, lq=lp)

    with pm.Model() as model:
        pm.Normal("x")
    advice = bridge.fit(model, methods=Method("exact", "", "pymc", exact), random_seed=1)
    assert advice.method == "exact" and advice.attempts[0].exact


def test_names_of_installed_packages_are_found(registered, gaussian_database, tmp_path) -> None:
    registered(theirs=f"{__name__}:THEIRS")
    assert find_methods(["theirs", "laplace"]) == [THEIRS, METHODS["laplace"]]
    frame = compare(GAUSSIAN, ["theirs"], 1, out=tmp_path, database=gaussian_database, draws=2000)
    assert list(frame["method"]) == ["theirs"] and list(frame["status"]) == ["ok"]
    with pytest.raises(UnknownMethodError, match="did you mean theirs"):
        find_methods(["their"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("no_such_package:METHOD", "cannot be loaded: ModuleNotFoundError"),
        (f"{__name__}:no_such_name", "cannot be loaded: AttributeError"),
        (f"{__name__}:not_a_method", "must be a bridge.Method with this name, got str"),
        (f"{__name__}:THEIRS", "must be a bridge.Method with this name, got 'theirs'"),
    ],
)
def test_a_broken_entry_point_is_one_sentence(registered, capsys, value, message) -> None:
    registered(broken_one=value)
    with pytest.raises(BrokenMethodError, match=message):
        find_methods(["broken-one"])
    assert [m.name for m in find_methods(["laplace"])] == ["laplace"]  # nobody else's is concerned
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert "broken-one" in printed and "laplace" in printed and "Traceback" not in printed


def test_an_installed_package_does_not_replace_a_method_of_ours(registered) -> None:
    registered(laplace=f"{__name__}:THEIRS")
    assert find_methods(["laplace"]) == [METHODS["laplace"]]


@pytest.mark.parametrize(
    "methods",
    [[replace(THEIRS, name="laplace")], [THEIRS, replace(THEIRS, run=Shifted(0.2))]],
    ids=["ours", "twice"],
)
def test_two_methods_of_one_name_are_refused(methods) -> None:
    with pytest.raises(ValueError, match="two methods have the name"):
        find_methods(methods)


def test_what_is_no_method_is_refused() -> None:
    with pytest.raises(TypeError, match=r"must be a name or a bridge\.Method, got int"):
        find_methods([1])


@pytest.mark.parametrize("change", [{"name": "a/b"}, {"name": ""}, {"representation": "jax"}])
def test_names_that_no_file_can_have_and_unknown_forms_are_refused(change) -> None:
    with pytest.raises(ValueError, match=r"name of a method|representation must be"):
        replace(THEIRS, **change)
