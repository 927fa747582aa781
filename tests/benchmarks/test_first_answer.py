"""How rows of first answers are chosen, run and put together."""

import json
import os

import pytest

from benchmarks.speed import first_answer, first_answer_child

FLOW = {"second_wall_s": 9.0, "second_cpu_s": 8.0, "second_import_s": 0.5, "second_functions": 7}
DENSITY = {"second_wall_s": 2.0, "second_cpu_s": 1.5, "second_import_s": 0.0, "second_functions": 3}
REASONS = """laplace: refused: k̂ = 1.07 >= 0.7 (1.2 s)
mixed-eig: good enough: k̂ = 0.43 < 0.7 (1.5 s)
taken: mixed-eig
"""


def test_rows_are_chosen_by_pattern_in_order() -> None:
    assert first_answer.chosen(None) == list(first_answer.ROWS)
    assert first_answer.chosen(["pymc/-/*", "stan/-/*"]) == ["stan/-/import", "pymc/-/import"]
    with pytest.raises(ValueError, match="no row matches 'stan/nothing'"):
        first_answer.chosen(["stan/nothing"])


def test_every_model_has_another_whose_code_it_finds() -> None:
    assert first_answer.donor("pymc/poisson/nuts") == "pymc/regression/nuts"
    assert first_answer.donor("stan/logistic/bridge") == "stan/eight-schools/bridge"
    assert first_answer.donor("stan/eight-schools/bridge") == "stan/logistic/bridge"
    assert first_answer.states("pymc/-/import", first_answer.CACHES) == ["cold", "warm"]
    assert first_answer.states("pymc/logistic/nuts", ["warm", "other"]) == ["other", "warm"]


def test_an_answer_is_the_last_line_that_is_one() -> None:
    text = f"fitting\n{first_answer.ANSWER}{json.dumps({'khat': 0.3})}\n"
    assert first_answer.answer(text, "a warning") == {"khat": 0.3}
    failed = first_answer.answer("fitting\n", "Traceback\nImportError: nutpie not found\n")
    assert failed == {"error": "ImportError: nutpie not found"}
    assert first_answer.ANSWER == first_answer_child.ANSWER


def test_reasons_of_the_command_line_are_read() -> None:
    tried = {"laplace": 1.07, "mixed-eig": 0.43}
    read = first_answer_child.read_reasons
    assert read(REASONS) == {"taken": "mixed-eig", "khat": 0.43, "tried": tried}
    assert read(REASONS.replace("taken: mixed-eig", "taken: nuts"))["khat"] is None
    with pytest.raises(ValueError, match="taken: METHOD"):
        read("error")


def test_a_row_has_the_medians_of_its_runs() -> None:
    runs = [{"wall_s": w, "cpu_s": 1.0, "khat": 0.4, "compiled_functions": 6} for w in (3, 1, 2)]
    row = first_answer.assembled("pymc/logistic/laplace", "cold", runs)
    assert (row["wall_s"], row["wall_s_of_runs"]) == (2, [3, 1, 2])
    assert (row["model"], row["method"], row["khat"]) == ("logistic", "laplace", 0.4)
    failed = first_answer.assembled("pymc/logistic/laplace", "cold", [runs[0], {"error": "no"}])
    assert failed["error"] == "no" and "wall_s" not in failed
    lines = first_answer.table([row, failed]).splitlines()
    assert lines[1].split()[:4] == ["pymc/logistic/laplace", "cold", "2.00", "1.00"]
    assert lines[1].split()[4:] == ["–", "–", "6", "0.40", "–", "–", "–"]
    assert lines[2].endswith("no")


def test_a_later_model_pays_for_more_than_its_density() -> None:
    row = first_answer.difference(FLOW | {"khat": 0.2}, DENSITY)
    assert (row["wall_s"], row["cpu_s"], row["compiled_functions"]) == (7.0, 6.5, 7)
    assert first_answer.difference(FLOW, {"error": "no"}) == {"error": "no"}


def test_caches_of_a_first_run_are_found_by_the_next(tmp_path, monkeypatch) -> None:
    found: list[tuple[str, list[str]]] = []

    def fake(row, caches, folder, limit):
        caches.mkdir(exist_ok=True)
        found.append((row, sorted(path.name for path in caches.iterdir())))
        (caches / row.split("/")[1]).touch()
        return {}

    monkeypatch.setattr(first_answer, "run", fake)
    bench = first_answer.Bench(tmp_path)
    for cache in first_answer.CACHES:
        bench.measured("pymc/logistic/nuts", cache)
    assert found == [
        ("pymc/logistic/nuts", []),
        ("pymc/regression/nuts", []),
        ("pymc/logistic/nuts", ["regression"]),
        ("pymc/logistic/nuts", ["logistic"]),
    ]


def test_a_child_is_timed_and_its_functions_are_counted(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PYTENSOR_FLAGS", "mode=FAST_COMPILE,cxx=")
    before = os.times()
    row = first_answer.run("pymc/eight-schools/density", tmp_path / "caches", tmp_path)
    after = os.times()
    assert "error" not in row
    assert 0 < row["import_s"] < row["wall_s"]
    children = [t.children_user + t.children_system for t in (before, after)]
    assert row["cpu_s"] == pytest.approx(children[1] - children[0], abs=0.05)  # of clock ticks
    assert row["compiled_functions"] == 2  # the initial point and the density
    failed = first_answer.run("pymc/unknown/density", tmp_path / "caches", tmp_path)
    assert failed["error"] == "KeyError: 'unknown'"
