"""docs/peers.md: its command is one that runs, and its tables have every method of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bridge.__main__ import main
from bridge.methods.table import METHODS, find_methods
from posteriordb_cases import list_cases

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "peers.md").read_text(encoding="utf-8")
JOINED = PAGE.replace("\\\n", " ")
(COMMAND,) = re.findall(r"python -m bridge compare (.*?)\n```", JOINED, flags=re.S)
NAMED, METHODS_ASKED_FOR = COMMAND.split("--methods")
TABLES = PAGE.split("\n## Measured")[1].split("\n## ")[0].split("\n### ")[1:]
COLUMNS = 9


def test_the_command_has_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--help"])
    known = capsys.readouterr().out
    assert all(option in known for option in re.findall(r"--[a-z-]+", COMMAND))
    assert set(NAMED.split()[:4]) <= set(list_cases(None))
    find_methods(METHODS_ASKED_FOR.split())


def test_every_peer_is_asked_for_and_shown_on_every_posterior() -> None:
    asked = METHODS_ASKED_FOR.split()
    peers = [m for m in METHODS if m.startswith(("pymcx-", "blackjax-", "numpyro-"))]
    assert set(peers) <= set(asked) and len(TABLES) == 4
    for table in TABLES:
        rows = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
        assert [row[0].strip() for row in rows] == ["method", *asked]
        assert {len(row) for row in rows} == {COLUMNS}


def test_every_one_is_described() -> None:
    described = PAGE.split("\n## ")[0]
    asked_for_only = [m for m in METHODS.values() if not (m.default or m.general)]
    names = [m.name for m in asked_for_only if "needs" in m.description]
    assert len(names) == 15 and all(f"`{name}`" in described for name in names)
