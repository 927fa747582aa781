"""Everything the README shows is run: its Python blocks in order, its commands by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, flags=re.M | re.S)


def test_it_begins_with_a_model_of_the_users_own() -> None:
    first = README.index(BLOCKS[0])
    assert re.search(r"^## (.*)", README, re.M)[1] == "Fit my model" and "tp.fit(" in BLOCKS[0]
    for later in ("posteriordb", "import bridge", "import pymc_ext", "make test"):
        assert README.find(later) > first, f"{later} comes after the first model"


@pytest.mark.slow
@pytest.mark.stan
def test_python_blocks_run_in_order(tmp_path, monkeypatch) -> None:
    assert BLOCKS
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "readme"}
    for number, block in enumerate(BLOCKS, start=1):
        exec(compile(block, f"README.md, Python block {number}", "exec"), namespace)


@pytest.mark.slow
def test_the_answer_that_is_not_trusted_says_what_is_shown() -> None:
    (block,) = (block for block in BLOCKS if "doubtful = " in block)
    shown = README.split(block)[1].split("```text\n")[1].split("```")[0].strip().splitlines()
    names: dict = {}
    exec("import pymc as pm\nimport trusted_posteriors as tp\n" + block, names)
    doubtful = names["doubtful"]
    assert shown[:2] == [str(doubtful.trusted), doubtful.method]
    assert [_without_numbers(line) for line in shown[2:]] == [
        _without_numbers(doubt) for doubt in doubtful.doubts
    ]


def _without_numbers(text: str) -> str:
    """They differ from one processor to another."""
    return re.sub(r"\d[\d.,]*", "#", text)


@pytest.mark.parametrize("command", ["bridge compare", "bridge list", "bridge generate"])
def test_commands_shown_exist(command: str, capsys) -> None:
    from bridge.__main__ import main

    assert f"python -m {command.split()[0]}" in README
    with pytest.raises(SystemExit) as stop:
        main([command.split()[1], "--help"])
    assert stop.value.code == 0
    assert command.split()[1] in capsys.readouterr().out


def test_the_table_shown_has_the_methods_that_run_by_default() -> None:
    from bridge.methods.table import METHODS

    tables = README.split("log Z -31.31")[1:3]  # one a parametrisation
    for table in tables:
        shown = re.findall(r"^ ([a-z]+(?:-[a-z]+)*) {3,}", table.split("k̂ < 0.5 good")[0], re.M)
        assert shown[0] == "method"
        assert shown[1:] == [method.name for method in METHODS.values() if method.default]


def test_make_targets_shown_exist() -> None:
    makefile = (Path(__file__).resolve().parents[1] / "Makefile").read_text()
    targets = set(re.findall(r"\bmake ([a-z][a-z0-9-]+)(?=`|\s+#)", README))
    assert {"compare", "test"} <= targets
    assert all(re.search(rf"^{target}:", makefile, flags=re.M) for target in targets)
