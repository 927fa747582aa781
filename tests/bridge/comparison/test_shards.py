"""Parts of a sweep, run apart and put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import bridge
from bridge.__main__ import main
from bridge.comparison.folder import RECORDS
from bridge.comparison.records import Records
from bridge.comparison.settings import PACKAGES
from bridge.comparison.shards import merge, note_shards, parse_shard, part_of, shards_in
from bridge.comparison.sweep import sweep
from bridge.errors import RecordsError
from tests.bridge.conftest import GAUSSIAN


def record(case="c", seed=1, **changes):
    """A run that ended well, without draws."""
    base = {"case_name": case, "method": "m", "seed": seed, "settings": '{"draws": 10}'}
    return base | {"versions": '{"pymc": "5.28.5"}', "status": "ok", "khat": 0.1} | changes


def folder(path: Path, *records, name: str = RECORDS) -> Path:
    kept = Records(path / name)
    for one in records:
        kept.add(one)
    return path


def test_shards_share_out_everything_once() -> None:
    names = list("abcdefg")
    parts = [part_of(names, f"{i}/3") for i in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == names
    assert sorted(map(len, parts)) == [2, 2, 3]


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "1/0", "a/b", "-1/3", "1/3/4", ""])
def test_a_part_that_is_none_is_named(text) -> None:
    with pytest.raises(ValueError, match="a shard is i/n with 1 <= i <= n, as 2/3, got"):
        parse_shard(text)
    assert main(["sweep", f"--shard={text}"]) == 2


def test_more_parts_than_posteriors_are_refused() -> None:
    with pytest.raises(ValueError, match="shard 9/9: there are 2 to share out"):
        sweep(["a", "b"], shard="9/9")


def test_parts_make_what_the_whole_would(gaussian_database, gaussian_methods, tmp_path) -> None:
    """Records and draws of two folders; twice makes no difference."""
    for seed in (1, 2):
        bridge.compare(
            GAUSSIAN, ["equal"], [seed], out=tmp_path / str(seed), database=gaussian_database,
            draws=4000,
        )  # fmt: skip
    for _ in range(2):
        assert merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all") == [
            tmp_path / "all" / RECORDS
        ]
    frame = Records(tmp_path / "all" / RECORDS).frame()
    assert frame["seed"].tolist() == [1, 2]
    assert all((tmp_path / "all" / file).is_file() for file in frame["draws_file"])
    assert not list((tmp_path / "all").rglob("*.part"))
    assert set(json.loads(frame["versions"][0])) == set(PACKAGES)
    before = frame.to_dict("records")
    whole = bridge.compare(  # nothing is left to run
        GAUSSIAN, ["equal"], 2, out=tmp_path / "all", database=gaussian_database, draws=4000
    )
    assert whole.to_dict("records") == before


def test_the_command_writes_the_tables_of_all(
    gaussian_database, gaussian_methods, tmp_path, capsys
) -> None:
    bridge.compare(
        GAUSSIAN, ["equal"], 1, out=tmp_path / "1", database=gaussian_database, draws=4000
    )
    assert main(["merge", str(tmp_path / "1"), "--out", str(tmp_path / "all")]) == 0
    assert "1 runs on 1 posteriors" in capsys.readouterr().out and list(
        (tmp_path / "all").glob("*.csv")
    )


def test_a_failure_gives_way_to_a_run_that_ended_well(tmp_path) -> None:
    failed = record(status="failed", khat=None)
    parts = [folder(tmp_path / "1", failed), folder(tmp_path / "2", record())]
    for order in (parts, parts[::-1]):
        merge(order, tmp_path / "all")
        assert Records(tmp_path / "all" / RECORDS).frame()["status"].tolist() == ["ok"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (record("d", settings='{"draws": 20}'), "of different settings, draws 10 and 20: merge"),
        (record("d", versions='{"pymc": "6.0"}'), "of different versions, pymc 5.28.5 and 6.0"),
        (record("d", versions=None), "of different versions"),
        (record(khat=0.2), "have different results of m on c, seed 1: merge only one"),
        (record("d", draws_file="draws/d.nc"), "the draws of a recorded run, is missing"),
        (record(seed=2, case_sha256="b"), "c is another posterior in .*2 than in .*1: its program"),
        (record(case_sha256="b", status="failed"), "c is another posterior in .*2 than in .*1"),
    ],
)
def test_what_does_not_go_together_is_named(tmp_path, other, words) -> None:
    first = record(case_sha256="a" if "case_sha256" in other else None)
    one, two = folder(tmp_path / "1", first), folder(tmp_path / "2", other)
    with pytest.raises(RecordsError, match=words):
        merge([one, two], tmp_path / "all")


@pytest.mark.parametrize("other", [record(khat=0.2), record("d", draws_file="draws/d.nc")])
def test_nothing_is_written_where_parts_do_not_go_together(tmp_path, other) -> None:
    parts = [folder(tmp_path / "1", record()), folder(tmp_path / "2", other)]
    with pytest.raises(RecordsError):
        merge(parts, tmp_path / "all")
    assert not (tmp_path / "all").exists()


def test_a_folder_without_records_is_named(tmp_path, capsys) -> None:
    with pytest.raises(RecordsError, match=r"expected records.sqlite or zoo.sqlite"):
        merge([tmp_path], tmp_path / "all")
    assert main(["merge", str(tmp_path), "--out", str(tmp_path / "all")]) == 2
    assert not (tmp_path / "all").exists()


def test_parts_of_the_zoo_are_put_together_too(tmp_path, capsys) -> None:
    for number in (1, 2):
        command = [
            "sweep",
            "--zoo",
            "gaussian-1",
            "half-exponential-2",
            "--seeds",
            "1",
            "--jobs",
            "1",
        ]
        main([*command, "--shard", f"{number}/2", "--out", str(tmp_path / str(number))])
    capsys.readouterr()
    parts = [str(tmp_path / "1"), str(tmp_path / "2")]
    assert main(["merge", *parts, "--out", str(tmp_path)]) == 0
    assert "2 runs" in capsys.readouterr().out
    assert shards_in(tmp_path) == ["1/2", "2/2"]


def test_missing_parts_are_named_until_they_are_there(tmp_path, caplog) -> None:
    parts = [folder(tmp_path / str(i), record(f"case {i}")) for i in (1, 2, 3)]
    for i, part in enumerate(parts, start=1):
        note_shards(part, [f"{i}/3"])
    merge([parts[0], parts[2]], tmp_path / "all")
    (said,) = caplog.messages
    assert "all lacks shard 2/3 of the sweep: run `python -m bridge sweep --shard 2/3`" in said
    caplog.clear()
    merge([parts[1]], tmp_path / "all")  # which knows what it had
    assert not caplog.messages and shards_in(tmp_path / "all") == ["1/3", "2/3", "3/3"]


def test_folders_that_are_no_parts_lack_none(tmp_path, caplog) -> None:
    merge([folder(tmp_path / "1", record()), folder(tmp_path / "2", record("d"))], tmp_path / "all")
    assert not caplog.messages and not shards_in(tmp_path / "all")


def test_a_part_that_was_run_is_noted(gaussian_database, gaussian_methods, tmp_path) -> None:
    sweep(
        [GAUSSIAN], ["equal"], 1, database=gaussian_database, shard="1/1", out=tmp_path, draws=4000
    )
    assert shards_in(tmp_path) == ["1/1"]
