"""Compilation: cached, safe beside other processes, clear about what is wrong."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stan_models import StanCompileError, StanProgram
from stan_models.layout import in_order

pytestmark = pytest.mark.stan

SOURCE = "parameters {\n  real x;\n}\nmodel {\n  x ~ normal(0, 1);\n}\n"
COMPILE = (
    "import sys; from stan_models import StanProgram; print(StanProgram(sys.argv[1]).compile())"
)


def compiling(path: Path) -> subprocess.Popen[str]:
    """Another process that compiles the program at ``path``."""
    command = [sys.executable, "-c", COMPILE, str(path)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def left_over(cache: Path) -> list[Path]:
    return list((cache / "programs").glob(".*"))


def test_a_program_without_a_name_is_not_given_one_in_what_is_said(monkeypatch, capsys):
    monkeypatch.setattr("stan_models.program._compile", lambda stan_file: 1 / 0)
    for name, said in ((None, "compiling the Stan program ..."), ("mine", "Stan program mine ...")):
        with pytest.raises(ZeroDivisionError):
            StanProgram("parameters { real never_built; }", name).compile()
        assert said in capsys.readouterr().err


def test_two_processes_compile_at_once(fresh_cache, tmp_path):
    path = tmp_path / "twice.stan"
    path.write_text(SOURCE)
    first, second = compiling(path), compiling(path)
    outputs = [process.communicate(timeout=600) for process in (first, second)]
    assert first.returncode == second.returncode == 0, outputs
    assert outputs[0][0] == outputs[1][0]
    built = "compiling Stan program twice ..."
    assert sum(built in errors for _, errors in outputs) == 1
    assert StanProgram(path).density().log_density([0.0]) == pytest.approx(-0.9189385332)
    assert left_over(fresh_cache) == []


def test_killed_compilation_is_done_again(fresh_cache, tmp_path):
    path = tmp_path / "killed.stan"
    path.write_text(SOURCE)
    process = compiling(path)
    while not left_over(fresh_cache):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert len(left_over(fresh_cache)) == 1
    assert StanProgram(path).compile().is_file()
    assert left_over(fresh_cache) == []


def test_compiled_program_is_found_again(program):
    first = program("gaussian").compile()
    before = first.stat().st_mtime_ns
    again = StanProgram(program("gaussian").path)
    assert again.compile() == first and first.stat().st_mtime_ns == before
    assert os.access(first, os.X_OK) and again.library().is_file()


def test_source_decides_the_cache(toolchain):
    one, other = StanProgram(SOURCE), StanProgram(SOURCE.replace("0, 1", "0, 2"))
    assert one.directory == StanProgram(SOURCE).directory != other.directory


def test_program_by_text_path_and_name(tmp_path):
    path = tmp_path / "my-model 2.stan"
    path.write_text(SOURCE)
    assert StanProgram(SOURCE).name == "program"
    assert StanProgram(path).name == StanProgram(str(path)).name == "my_model_2"
    assert StanProgram(SOURCE, name="eight_schools").name == "eight_schools"
    assert StanProgram(path).source == SOURCE


def test_missing_and_wrong_files(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.stan"):
        StanProgram("nowhere.stan")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.stan"):
        StanProgram(tmp_path / "nowhere.stan")
    with pytest.raises(ValueError, match=r"must end in \.stan"):
        StanProgram(tmp_path)
    with pytest.raises(ValueError, match="is empty"):
        StanProgram("  \n")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("real x real", '";" expected|Expected ";"'),  # Stan 2.35, Stan 2.39
        ("rael x;", "Expected top-level"),
        ("vector[K] x;", "['\"]K['\"] not"),
    ],
)
def test_invalid_programs_show_stancs_message(fresh_cache, wrong, message):
    with pytest.raises(StanCompileError, match="'broken' is not valid") as caught:
        StanProgram(SOURCE.replace("real x;", wrong), name="broken").compile()
    assert "'broken.stan', line 2" in str(caught.value) and re.search(message, str(caught.value))
    assert list((fresh_cache / "programs").glob("[!.]*/")) == [] == left_over(fresh_cache)


def test_included_files_are_part_of_the_program(toolchain, tmp_path):
    path = tmp_path / "outer.stan"
    path.write_text(SOURCE.replace("model {", "#include inner.stan\nmodel {"))
    with pytest.raises(StanCompileError, match=r"inner\.stan"):
        _ = StanProgram(path).source
    inner = tmp_path / "inner.stan"
    inner.write_text("transformed parameters {\n  real y = 2 * x;\n}\n")
    first = StanProgram(path)
    assert "real y = 2 * x;" in first.source and "#include" not in first.source
    inner.write_text("transformed parameters {\n  real y = 3 * x;\n}\n")
    assert StanProgram(path).directory != first.directory
    with pytest.raises(ValueError, match="given as text"):
        _ = StanProgram(path.read_text()).source


def test_cmdstanpys_own_methods_run_on_it(program):
    """What the driver's tests do not reach: the model object that a `StanProgram` hands out."""
    model = program("gamma_poisson").cmdstan_model
    data = {"N": 2, "y": [1, 3], "shape": 2.0, "scale": 1.0}
    assert model.name == "gamma_poisson" and "rate" in model.src_info()["parameters"]
    best = model.optimize(data, seed=1, jacobian=False)
    assert best.optimized_params_dict["rate"] == pytest.approx((2 + 4 - 1) / (1 + 2), rel=1e-4)
    fit = model.sample(data, chains=1, iter_sampling=50, seed=1, show_progress=False)
    new = model.generate_quantities(data, previous_fit=fit, seed=1)
    assert new.stan_variable("next").shape == (50,)
    gradient = model.log_prob({"rate": 1.5}, data, sig_figs=18)
    density = program("gamma_poisson").density(data)
    expected = density.log_density_gradient([np.log(1.5)])[1][0]
    assert gradient.iloc[0, 1] == pytest.approx(expected, rel=1e-8)


def test_arrays_are_ordered_by_element():
    stans = ["a.1.1", "a.2.1", "a.1.2", "a.2.2", "b", "c.1.1", "c.2.1", "c.1.10", "c.2.10"]
    assert in_order(stans, {"a": 1, "c": 0}) == ["a.1.1", "a.1.2", "a.2.1", "a.2.2", *stans[4:]]
    assert in_order(stans[5:], {"c": 2}) == ["c.1.1", "c.1.10", "c.2.1", "c.2.10"]
