from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import arviz as az
import numpy as np
import pytest

import pymc_ext as px
from bridge.__main__ import main
from bridge.advice.fit import LADDER, Advice, Attempt
from bridge.measures.limits import KHAT_USABLE
from bridge.methods.named_draws import NamedDraws
from tests.bridge.conftest import GAUSSIAN
from tests.bridge.test_requested_groups import PROGRAM as REQUESTED
from tests.needed import needs

ROOT = Path(__file__).resolve().parents[2]


def compare(database: Path, out: Path, *more: str) -> int:
    where = ["--database", str(database), "--out", str(out), "--jobs", "1"]
    return main(["compare", GAUSSIAN, *where, "--draws", "2000", "--seeds", "1", *more])


def test_compare_prints_tables_and_writes_files(
    gaussian_database, gaussian_methods, tmp_path, capsys
) -> None:
    assert compare(gaussian_database, tmp_path) == 0
    printed = capsys.readouterr().out
    for text in (GAUSSIAN, "exact 7.2500", "wide", "failed: FloatingPointError: no fit on purpose"):
        assert text in printed
    assert (tmp_path / "table.csv").read_text().count("\n") == 1 + len(gaussian_methods)


def test_compare_fails_if_every_run_does(gaussian_database, gaussian_methods, tmp_path) -> None:
    assert compare(gaussian_database, tmp_path, "--methods", "broken") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["compare", "correlated_6-gaussian"], "correlated_5-gaussian"),
        (["compare", "--methods", "stan-nut"], "stan-nuts"),
        (["compare", "--database", "/nowhere"], "/nowhere"),
        (["generate", "cauchy_7"], "cauchy_6-cauchy_location"),
        (["compare", "--draws", "10"], "at least 200 draws"),
    ],
)
def test_a_wrong_request_is_answered_in_a_sentence(arguments, expected, tmp_path, capsys) -> None:
    if arguments[0] == "compare":
        arguments = [*arguments, "--out", str(tmp_path)]
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert expected in error and "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "good.stan", "--draws", "-5"], "--draws: must be an integer >= 4, got -5"),
        (["fit", "good.stan", "--draws", "many"], "--draws: must be an integer >= 4, got many"),
        (["fit", "good.stan", "--seed", "-1"], "--seed: must be an integer >= 0, got -1"),
        (["fit", "good.stan", "--ess", "nan"], "--ess: must be a positive number, got nan"),
        (["fit", "good.stan", "--effort", "x"], "--effort: must be a positive number, got x"),
        (["fit", "good.stan", "--khat", "nan"], "--khat: must be a positive number, got nan"),
        (["compare", "--jobs", "0"], "--jobs: must be an integer >= 1, or -1 for all cores, got 0"),
        (["compare", "--seeds", "0"], "--seeds: must be an integer >= 1, got 0"),
        (["sweep", "--run-limit", "-3"], "--run-limit: must be a positive number, got -3"),
        (["calibrate", "m.py", "--simulations", "0"], "--simulations: must be an integer >= 1"),
    ],
)
def test_a_number_out_of_range_names_the_option(arguments, message, capsys) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ft", "a.stan"], "; did you mean fit?"),
        (["compare", "--methds", "laplace"], "; did you mean --methods?"),
        (["fit", "a.stan", "--want", "densty"], "; did you mean density?"),
        (["fit", "--methods", "laplace", "a.stan"], "; write it first, as an option such as"),
    ],
)
def test_a_wrong_word_is_answered_with_the_near_one(words, said, capsys) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert said in capsys.readouterr().err


def test_list_names_cases_and_methods(capsys) -> None:
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for text in ("eight_schools-eight_schools_noncentered", "-31.3113", "stan-pathfinder"):
        assert text in printed


