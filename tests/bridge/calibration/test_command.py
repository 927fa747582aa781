"""`python -m bridge calibrate`: models and functions from files, a status, files left behind."""

from __future__ import annotations

import json

import pytest

from bridge.__main__ import main

MODEL = """
import numpy as np, pymc as pm

def means():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 1, observed=np.zeros(3))
    return model

model = means()
other = 7
"""
PROGRAM = """
data { vector[3] y; } parameters { real mu; } model { mu ~ normal(0, 1); y ~ normal(mu, 1); }
"""
FUNCTIONS = """
def prior(rng):
    return {"mu": rng.normal()}

def simulator(parameters, rng):
    return {"y": parameters["mu"] + rng.normal(size=3)}
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "means.py").write_text(MODEL)
    (tmp_path / "means.stan").write_text(PROGRAM)
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "data.json").write_text(json.dumps({"y": [0.5, 1.0, 1.5]}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


OPTIONS = ("--method", "laplace", "--simulations", "20", "--jobs", "1", "--out")


def test_a_model_of_a_file_is_calibrated(files, capsys) -> None:
    for model, out in (("means.py", "a"), ("means.py:means", "b")):
        assert main(["calibrate", model, *OPTIONS, out]) == 0
        printed = capsys.readouterr().out
        assert "20 of 20 simulations, 0 failed, 100% trusted" in printed
        assert "runs.csv, quantities.csv, ecdf.png in " + out in printed
    assert len((files / "a" / "runs.csv").read_text().splitlines()) == 21
    assert main(["calibrate", "means.py", *OPTIONS, "c", "--data", "data.json"]) == 0
    assert main(["calibrate", "means.py", *OPTIONS, "a", "--method", "batch-match"]) == 2
    assert "holds the simulations of another calibration" in capsys.readouterr().err


@pytest.mark.stan
def test_a_stan_program_is_calibrated(files, capsys) -> None:
    assert main(["calibrate", "means.stan", *OPTIONS, "a", "--simulate", "functions.py"]) == 0
    assert "100% trusted" in capsys.readouterr().out
    assert main(["calibrate", "means.stan", *OPTIONS, "b"]) == 2
    assert "give --simulate FILE" in capsys.readouterr().err


def test_wrong_files_are_said(files, capsys) -> None:
    (files / "list.json").write_text("[1]")
    (files / "broken.json").write_text("{")
    (files / "fails.py").write_text("import math\n\nmath.sqrt(-1)\n")
    (files / "unread.py").write_text("x = 1\nimport (\n")
    for arguments, said in (
        (["fails.py"], "fails.py fails in line 3: ValueError: "),
        (["unread.py"], "unread.py fails in line 2: SyntaxError: invalid syntax"),
        (["means.py", "--simulate", "fails.py"], "fails.py fails in line 3: ValueError: "),
        (["means.py:nothing"], "means.py defines no nothing: it has np, pm, means, model, other"),
        (["means.py:other"], "other of means.py must be a pm.Model or a function that makes one"),
        (["nothing.py"], "nothing.py"),
        (["means.py", "--simulate", "means.py"], "must define prior(rng), simulator(parameters"),
        (["means.py", "--data", "list.json"], "list.json must hold values by name, got a list"),
        (["means.py", "--data", "broken.json"], "broken.json is not JSON"),
    ):
        assert main(["calibrate", *arguments, "--out", "x"]) == 2
        assert said in capsys.readouterr().err
    assert not (files / "x").exists()
