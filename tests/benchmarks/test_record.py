import pytest

from benchmarks import record


def test_a_run_is_made_once_and_kept_beside_the_other_entries(tmp_path):
    path, made = tmp_path / "results.json", []

    def make(x):
        made.append(x)
        if x < 0:
            raise FloatingPointError("on purpose")
        return {"square": x**2}

    runs = record.Runs(path, "runs", paper={"a": 9})
    assert runs("a", make, 3) == {"square": 9}
    with pytest.raises(FloatingPointError):
        runs("b", make, -1)
    later = record.Runs(path, "runs", paper={"a": 9})
    assert later("a", make, 3) == {"square": 9}
    assert later("b", make, 2) == {"square": 4}
    assert made == [3, -1, 2]
    expected = {"a": {"square": 9}, "b": {"square": 4}}
    assert record.kept(path) == {"paper": {"a": 9}, "runs": expected}
