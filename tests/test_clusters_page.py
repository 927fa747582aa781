"""docs/clusters.md: what needs a cluster is not run, but every option and name in it exists."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

import bridge
from bridge.__main__ import main

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "clusters.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["sweep", "merge", "report"])
def test_options_of_commands_are_there(command, capsys) -> None:
    joined = PAGE.replace("\\\n", " ")
    shown = re.findall(rf"python -m bridge {command}\b(.*)", joined)
    with pytest.raises(SystemExit):
        main([command, "--help"])
    known = capsys.readouterr().out
    assert shown and all(o in known for line in shown for o in re.findall(r"--[a-z-]+", line))


def test_calls_have_the_keywords_they_are_given() -> None:
    for block in re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.M | re.S):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("bridge."):
                function = getattr(bridge, ast.unparse(node.func).removeprefix("bridge."))
                inspect.signature(function).bind_partial(
                    *node.args, **{str(word.arg): word.value for word in node.keywords}
                )
