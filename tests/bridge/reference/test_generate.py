"""Reference draws: what is admitted is written with its record, what is not leaves no trace."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import bridge.reference.generate
from bridge.__main__ import main
from bridge.comparison.sweep import cases_with_reference
from bridge.errors import NoModelError
from bridge.reference.admission import AdmissionError, admission_checks, diagnose
from bridge.reference.generate import generate
from posteriordb_cases import EMBEDDED, list_cases, load_case
from stan_models.errors import StanCompileError, StanRunError
from tests.tolerances import monte_carlo

GAUSSIAN = "correlated_5-gaussian"
NONCENTERED = "eight_schools-eight_schools_noncentered"
CENTERED = "eight_schools-eight_schools_centered"
POSTERIORDB_CHECKS = {
    "ndraws_is_10k",
    "nchains_is_gte_4",
    "ess_within_bounds",
    "r_hat_below_1_01",
    "efmi_above_0_2",
    "abs_mean_lag1_ac_below_0_05",
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A copy of the embedded database without any reference draws."""
    root = tmp_path / "posterior_database"
    shutil.copytree(EMBEDDED, root, ignore=shutil.ignore_patterns("reference_posteriors"))
    return root


def independent_fit(case: Any, settings: dict[str, Any]) -> dict[str, xr.Dataset]:
    """What NUTS would return if its draws were independent normal ones."""
    rng = np.random.default_rng(settings["seed"])
    shape = (settings["chains"], settings["iter"] - settings["warmup"])
    dims = ("chain", "draw")
    posterior = {
        name: (dims, rng.normal(size=shape))
        if n == 1
        else ((*dims, f"{name}_dim_0"), rng.normal(size=(*shape, n)))
        for name, n in case.dimensions.items()
    }
    stats = {
        "energy": (dims, rng.normal(size=shape)),
        "diverging": (dims, np.zeros(shape, dtype=bool)),
    }
    attributes = {"engine": "none", "stan_version": "0.0.0", "seconds": 1.0}
    return {"posterior": xr.Dataset(posterior, attrs=attributes), "sample_stats": xr.Dataset(stats)}


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Replace Stan by independent draws, changed by a function; returns the sampled cases."""

    def install(change: Callable[[Any], None] = lambda fit: None) -> list[str]:
        sampled: list[str] = []

        def sample(case: Any, settings: dict[str, Any], timeout: float | None) -> Any:
            sampled.append(case.name)
            fit = independent_fit(case, settings)
            change(fit)
            return fit

        monkeypatch.setattr(bridge.reference.generate, "_sample", sample)
        return sampled

    return install


def written_files(database: Path) -> list[Path]:
    return sorted((database / "reference_posteriors").rglob("*.*"))


def test_admitted_draws_are_written_with_posteriordbs_record(database: Path, sampler) -> None:
    sampler()
    path = generate(GAUSSIAN, database=database, random_seed=7, warmup=500, thin=2)
    case = load_case(GAUSSIAN, database)
    assert path == case.reference_path and len(written_files(database)) == 2
    assert case.reference_draws()["posterior"]["x"].shape == (10, 1000, 5)
    info = case.reference_info
    assert info["inference"]["method_arguments"] == {
        "chains": 10, "iter": 2500, "warmup": 500, "thin": 2, "seed": 7,
        "control": {"adapt_delta": 0.95},
    }  # fmt: skip
    assert set(info["checks_made"]) == POSTERIORDB_CHECKS | {"no_divergent_transitions"}
    assert all(info["checks_made"].values())
    assert info["diagnostics"]["diagnostic_information"]["names"] == [
        f"x[{i}]" for i in range(1, 6)
    ]
    assert info["versions"] == {"engine": "none", "stan_version": "0.0.0"}


def test_every_thinth_draw_is_kept(database: Path, sampler) -> None:
    fits: list[Any] = []
    sampler(fits.append)
    generate(GAUSSIAN, database=database, thin=3, random_seed=3)
    kept = load_case(GAUSSIAN, database).reference_draws()["posterior"]["x"].values
    np.testing.assert_allclose(kept, fits[0]["posterior"]["x"].values[:, 2::3], rtol=1e-7)


def test_centered_eight_schools_take_the_noncentered_program(database: Path, sampler) -> None:
    sampled = sampler()
    generate(CENTERED, database=database, thin=1, random_seed=3)
    assert sampled == [NONCENTERED]
    case = load_case(CENTERED, database)
    assert case.has_reference and CENTERED in case.reference_info["comments"]
    assert set(case.reference_draws()["posterior"].data_vars) == {"mu", "tau", "theta"}


def sticky(fit: Any) -> None:
    x = fit["posterior"]["x"].values
    x[:, 1::2] = x[:, ::2]


def antithetic(fit: Any) -> None:
    x = fit["posterior"]["x"].values
    x[:, 1::2, 0] = -x[:, ::2, 0]


def shifted_chain(fit: Any) -> None:
    fit["posterior"]["x"].values[0, :, 2] += 2


def rare_jumps(fit: Any) -> None:
    energy = fit["sample_stats"]["energy"].values
    energy[...] = np.cumsum(energy, axis=1)


def one_divergence(fit: Any) -> None:
    fit["sample_stats"]["diverging"].values[3, 16] = True


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (sticky, r"abs_mean_lag1_ac_below_0_05 \(0\.\d+ for x\[\d\]\).*raise thin"),
        (
            antithetic,
            r"ess_within_bounds \(expected 8942 to 11058 but for 1 of 10 values, got bulk "
            r"\d+.* for x\[1\]",
        ),
        (shifted_chain, r"r_hat_below_1_01 \(1\.\d+ for x\[3\]\)"),
        (rare_jumps, r"efmi_above_0_2 \(0\.0\d+\): reparametrise"),
        (one_divergence, r"no_divergent_transitions \(1 divergent .*adapt_delta"),
    ],
)
def test_failed_check_is_named_with_a_remedy_and_nothing_is_written(
    database: Path, sampler, change: Callable[[Any], None], message: str
) -> None:
    sampler(change)
    with pytest.raises(AdmissionError, match=f"{GAUSSIAN} are not written.*{message}"):
        generate(GAUSSIAN, database=database, thin=1)
    (record,) = written_files(database)
    refused = json.loads(record.read_text())
    assert record.name == f"{GAUSSIAN}.refused.json" and not all(refused["checks_made"].values())
    assert re.search(message, refused["refused"]) and refused["inference"]["seconds"] >= 0
    assert not load_case(GAUSSIAN, database).has_reference


def test_divergence_between_kept_draws_counts(database: Path, sampler) -> None:
    sampler(one_divergence)  # transition 16 (from 0) is not among those kept with thin=2
    with pytest.raises(AdmissionError, match="1 divergent"):
        generate(GAUSSIAN, database=database, thin=2)


def test_failed_check_keeps_earlier_draws(database: Path, sampler) -> None:
    sampler()
    generate(GAUSSIAN, database=database, thin=1)
    before = [path.read_bytes() for path in written_files(database)]
    sampler(one_divergence)
    with pytest.raises(AdmissionError):
        generate(GAUSSIAN, database=database, thin=1)
    draws, info, refused = written_files(database)
    assert [path.read_bytes() for path in (draws, info)] == before
    assert refused.name == f"{GAUSSIAN}.refused.json"
    sampler()
    generate(GAUSSIAN, database=database, thin=1)
    assert written_files(database) == [draws, info]  # what is admitted is refused no more


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ({"chains": 3}, "chains must divide 10000, got 3"),
        ({"thin": 0}, "thin must be >= 1, got 0"),
        ({"adapt_delta": 1.0}, r"adapt_delta must be in \(0, 1\), got 1\.0"),
    ],
)
def test_counts_out_of_range(database: Path, sampler, counts: dict, message: str) -> None:
    sampled = sampler()
    with pytest.raises(ValueError, match=message):
        generate(GAUSSIAN, database=database, **counts)
    assert sampled == []


def test_dependent_draws_are_thinned_more(
    database: Path, sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge.reference.generate, "THINNING", (1, 3, 9))
    sampled = sampler(sticky)
    generate(GAUSSIAN, database=database)
    assert sampled == [GAUSSIAN, GAUSSIAN]
    settings = load_case(GAUSSIAN, database).reference_info["inference"]["method_arguments"]
    assert settings["thin"] == 3 and settings["iter"] - settings["warmup"] == 3000


def test_divergences_are_met_by_smaller_steps(database: Path, sampler) -> None:
    fits: list[Any] = []

    def diverge_twice(fit: Any) -> None:
        fits.append(fit)
        if len(fits) <= 2:
            one_divergence(fit)

    sampler(diverge_twice)
    generate(GAUSSIAN, database=database, thin=1)
    settings = load_case(GAUSSIAN, database).reference_info["inference"]["method_arguments"]
    assert settings["control"] == {"adapt_delta": 0.999} and settings["thin"] == 1


def test_smallest_steps_are_judged_too(database: Path, sampler) -> None:
    sampled = sampler(one_divergence)
    with pytest.raises(AdmissionError, match="no_divergent_transitions"):
        generate(GAUSSIAN, database=database, thin=1)
    assert len(sampled) == 3 and not load_case(GAUSSIAN, database).has_reference


def test_the_last_thinning_is_judged_too(
    database: Path, sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge.reference.generate, "THINNING", (1, 2))
    sampled = sampler(shifted_chain)
    with pytest.raises(AdmissionError, match="r_hat_below_1_01"):
        generate(GAUSSIAN, database=database)
    assert len(sampled) == 2 and not load_case(GAUSSIAN, database).has_reference


def test_database_that_cannot_be_written(
    database: Path, sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = sampler()
    monkeypatch.setattr(bridge.reference.generate.os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError, match=r"cannot be written.*--database"):
        generate(GAUSSIAN, database=database)
    assert sampled == []


def test_github_cannot_be_written(sampler) -> None:
    sampled = sampler()
    with pytest.raises(ValueError, match="GitHub cannot be written"):
        generate(GAUSSIAN, database="github")
    assert sampled == []


def test_too_few_chains_are_refused(database: Path, sampler) -> None:
    sampler()
    with pytest.raises(AdmissionError, match=r"nchains_is_gte_4 \(2 chains\): choose chains >= 4"):
        generate(GAUSSIAN, database=database, chains=2, thin=1)


def test_case_without_program_or_reference_name(database: Path, sampler) -> None:
    sampled = sampler()
    path = database / "posteriors" / f"{GAUSSIAN}.json"
    posterior = json.loads(path.read_text())
    info = database / "models" / "info"
    code = {"model_code": "models/stan/other.stan"}
    (info / "other.info.json").write_text(json.dumps({"model_implementations": {"stan": code}}))
    path.write_text(json.dumps(posterior | {"model_name": "other"}))
    with pytest.raises(NoModelError, match=r"no Stan program at models/stan/other\.stan"):
        generate(GAUSSIAN, database=database)
    assert sampled == []


@pytest.mark.parametrize("absent", [False, True])
def test_a_posterior_that_names_no_reference_is_its_own(
    database: Path, sampler, absent: bool
) -> None:
    sampled = sampler()
    path = database / "posteriors" / f"{GAUSSIAN}.json"
    text = path.read_text()
    named = f'"reference_posterior_name": "{GAUSSIAN}"'
    assert named in text
    path.write_text(text.replace(named, '"urls": []' if absent else named[:27] + " null"))
    assert load_case(GAUSSIAN, database).reference_name is None
    generate(GAUSSIAN, database=database, thin=1)
    case = load_case(GAUSSIAN, database)
    assert sampled == [GAUSSIAN] and case.has_reference and case.failed_checks == []
    assert path.read_text() == text or absent  # all else is as it was written
    assert json.loads(path.read_text())["dimensions"] == case.dimensions


def test_a_run_that_fails_is_recorded(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    def sample(case: Any, settings: dict[str, Any], timeout: float | None) -> Any:
        raise StanRunError(f"given up after {timeout} s")

    monkeypatch.setattr(bridge.reference.generate, "_sample", sample)
    command = ["generate", GAUSSIAN, "--database", str(database), "--timeout", "5"]
    assert main(command) == 1
    assert f"{GAUSSIAN}: refused: given up after 5.0 s" in capsys.readouterr().out
    monkeypatch.setattr(bridge.reference.generate, "_sample", None)  # not called again
    assert main(command) == 1
    assert "was refused before" in capsys.readouterr().out


@pytest.mark.parametrize("error", [StanCompileError("no program"), ValueError("no dimensions")])
def test_what_is_wrong_with_one_is_no_end_of_the_others(
    database: Path, sampler, monkeypatch, capsys, error: Exception
) -> None:
    sampled = sampler()
    made = bridge.reference.generate._sample

    def sample(case: Any, settings: dict[str, Any], timeout: float | None) -> Any:
        if case.name == GAUSSIAN:
            raise error
        return made(case, settings, timeout)

    monkeypatch.setattr(bridge.reference.generate, "_sample", sample)
    monkeypatch.setattr(bridge.reference.generate, "THINNING", (1,))
    command = ["generate", "--database", str(database), "--seed", "3", GAUSSIAN, NONCENTERED]
    assert main(command) == 1 and sampled == [NONCENTERED]
    assert f"{GAUSSIAN}: refused: {error}" in capsys.readouterr().out
    monkeypatch.setattr(bridge.reference.generate, "_sample", made)
    assert main(command) == 0 and sampled == [NONCENTERED, GAUSSIAN]  # such a thing is not kept


def test_refusals_are_tried_again_where_asked(database: Path, sampler, capsys) -> None:
    command = ["generate", "--database", str(database), "--seed", "3", GAUSSIAN]
    sampled = sampler(shifted_chain)
    assert main(command) == 1 and main(command) == 1
    tries = len(sampled)
    sampled = sampler()
    assert main([*command, "--retry-refused"]) == 0 and tries == 3 and len(sampled) == 1
    sampler(shifted_chain)
    assert main([*command, "--overwrite"]) == 1
    assert "the draws that were there stay" in " ".join(capsys.readouterr().out.split())
    assert load_case(GAUSSIAN, database).has_reference


def test_a_command_goes_on_where_it_stopped(database: Path, sampler, monkeypatch, capsys) -> None:
    monkeypatch.setattr(bridge.reference.generate, "THINNING", (1,))
    sampled = sampler()
    command = ["generate", "--database", str(database), "--seed", "3", GAUSSIAN]
    assert main(command) == 0
    said = capsys.readouterr().out
    assert f"{GAUSSIAN}: 10,000 draws in " in said
    assert main([*command, NONCENTERED]) == 0 and sampled == [GAUSSIAN, NONCENTERED]
    assert "has reference draws" in capsys.readouterr().out
    assert main([*command, "--overwrite"]) == 0 and sampled[2:] == [GAUSSIAN]


def test_dimensions_the_program_does_not_have(database: Path, sampler) -> None:
    sampler(lambda fit: fit.update(posterior=fit["posterior"].drop_vars("mu")))
    with pytest.raises(ValueError, match="dimensions name mu, which the Stan program has not"):
        generate(NONCENTERED, database=database)


def test_diagnostics_of_known_series() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(10, 2000))
    ar = np.zeros_like(noise)
    for t in range(1, 2000):
        ar[:, t] = 0.5 * ar[:, t - 1] + noise[:, t]
    stats = {"energy": ar, "diverging": np.zeros_like(ar)}
    found = diagnose({"x": ar}, stats)
    # an AR(1) series of 20,000 values: lag-1 autocorrelation 1/2, ESS n/3, E-FMI 2 (1 - 1/2)
    assert found["mean_lag1_ac"][0] == pytest.approx(0.5, abs=monte_carlo((0.75 / 20_000) ** 0.5))
    assert found["effective_sample_size_bulk"][0] == pytest.approx(20_000 / 3, rel=0.1)
    assert found["expected_fraction_of_missing_information"] == pytest.approx([1.0] * 10, abs=0.1)
    assert found["r_hat"][0] == pytest.approx(1, abs=0.01)
    assert not admission_checks(found)["ess_within_bounds"]


@pytest.mark.corpus
def test_our_checks_admit_what_posteriordb_admitted(corpus: Path) -> None:
    root = corpus / "posteriordb"
    for name in list_cases(root):
        info = load_case(name, root).reference_info
        if info is not None:
            checks = admission_checks(info["diagnostics"])
            assert {k: checks[k] for k in info["checks_made"]} == info["checks_made"], name
            assert checks["no_divergent_transitions"], name


@pytest.mark.corpus
def test_our_diagnostics_are_posteriordbs(corpus: Path) -> None:
    case = load_case("eight_schools", corpus / "posteriordb")
    posterior = case.reference_draws()["posterior"]
    n = posterior.sizes["draw"]
    stats = {"energy": np.zeros((10, n)) + np.arange(n), "diverging": np.zeros((10, n))}
    found = diagnose({name: posterior[name].values for name in posterior.data_vars}, stats)
    stored = case.reference_info["diagnostics"]
    names = found["diagnostic_information"]["names"]
    order = [stored["diagnostic_information"]["names"].index(name) for name in names]
    for key in ("effective_sample_size_bulk", "effective_sample_size_tail", "r_hat"):
        np.testing.assert_allclose(found[key], np.array(stored[key])[order], rtol=0.02, err_msg=key)


@pytest.mark.parametrize("name", list_cases(EMBEDDED))
def test_embedded_draws_have_the_diagnostics_they_record(name: str) -> None:
    """The record was made before rounding to 8 digits and of all transitions: compare the rest."""
    case = load_case(name, EMBEDDED)
    source = load_case(case.reference_name, EMBEDDED)
    posterior = source.reference_draws()["posterior"]
    draws = {name: posterior[name].values for name in source.dimensions}
    energy = np.random.default_rng(0).normal(size=(10, 1000))
    found = diagnose(draws, {"energy": energy, "diverging": np.zeros((10, 1000))})
    for key, value in case.reference_info["diagnostics"].items():
        if key != "expected_fraction_of_missing_information":
            expected = value if key == "diagnostic_information" else pytest.approx(value, rel=1e-4)
            assert found[key] == expected, key


@pytest.mark.slow
@pytest.mark.stan
def test_stan_draws_of_a_gaussian_are_admitted_and_right(database: Path) -> None:
    generate(GAUSSIAN, database=database, random_seed=3, warmup=1000)
    case = load_case(GAUSSIAN, database)
    x = case.reference_draws()["posterior"]["x"].values.reshape(-1, 5)
    mean, sd = np.array(case.exact["mean"]["x"]), np.array(case.exact["sd"]["x"])
    ess = np.array(case.reference_info["diagnostics"]["effective_sample_size_bulk"])
    assert np.all(np.abs(x.mean(axis=0) - mean) < [monte_carlo(s) for s in sd / np.sqrt(ess)])


def test_draws_of_another_program_or_other_data_are_no_truth(
    database: Path, sampler, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(bridge.reference.generate, "THINNING", (1,))
    sampled = sampler()
    command = ["generate", "--database", str(database), "--seed", "3", NONCENTERED]
    assert main(command) == 0
    assert load_case(NONCENTERED, database).reference_fault is None
    assert load_case(CENTERED, database).reference_fault is None  # of the other's program

    program = load_case(NONCENTERED, database).stan_path
    assert program is not None and database in program.parents
    code = program.read_text()
    program.write_text("// said in other words\n" + code.replace(";", " ;"))
    assert main(command) == 0 and sampled == [NONCENTERED]
    program.write_text(code.replace("(mu | 0, 5)", "(mu | 0, 6)"))
    assert program.read_text() != code
    for name in (NONCENTERED, CENTERED):
        fault = load_case(name, database).reference_fault
        assert fault == "its reference draws were made before its program changed"
    capsys.readouterr()
    assert main(command) == 0 and sampled == [NONCENTERED] * 2
    assert f"{NONCENTERED}: 10,000 draws in " in capsys.readouterr().out
    assert load_case(CENTERED, database).reference_fault is None


def test_a_refusal_of_another_program_is_tried_again(database: Path, sampler, capsys) -> None:
    command = ["generate", "--database", str(database), "--seed", "3", GAUSSIAN]
    sampled = sampler(shifted_chain)
    assert main(command) == 1 and main(command) == 1
    tries = len(sampled)
    program = load_case(GAUSSIAN, database).stan_path
    assert program is not None and database in program.parents
    program.write_text(program.read_text() + "generated quantities { real y = 1; }")
    assert main(command) == 1 and len(sampled) == 2 * tries


def test_of_many_values_some_may_lie_outside_the_bounds_by_chance() -> None:
    rng = np.random.default_rng(1)
    draws = {"x": rng.standard_normal((10, 1000, 200))}
    stats = {"energy": rng.standard_normal((10, 1000)), "diverging": np.zeros((10, 1000))}
    found = diagnose(draws, stats)
    ess = np.array(found["effective_sample_size_bulk"] + found["effective_sample_size_tail"])
    off = abs(ess - 10_000) / 1058.3
    assert 0 < np.sum(off > 1) <= 6 and off.max() < 2  # binomial, of 400 values one in 150
    assert admission_checks(found)["ess_within_bounds"]
    few = found | {"effective_sample_size_bulk": [*ess[:193], *[8_900.0] * 7]}
    assert not admission_checks(few)["ess_within_bounds"]
    far = found | {"effective_sample_size_bulk": [*ess[:199], 7_800.0]}
    assert not admission_checks(far)["ess_within_bounds"]
    assert not admission_checks(found | {"r_hat": [1.0]})["ess_within_bounds"]  # of one value none


def test_files_that_cannot_be_read_are_no_end_of_the_others(
    database: Path, sampler, monkeypatch, capsys
) -> None:
    monkeypatch.setattr(bridge.reference.generate, "THINNING", (1,))
    sampled = sampler()
    command = ["generate", "--database", str(database), "--seed", "3"]
    assert main([*command, GAUSSIAN]) == 0
    (database / "data" / "data" / "correlated_5.json.zip").unlink()
    path = database / "posteriors" / f"{CENTERED}.json"
    path.write_text(path.read_text().replace(f'"{NONCENTERED}"', '"nowhere"'))
    assert main([*command, GAUSSIAN, CENTERED, NONCENTERED]) == 1
    said = capsys.readouterr().out
    assert f"{GAUSSIAN}: refused: the data of case" in said and f"{CENTERED}: refused: " in said
    assert sampled == [GAUSSIAN, NONCENTERED]
    fault = load_case(GAUSSIAN, database).reference_fault
    assert fault is not None and "cannot be read (the data of case" in fault
    assert main(["list", "--database", str(database)]) == 0
    assert cases_with_reference(database) == [NONCENTERED]


def test_refusals_that_do_not_say_what_they_are_of_stand(database: Path, sampler) -> None:
    command = ["generate", "--database", str(database), "--seed", "3", GAUSSIAN]
    sampled = sampler(shifted_chain)
    assert main(command) == 1
    (refused,) = database.rglob("*.refused.json")
    content = json.loads(refused.read_text())
    del content["made_of"]
    refused.write_text(json.dumps(content))
    tries = len(sampled)
    assert main(command) == 1 and len(sampled) == tries


def test_a_program_that_changes_while_it_is_sampled_is_the_one_before(
    database: Path, sampler
) -> None:
    case = load_case(GAUSSIAN, database)
    assert case.stan_path is not None
    program, before = case.stan_path, case.made_of

    def edit(fit: Any) -> None:
        program.write_text(program.read_text().replace("{", "{ ;", 1))

    sampler(edit)
    generate(GAUSSIAN, database=database, thin=1, random_seed=3)
    now = load_case(GAUSSIAN, database)
    assert now.reference_info["made_of"] == before != now.made_of
    assert now.reference_fault == "its reference draws were made before its program changed"