PROGRAM = "parameters { real x; } model { x ~ std_normal(); }"
WRONG_FITS = [
    (["gone.stan", "good.json"], "no Stan program at gone.stan"),
    (["good.json"], "must end in .stan, got good.json"),
    (["good.stan", "gone.json"], "no data file at gone.json"),
    (["good.stan", "broken.json"], "broken.json is not JSON"),
    (["good.stan", "list.json"], "list.json must hold values by name"),
    (["good.stan", "list.json"], "got a JSON list"),
    (["bytes.stan"], "bytes.stan is no Stan program, as it is not text"),
    (["good.stan", "--methods", "laplac"], "did you mean laplace"),
    (["good.stan", "--seed", "9999999999"], "--seed must be None or an integer from 0 to 2**32"),
    (["good.stan", "--draws", str(10**13)], f"--draws={10**13} takes at least 160,000 GB"),
    (["good.stan", "--prior", "mu"], "--prior must be PARAMETER=NAME"),
    (["good.stan", "--posterior-predictive", "y=a", "b"], "must be names, or each a DATA=NAME"),
    (["good.stan", "--methods", "stan-nuts"], "must name approximations, got ['stan-nuts']"),
]


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """A folder to work in, with a program, data and a file of earlier draws."""
    (tmp_path / "good.stan").write_text(PROGRAM)
    for name, text in {"good": "{}", "broken": "{", "list": "[1, 2]"}.items():
        (tmp_path / f"{name}.json").write_text(text)
    (tmp_path / "bytes.stan").write_bytes(b"\xff\xfe")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe")
    (tmp_path / "posterior.nc").write_text("mine")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("arguments", "expected"), WRONG_FITS)
def test_what_cannot_be_fitted_is_said_before_the_file_that_exists(
    arguments, expected, files, capsys
) -> None:
    assert main(["fit", *arguments]) == 2
    error = capsys.readouterr().err
    assert expected in error and "exists" not in error
    assert (files / "posterior.nc").read_text() == "mine"


def test_a_file_that_exists_is_said_before_anything_is_compiled(files, capsys) -> None:
    (files / "good.stan").write_text("not Stan")
    assert main(["fit", "good.stan", "good.json"]) == 2
    assert "posterior.nc exists: give --overwrite" in capsys.readouterr().err
    assert main(["fit", "good.stan", "--out", "nowhere/draws.nc"]) == 2
    assert "existing folder, got nowhere/draws.nc" in capsys.readouterr().err
    (files / "folder.nc").mkdir()
    assert main(["fit", "good.stan", "--out", "folder.nc", "--overwrite"]) == 2
    assert "must name a .nc file in an existing folder, got folder.nc" in capsys.readouterr().err
    density = ["fit", "good.stan", "--out", "draws.nc", "--save-density"]
    assert main([*density, "q.nc"]) == 2
    assert "--save-density must name a .npz file in an existing folder" in capsys.readouterr().err
    (files / "q.npz").touch()
    assert main([*density, "q.npz"]) == 2
    expected = "q.npz exists: give --overwrite, or another file with --save-density"
    assert expected in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_said_before_the_fit(files, monkeypatch, capsys) -> None:
    def refused(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("bridge.command_line.requests.TemporaryFile", refused)
    assert main(["fit", "good.stan", "--out", "draws.nc"]) == 2
    assert "--out cannot be written, got draws.nc: Permission denied;" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments", [["compare"], ["sweep", "--zoo"], ["calibrate", "good.stan"], ["report", "."]]
)
def test_a_file_in_place_of_the_folder_is_said_first(arguments, files, capsys) -> None:
    (files / "records.sqlite").touch()
    assert main([*arguments, "--out", "posterior.nc"]) == 2
    assert "--out must name a folder, got the file posterior.nc" in capsys.readouterr().err


def test_what_calibrate_lacks_is_said_in_its_options(files, capsys) -> None:
    assert main(["calibrate", "good.stan"]) == 2
    assert "give --simulate FILE, with prior(rng)" in capsys.readouterr().err
    assert main(["calibrate", "good.stan", "--data", "bytes.json"]) == 2
    assert "bytes.json is not JSON: 'utf-8' codec" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "goes_on"), [("compare", True), ("list", False)])
def test_only_what_keeps_records_goes_on_after_an_interrupt(
    command, goes_on, monkeypatch, capsys
) -> None:
    def interrupted(arguments) -> None:
        raise KeyboardInterrupt(*words)

    monkeypatch.setattr("bridge.command_line.requests.require_possible", interrupted)
    words = ["interrupted before the end: nothing is kept"]
    assert main([command]) == 130
    assert capsys.readouterr().err.splitlines()[0].startswith(words[0])
    words = []
    assert main([command]) == 130
    said = capsys.readouterr().err
    assert said.startswith("interrupted") and ("goes on where" in said) == goes_on


