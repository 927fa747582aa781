"""Loading cases: databases, names and aliases, data, programs, reference draws, bad input."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from posteriordb_cases import EMBEDDED, Case, list_cases, load_case
from posteriordb_cases.writer import zipped_json
from tests.posteriordb_cases.conftest import NAME


def draws_file(clone: Path) -> Path:
    folder = clone / "posterior_database" / "reference_posteriors" / "draws" / "draws"
    return folder / f"{NAME}.json.zip"


def test_embedded_cases_are_listed() -> None:
    names = list_cases()
    assert names == sorted(names) and len(names) == 7
    assert {"eight_schools-eight_schools_centered", NAME} < set(names)


def test_case_gives_data_program_and_dimensions() -> None:
    case = load_case(NAME)
    assert case.model_name == "eight_schools_noncentered"
    assert case.dimensions == {"theta_trans": 8, "mu": 1, "tau": 1, "theta": 8}
    assert case.data["J"] == 8 and isinstance(case.data["J"], int)
    np.testing.assert_array_equal(case.data["sigma"], [15, 10, 16, 11, 9, 11, 10, 18])
    assert "real<lower=0> tau" in case.stan_code
    assert case.stan_path == EMBEDDED / "models/stan/eight_schools_noncentered.stan"
    assert case.database == EMBEDDED


def test_matrices_are_arrays_and_numbers_are_double_precision() -> None:
    data = load_case("gaussian_correlated").data
    assert data["scale_tril"].shape == (5, 5) and data["scale_tril"].dtype == np.float64
    assert isinstance(data["log_evidence"], np.float64)


def test_case_survives_pickling_and_compares_by_name_and_database() -> None:
    case = load_case(NAME)
    assert case.data is not None
    copy = pickle.loads(pickle.dumps(case))
    assert copy == case and hash(copy) == hash(case) and copy.stan_code == case.stan_code


@pytest.mark.parametrize("alias", ["eight_schools", "8_schools"])
def test_aliases_are_honoured(alias: str) -> None:
    assert load_case(alias).name == NAME


def test_unknown_case_lists_near_names() -> None:
    with pytest.raises(ValueError, match=r"no case 'eight_shools'.*eight_schools"):
        load_case("eight_shools")
    with pytest.raises(ValueError, match=r"did you mean .*toy_6x2-linear_regression"):
        load_case("regression")
    for unlike in ("zzz", "nosuch"):
        with pytest.raises(ValueError, match=rf"no case '{unlike}' among the 7 .*list_cases") as e:
            load_case(unlike)
        assert "did you mean" not in str(e.value)
        assert all(name in str(e.value) for name in list_cases())


@pytest.mark.parametrize("inside", ["", "posterior_database"])
def test_database_is_a_clone_or_its_inner_folder(clone: Path, inside: str) -> None:
    case = load_case(NAME, clone / inside)
    assert case.database == clone / "posterior_database"


def test_environment_variable_names_the_database(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (clone / "posterior_database" / "posteriors" / f"{NAME}.json").unlink()
    monkeypatch.setenv("POSTERIORDB_PATH", str(clone))
    assert NAME not in list_cases()
    assert NAME in list_cases(EMBEDDED)
    monkeypatch.setenv("POSTERIORDB_PATH", str(clone / "nowhere"))
    with pytest.raises(FileNotFoundError, match=r"nowhere.*POSTERIORDB_PATH"):
        list_cases()


def test_folder_that_is_no_database_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "posteriors").mkdir()
    with pytest.raises(ValueError, match=r"no folder models/info, data/info"):
        load_case(NAME, tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        load_case(NAME, tmp_path / "absent")


def test_reference_draws_are_arviz_data(with_draws: Path, draws: dict) -> None:
    case = load_case(NAME, with_draws)
    assert case.has_reference and case.reference_info["added_by"] == "test"
    posterior = case.reference_draws()["posterior"]
    assert set(posterior.data_vars) == set(case.dimensions)
    for name, values in draws.items():
        assert posterior[name].dims[:2] == ("chain", "draw")
        np.testing.assert_allclose(posterior[name].values, values, rtol=1e-7)


def test_posteriors_that_share_draws_get_their_own_variables(with_draws: Path) -> None:
    case = load_case("eight_schools-eight_schools_centered", with_draws)
    assert case.reference_name == NAME
    assert set(case.reference_draws()["posterior"].data_vars) == {"mu", "tau", "theta"}


def test_missing_draws_say_how_to_make_them(with_draws: Path) -> None:
    draws_file(with_draws).unlink()
    case = load_case(NAME, with_draws)
    assert not case.has_reference
    with pytest.raises(FileNotFoundError, match=f"python -m bridge generate {NAME}"):
        case.reference_draws()


def test_posterior_without_a_reference(with_draws: Path) -> None:
    path = with_draws / "posterior_database" / "posteriors" / f"{NAME}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"reference_posterior_name": None}))
    case = load_case(NAME, with_draws)
    assert not case.has_reference and case.reference_info is None and case.reference_path is None
    with pytest.raises(FileNotFoundError, match="reference_posterior_name is null"):
        case.reference_draws()


@pytest.mark.parametrize("kept", [0, 10, 200, -30])
def test_truncated_draws_file_is_named(with_draws: Path, kept: int) -> None:
    path = draws_file(with_draws)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=f"{NAME}.json.zip is corrupt or cut short"):
        load_case(NAME, with_draws).reference_draws()


@pytest.mark.parametrize("position", [100, 1000, 5000])
def test_flipped_byte_in_draws_file_is_found(with_draws: Path, position: int) -> None:
    path = draws_file(with_draws)
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{NAME}.json.zip is corrupt or cut short"):
        load_case(NAME, with_draws).reference_draws()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"mu": [1.0]}, "expected a list of chains"),
        ([], "expected a list of chains"),
        ([{}], "chain 1 has no variables"),
        ([{"mu": [1.0, 2.0]}, {"mu": [1.0]}], r"expected 2 draws of mu in every chain, got \[2, 1"),
        ([{"mu": [1.0]}, {"tau": [1.0]}], "chain 2 has other variables"),
        ([{"mu": [1.0, "x"]}], "draws of mu are not all numbers"),
        ([{"mu": [1.0, None]}], "mu are not (all numbers|finite)"),
        ([{"mu": 3.0}], "draws of mu are not a list"),
        ([{"theta[1]": [1.0], "theta[3]": [1.0]}], "theta has 2 elements, expected shape"),
        ([{"theta[0]": [1.0], "theta[1]": [1.0]}], "theta has 2 elements, expected shape"),
        ([{"theta[1": [1.0]}], "'theta\\[1' is not NAME"),
        ([{"theta[1]": [1.0], "theta[1,2]": [1.0]}], "different numbers of indices"),
        ([{"mu": [1.0]}], "has no draws of theta_trans"),
    ],
)
def test_draws_of_another_form_are_refused(with_draws: Path, content, reason: str) -> None:
    draws_file(with_draws).write_bytes(zipped_json(content, f"{NAME}.json"))
    with pytest.raises(ValueError, match=f"(?s){NAME}.json.zip.*{reason}"):
        load_case(NAME, with_draws).reference_draws()


def test_infinite_draws_are_refused(with_draws: Path) -> None:
    with zipfile.ZipFile(draws_file(with_draws), "w") as archive:
        archive.writestr(f"{NAME}.json", '[{"mu": [1.0, Infinity, NaN]}]')
    with pytest.raises(ValueError, match="2 draws of mu are not finite"):
        load_case(NAME, with_draws).reference_draws()


def test_damaged_data_and_info_files_are_named(clone: Path) -> None:
    root = clone / "posterior_database"
    data = root / "data" / "data" / "eight_schools.json.zip"
    data.write_bytes(b"no zip")
    with pytest.raises(ValueError, match=r"eight_schools\.json\.zip is corrupt"):
        _ = load_case(NAME, clone).data
    data.unlink()
    with pytest.raises(FileNotFoundError, match=r"data of case .* are missing.*json\.zip"):
        _ = load_case(NAME, clone).data
    (root / "posteriors" / f"{NAME}.json").write_text('{"name": ')
    with pytest.raises(ValueError, match=f"{NAME}.json is not valid JSON"):
        load_case(NAME, clone)


def test_database_without_the_program_falls_back_on_ours(clone: Path) -> None:
    own = clone / "posterior_database/models/stan/eight_schools_noncentered.stan"
    own.write_text("// the database's own\n")
    assert load_case(NAME, clone).stan_code == "// the database's own\n"
    own.unlink()
    assert load_case(NAME, clone).stan_path == load_case(NAME, EMBEDDED).stan_path


def test_model_without_any_program_gives_none(clone: Path) -> None:
    info = clone / "posterior_database/models/info/no_such_model.info.json"
    info.write_text('{"model_implementations": {}}')
    case = Case("d-m", clone / "posterior_database", {"model_name": "no_such_model"})
    assert case.stan_path is None and case.stan_code is None


def test_listing_and_loading_do_not_import_pymc_or_arviz() -> None:
    code = (
        "import sys, posteriordb_cases as p; c = p.load_case('bernoulli'); c.data; c.has_port; "
        "sys.exit(bool({'pymc', 'pytensor', 'arviz'} & set(sys.modules)))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "POSTERIORDB_PATH"}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )


@pytest.mark.corpus
def test_every_posterior_of_posteriordb_loads(corpus: Path) -> None:
    names = list_cases(corpus / "posteriordb")
    assert len(names) == 147
    cases = [load_case(name, corpus / "posteriordb") for name in names]
    assert all(case.exact is None for case in cases)
    without_data = [case.name for case in cases if not _has_data(case)]
    assert without_data == ["mnist-nn_rbm1bJ100"]  # the snapshot leaves this file out
    judged = [case for case in cases if case.has_reference]
    assert len(judged) >= 36
    assert all(case.has_port and case.stan_code for case in judged)


@pytest.mark.corpus
def test_every_reference_of_posteriordb_has_the_stated_dimensions(corpus: Path) -> None:
    for name in list_cases(corpus / "posteriordb"):
        case = load_case(name, corpus / "posteriordb")
        if not case.has_reference:
            continue
        posterior = case.reference_draws()["posterior"]
        for variable, stated in case.dimensions.items():
            assert posterior[variable].shape[:2] == (10, 1000), name
            assert np.prod(posterior[variable].shape[2:]) == np.prod(stated), name


def _has_data(case) -> bool:
    try:
        return bool(case.data)
    except FileNotFoundError:
        return False


def test_our_own_reference_draws_are_of_these_programs_and_data() -> None:
    cases = [load_case(name, EMBEDDED) for name in list_cases(EMBEDDED)]
    assert [case.reference_fault for case in cases] == [None] * len(cases)
    assert all(set(case.reference_info["made_of"]) == set(case.made_of) for case in cases)
