"""The verdict's rates: an answer is judged by the truth, runs resume, wrong trust is counted."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from bridge.__main__ import main
from bridge.advice.fit import fit
from bridge.zoo.judge import judged
from bridge.zoo.rates import HEADINGS, rates, rows
from bridge.zoo.sweep import sweep_zoo
from posteriordb_cases.zoo import ZOO, truth_of


def exact(name: str, n: int = 20_000):
    density = ZOO[name].make()
    return density, truth_of(density), density.draws(n, np.random.default_rng(1))


@pytest.mark.parametrize("name", ["modes-20", "labels-3", "cauchy-shared-3", "ring"])
def test_exact_draws_are_right(name: str) -> None:
    found = judged(*exact(name))
    assert found.right and not found.wrong and found.missed == 0


def test_what_is_wrong_is_seen() -> None:
    density, truth, draws = exact("gaussian-1")
    sd = truth.sd
    for changed in (draws + 0.25 * sd, 1.3 * (draws - truth.mean) + truth.mean):
        assert judged(density, truth, changed).wrong
    slightly = judged(density, truth, draws + 0.1 * sd)
    assert not slightly.wrong and not slightly.right
    assert judged(density, truth, np.zeros_like(draws)).wrong
    assert judged(density, truth, np.full_like(draws, np.nan)).wrong


def test_what_an_answer_calls_unknown_is_judged_by_its_quantiles() -> None:
    density, truth, draws = exact("modes-5")
    draws[0, 2] = 1e4  # one draw that rules the sd
    assert judged(density, truth, draws).wrong
    assert judged(density, truth, draws, [2]).right
    assert judged(density, truth, draws, [1]).wrong


def test_a_missed_mode_is_seen() -> None:
    density, truth, draws = exact("modes-2-nine")
    found = judged(density, truth, draws[~np.isin(density.mode_of(draws), [1, 7])])
    assert found.missed > 0.05 and found.wrong
    assert found.mean_error < 0.02  # as those that are missing lie opposite each other


def test_runs_are_kept_and_not_made_again(tmp_path) -> None:
    made = list[str]()
    options = {"out": tmp_path, "on_record": lambda record, done, total: made.append(record)}
    assert sweep_zoo(["gaussian-1", "ring"], 1, budget=0.0, **options).empty
    frame = sweep_zoo(["gaussian-1"], 1, **options)
    again = sweep_zoo(["gaussian-1", "modes-5"], 1, **options)
    assert len(made) == 2 and frame["target"].tolist() == ["gaussian-1"]
    assert sorted(again["target"]) == ["gaussian-1", "modes-5"]
    assert again["trusted"].all() and not again["wrong"].any()
    assert (again["gradients"] > 100).all()


def test_an_error_is_an_answer_that_is_not_trusted(tmp_path, monkeypatch) -> None:
    def refuses(density, **options):
        raise ValueError("improper")

    monkeypatch.setattr("bridge.zoo.sweep.fit", refuses)
    frame = sweep_zoo(["slow-tail"], 1, out=tmp_path)
    assert not frame["trusted"].iloc[0] and frame["reasons"].iloc[0] == "ValueError: improper"
    assert rates(frame).false_trust == 0


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [("draws", 3, "at least 200 draws"), ("methods", "warm-nuts", "approximations, got")],
)
def test_a_wrong_call_is_no_answer(option, value, message, tmp_path, capsys) -> None:
    with pytest.raises(ValueError, match=message):
        sweep_zoo(["ring"], 1, out=tmp_path, **{option: value})
    asked = ["sweep", "--zoo", "ring", "--out", str(tmp_path), f"--{option}", str(value)]
    assert main(asked) == 2
    assert message in capsys.readouterr().err


def test_trust_in_an_improper_posterior_is_false(tmp_path, monkeypatch) -> None:
    def trusts(density, **options):
        return fit(ZOO["gaussian-1"].make(), random_seed=1)

    monkeypatch.setattr("bridge.zoo.sweep.fit", trusts)
    assert rates(sweep_zoo(["flat-log-scale"], 1, out=tmp_path)).false_trust == 1


def runs(**columns) -> pd.DataFrame:
    base = {"target": ["a", "a", "b"], "dimension": 2, "kind": "k", "taken": "m", "gradients": 10,
            "mean_error": [0.1, 0.3, 0.2], "sd_ratio": [1.0, 0.7, 1.1], "missed": 0.0}  # fmt: skip
    return pd.DataFrame(base | columns)


def test_rates_and_rows() -> None:
    frame = runs(trusted=[True, True, False], wrong=[False, True, False], right=[True, False, True])
    found = rates(frame)
    assert (found.runs, found.targets, found.false_trust, found.false_refusal) == (3, 2, 1, 1)
    assert str(found).startswith("false trust 1 of 3 runs (33.3%), false refusal 1 (33.3%)")
    table = [dict(zip(HEADINGS, row, strict=True)) for row in rows(frame, ["b", "a"])]
    assert [row["target"] for row in table] == ["b", "a"]
    assert table[1]["trusted"] == "2/2" and table[1]["false"] == "1"
    assert table[1]["mean error"] == "0.30" and table[1]["sd ratio"] == "0.70"
    assert table[0]["refused"] == "1" and table[0]["mean error"] == "[0.20]"
    with pytest.raises(ValueError, match="no run is on record"):
        rates(frame[:0])


def test_the_command_prints_both_rates(tmp_path, capsys) -> None:
    arguments = ["sweep", "--zoo", "gaussian-1", "--seeds", "1", "--out", str(tmp_path)]
    assert main([*arguments, "--jobs", "1"]) == 0
    printed = capsys.readouterr().out
    assert "gaussian-1" in printed
    assert "false trust 0 of 1 runs (0.0%), false refusal 0 (0.0%)" in printed
    assert main(["sweep", "--zoo", "gaussian-2", "--out", str(tmp_path)]) == 2
    assert "no such target of the zoo: ['gaussian-2']" in capsys.readouterr().err