HEAVY = ("pymc", "pytensor", "arviz", "pandas", "matplotlib", "xarray", "scipy.stats", "numba")
QUICK = [
    ["fit", "good.stan", "--methods", "laplac"],
    ["fit", "good.stan", "list.json"],
    ["compare", "correlated_6-gaussian"],
    ["compare", "--methods", "stan-nut"],
    ["compare", "--draws", "10"],
    ["sweep", "--database", "gone"],
    ["sweep", "--zoo", "rings"],
    ["calibrate", "gone.py"],
    ["calibrate", "good.stan", "--simulate", "gone.py"],
    ["calibrate", "good.stan", "--data", "list.json"],
    ["calibrate", "good.stan", "--method", "laplac"],
    ["report", "gone"],
    ["generate", "cauchy_7"],
    ["list", "--database", "gone"],
]


def loaded(arguments: list[str], expected_status: int) -> set[str]:
    """What a process has loaded that was asked for this."""
    code = (
        "import json, sys\nfrom bridge.__main__ import main\n"
        "try: status = main(sys.argv[1:])\nexcept SystemExit as end: status = end.code\n"
        "print(json.dumps([status, *sys.modules]))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    status, *modules = json.loads(run.stdout.splitlines()[-1])
    assert status == expected_status, run.stderr
    return set(modules)


@pytest.mark.parametrize("arguments", QUICK, ids=" ".join)
def test_a_wrong_request_is_refused_before_anything_heavy_is_loaded(arguments, files) -> None:
    heavy = loaded(arguments, 2) & set(HEAVY)
    assert not heavy


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        (["fit", "good.stan", "--methods", "laplac"], "bridge.methods.table"),
        (["compare", "correlated_6-gaussian"], "bridge.measures.limits"),
    ],
    ids=["methods", "limits"],
)
def test_tables_are_read_without_scipy(arguments, read, files) -> None:
    """Which takes half of the time to say that a name is wrong."""
    modules = loaded(arguments, 2)
    assert read in modules and not {"scipy.special", "scipy.linalg"} & modules


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], ["comapre"]])
def test_help_loads_no_array_library(arguments) -> None:
    heavy = {"numpy", "rich", *HEAVY} & loaded(arguments, 2 if arguments == ["comapre"] else 0)
    assert not heavy


