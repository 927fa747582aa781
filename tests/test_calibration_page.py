"""docs/calibration.md is run: its Python blocks in order, and what they leave is looked at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "calibration.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S)


@pytest.mark.slow
@pytest.mark.stan
def test_blocks_run_in_order(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "calibration_page"}
    for number, block in enumerate(BLOCKS, start=1):
        exec(compile(block, f"docs/calibration.md, block {number}", "exec"), names)
    for name in ("found", "stan", "around"):
        assert names[name].failed.empty and names[name].calibrated(fits="trusted")
    assert (tmp_path / "ecdf.png").exists() and (tmp_path / "laplace").is_dir()


def test_the_figure_and_the_command_are_there(capsys) -> None:
    from bridge.__main__ import main

    assert all((DOCS / name).is_file() for name in re.findall(r"\]\((\w+\.png)\)", PAGE))
    (options,) = re.findall(r"python -m bridge calibrate (.*)", PAGE)
    with pytest.raises(SystemExit):
        main(["calibrate", "--help"])
    shown = capsys.readouterr().out
    assert all(option in shown for option in re.findall(r"--[a-z]+", options))
