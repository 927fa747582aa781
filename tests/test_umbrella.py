"""``import trusted_posteriors as tp``: every public name once, and none before it is asked for."""

from __future__ import annotations

import configparser
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import bridge
import posteriordb_cases
import pymc_ext
import stan_models
import trusted_posteriors as tp
from bridge.__main__ import main

ROOT = Path(__file__).resolve().parents[1]


def test_it_has_every_public_name_of_the_packages_it_stands_for() -> None:
    assert set(tp.__all__) == {"cases", "px", "stan", *bridge.__all__, *pymc_ext.__all__}
    assert dir(tp) == sorted(tp.__all__)
    for package in (bridge, pymc_ext):
        for name in {*package.__all__} - {"fit"}:
            assert getattr(tp, name) is getattr(package, name)
    assert (tp.stan, tp.cases, tp.px) == (stan_models, posteriordb_cases, pymc_ext)


def test_each_package_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    said = capsys.readouterr().out.split()[-1]
    for package in (tp, bridge, pymc_ext, stan_models, posteriordb_cases):
        assert package.__version__ == said
    for package in (pymc_ext, stan_models, posteriordb_cases):
        with pytest.raises(AttributeError, match="no attribute '__versions__'"):
            package.__versions__  # noqa: B018


def test_fit_is_the_one_that_judges() -> None:
    assert set(bridge.__all__) & set(pymc_ext.__all__) == {"fit"}
    assert tp.fit is bridge.fit and tp.px.fit is pymc_ext.fit


def test_no_name_has_two_meanings() -> None:
    twice = {name for name in tp.__all__ if tp.__all__.count(name) > 1}
    assert not twice, f"{sorted(twice)} in more than one package: rename one of each"


def test_what_everyone_wants_is_there() -> None:
    wanted = {"fit", "compare", "calibrate", "sample", "diagnose", "stan", "save", "load", "gp"}
    assert wanted <= set(tp.__all__)


def test_a_wrong_name_is_answered_with_the_near_one() -> None:
    with pytest.raises(AttributeError, match="no attribute 'LaplacVI'") as error:
        tp.LaplacVI  # noqa: B018
    assert error.value.name == "LaplacVI" and error.value.obj is tp  # what suggestions are made of


def test_the_import_loads_nothing_heavy() -> None:
    code = "import sys, trusted_posteriors; print({'pymc', 'pytensor', 'numpy'} & {*sys.modules})"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "set()"


def test_the_script_is_the_command_of_bridge() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    name, _, value = config["options.entry_points"]["console_scripts"].strip().partition(" = ")
    assert name == "trusted-posteriors"
    assert EntryPoint(name, value, "console_scripts").load() is main
    run = subprocess.run(
        [sys.executable, "-m", "trusted_posteriors"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 2 and run.stderr.startswith("usage: python -m trusted_posteriors ")


@pytest.mark.slow  # mypy reads PyMC
def test_type_checkers_know_the_names(tmp_path) -> None:
    source = "import trusted_posteriors as tp\nreveal_type(tp.fit)\ntp.stan.nuts\ntp.LaplacVI\n"
    (tmp_path / "user.py").write_text(source)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", str(tmp_path / "user.py")],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert "bridge.advice.answer.Advice" in run.stdout
    assert run.stdout.count("error:") == 1 and '"LaplacVI"' in run.stdout