def test_help_states_the_defaults_of_fit(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    printed = " ".join(capsys.readouterr().out.split())
    assert f"good enough below (default {KHAT_USABLE:g})" in printed
    assert f"in this order (default {' '.join(LADDER)})" in printed


@pytest.mark.parametrize(
    ("called", "named"),
    [
        ("/usr/bin/trusted-posteriors", "trusted-posteriors"),
        ("trusted-posteriors.exe", "trusted-posteriors"),
        ("/site/trusted_posteriors/__main__.py", "python -m trusted_posteriors"),
        ("/site/bridge/__main__.py", "python -m bridge"),
    ],
)
def test_usage_names_what_was_called(called, named, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [called, "--help"])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.startswith(f"usage: {named} [-h]")


@pytest.mark.stan
def test_parameters_of_length_zero_are_left_out(files, capsys) -> None:
    program = """
        data { int<lower=0> K; }
        parameters { real mu; vector[K] beta; array[K] real<lower=0> s; }
        model { mu ~ std_normal(); beta ~ std_normal(); s ~ exponential(1); }
        generated quantities { vector[K] twice = 2 * beta; }
    """
    (files / "good.stan").write_text(program)
    (files / "good.json").write_text('{"K": 0}')
    assert main(["fit", "good.stan", "good.json", "--overwrite", "--draws", "100"]) == 0
    printed = capsys.readouterr().out
    assert "mu" in printed and "beta" not in printed and "twice" not in printed


@pytest.mark.stan
def test_the_density_is_kept_on_request(files, capsys) -> None:
    call = ["fit", "good.stan", "--overwrite", "--save-density", "q.npz"]
    assert main(call) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "density written to q.npz its own draws, unweighted: ELBO 0.000, KL(q‖p) 0.000" in said
    law = px.load("q.npz")
    np.testing.assert_allclose(law.logpdf([[0.0]]), -0.5 * np.log(2 * np.pi))


def test_where_chains_answered_there_is_no_density(files, monkeypatch, capsys) -> None:
    draws = NamedDraws({"x": np.zeros((4, 5))}, {})
    answer = Advice("warm-nuts", (Attempt.without_answer("warm-nuts", "made up"),), None, draws)
    monkeypatch.setattr("bridge.command_line.fit.fit", lambda *args, **options: answer)
    call = ["fit", "good.stan", "--overwrite", "--save-density", "q.npz"]
    assert main(call) == 3 and not (files / "q.npz").exists()
    said = "no density to save: warm-nuts gave draws alone"
    assert f"{said}: try --want density" in capsys.readouterr().out
    assert main([*call, "--want", "density"]) == 3
    assert f"{said}\n" in capsys.readouterr().out
    images = Advice("images", (Attempt.without_answer("images", "made up"),), None, draws)
    monkeypatch.setattr("bridge.command_line.fit.fit", lambda *args, **options: images)
    assert main(call) == 3
    assert "images of one fit by a change that is not linear" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(("doubts", "status"), [((), 0), (("R̂ = 1.05",), 3)])
def test_draws_that_are_not_to_be_trusted_are_written_and_the_status_says_so(
    doubts, status, files, monkeypatch, capsys
) -> None:
    draws = NamedDraws({"x": np.arange(20.0).reshape(4, 5)}, {})
    tried = (Attempt.without_answer("nuts", "made up"),)
    answer = Advice("nuts", tried, None, draws, doubts=doubts)
    monkeypatch.setattr("bridge.command_line.fit.fit", lambda *args, **options: answer)
    assert main(["fit", "good.stan", "--out", "draws.nc"]) == status
    printed = capsys.readouterr().out
    assert "draws written to draws.nc" in printed
    assert ("taken: nuts (not trusted)\nnot trusted: R̂ = 1.05" in printed) == bool(doubts)
    np.testing.assert_array_equal(az.from_netcdf("draws.nc")["posterior"]["x"], draws.values["x"])


@pytest.mark.stan
@pytest.mark.parametrize(
    ("model", "words"),
    [
        (
            "",
            ["q kept widening along ['x[1]', 'x[2]', 'x[3]']", "looks improper, and NUTS gave no"],
        ),
        (
            "if (max(abs(x)) > 0.1) target += negative_infinity(); else target += 1e300;",
            ["finite at fewer than half of the draws", "Initialization failed"],
        ),
    ],
    ids=["improper", "Stan's NUTS ends with its error"],
)
def test_a_posterior_without_an_answer_is_no_wrong_call(model, words, files, capsys) -> None:
    (files / "good.stan").write_text(f"parameters {{ vector[3] x; }} model {{ {model} }}")
    assert main(["fit", "good.stan", "--overwrite"]) == 3
    printed = capsys.readouterr()
    assert not printed.err.startswith("error") and (files / "posterior.nc").read_text() == "mine"
    text = " ".join(printed.out.split())
    for word in ("hierarchical: failed: ", "not trusted: no draws: ", *words):
        assert word in text


@pytest.mark.parametrize("kept_as", ["NamedDraws", "InferenceData"])
def test_arrays_leave_room_for_scalars(kept_as, files, monkeypatch, capsys) -> None:
    sizes = {"beta": (3,), "y_rep": (1000,), "sigma": (), "Omega": (6, 6), "last": ()}
    rng = np.random.default_rng(1)
    draws = NamedDraws({name: rng.normal(size=(4, 5, *shape)) for name, shape in sizes.items()}, {})
    made = draws if kept_as == "NamedDraws" else draws.inference_data()
    answer = Advice("nuts", (Attempt.without_answer("nuts", "made up"),), None, made)
    monkeypatch.setattr("bridge.command_line.fit.fit", lambda *args, **options: answer)
    assert main(["fit", "good.stan", "--out", "draws.nc"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[0] == " "]
    assert rows == ["mean", *(f"beta[{i}]" for i in (1, 2, 3)), "sigma", "last", "y_rep:", "Omega:"]
    assert az.from_netcdf("draws.nc")["posterior"]["y_rep"].shape == (4, 5, 1000)


@pytest.mark.stan
def test_predictions_and_data_of_a_program_have_groups_in_the_file(files, capsys) -> None:
    shutil.copy(ROOT / "tests/stan_models/programs/replicated.stan", files / "good.stan")
    (files / "good.json").write_text('{"N": 3, "y": [1.2, -0.7, 3.1]}')
    call = ["fit", "good.stan", "good.json", "--out", "draws.nc", "--draws", "400"]
    named = ["--posterior-predictive", "y_rep", "--observed-data", "y"]
    assert main([*call, *named]) == 0
    printed = capsys.readouterr().out
    assert "mu" in printed and "y_rep" not in printed and "log_lik" not in printed
    kept = az.from_netcdf("draws.nc")
    assert list(kept["posterior"].data_vars) == ["mu", "twice"]
    assert kept["posterior_predictive"]["y_rep"].shape == (4, 100, 3)
    assert kept["log_likelihood"]["log_lik"].shape == (4, 100, 3)
    np.testing.assert_array_equal(kept["observed_data"]["y"], [1.2, -0.7, 3.1])
    assert kept["constant_data"]["N"].item() == 3
    assert kept["posterior"].attrs["trusted"] == 1
    assert main([*call, "--overwrite", "--posterior-predictive", "y_rp"]) == 2
    assert "got ['y_rp']; it generates ['y_rep', 'twice']" in capsys.readouterr().err


@pytest.mark.stan
def test_groups_are_asked_for_by_options(files, capsys) -> None:
    (files / "good.stan").write_text(REQUESTED)
    (files / "good.json").write_text('{"N": 4, "y": [1.2, -0.7, 3.1, 0.4]}')
    call = ["fit", "good.stan", "good.json", "--out", "draws.nc", "--draws", "400"]
    predicted = ["--posterior-predictive", "y=y_rep"]
    asked = ["--log-likelihood", "--log-prior", "--prior", "mu=mu_prior"]
    assert main([*call, *predicted, *asked]) == 0
    kept = az.from_netcdf("draws.nc")
    assert list(kept["posterior"].data_vars) == ["mu", "sigma"]
    for group, names in {
        "posterior_predictive": ["y"], "observed_data": ["y"], "constant_data": ["N"],
        "log_likelihood": ["log_lik"], "log_prior": ["lprior"], "prior": ["mu"],
    }.items():  # fmt: skip
        assert list(kept[group].data_vars) == names
    capsys.readouterr()
    for words, sentence in (
        (["--posterior-predictive", "y=y_rep", "mu_prior"], "must be names, or each a DATA=NAME"),
        (["--posterior-predictive", "y="], "must be names, or each a DATA=NAME"),
        (["--prior", "mu_prior"], "must be PARAMETER=NAME"),
        (["--prior", "mu=mu_pior"], "did you mean mu_prior?"),
    ):
        assert main([*call, "--overwrite", *words]) == 2
        assert sentence in " ".join(capsys.readouterr().err.split())


def test_the_version_is_that_of_what_is_installed(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    version = metadata.version("trusted-posteriors")
    assert capsys.readouterr().out == f"trusted-posteriors {version}\n"


def test_shells_complete_commands_options_and_choices() -> None:
    needs("shtab")
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    command = [sys.executable, "-m", "bridge", "--print-completion", "bash"]
    script = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout

    def completed(*words: str) -> list[str]:
        line = " ".join(f'"{word}"' for word in ("trusted-posteriors", *words))
        ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _shtab_trusted_posteriors"
        bash = f'{script}\n{ask}; echo "${{COMPREPLY[@]}}"'
        return subprocess.run(
            ["bash", "-c", bash], check=True, capture_output=True, text=True
        ).stdout.split()

    assert completed("fi") == ["fit"]
    assert completed("fit", "--wa") == ["--want"]
    assert completed("fit", "--want", "") == ["draws", "density"]


def test_completion_without_shtab_says_what_to_install(monkeypatch, capsys) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit, match="2"):
        main(["--print-completion", "bash"])
    assert "pip install shtab" in capsys.readouterr().err
