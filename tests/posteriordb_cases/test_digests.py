"""Digests: of what a program and its data say, not of how they are laid out."""

from __future__ import annotations

import pytest

from posteriordb_cases import digests

PROGRAM = 'parameters { real x; } model { print("see // here /* and"); x ~ normal(0, 1); }'


@pytest.mark.parametrize(
    "other",
    [
        PROGRAM.replace(" ", "\n  "),
        PROGRAM.replace("real x;", "real x; // one\n"),
        "/* two\nlines */" + PROGRAM,
    ],
)
def test_comments_and_blanks_do_not_count(other: str) -> None:
    spaced = other.replace("see\n  //\n  here\n  /*\n  and", "see // here /* and")
    assert digests.of_program(spaced) == digests.of_program(PROGRAM)


@pytest.mark.parametrize(("old", "new"), [("(0, 1)", "(0, 9)"), ("here", "there"), ("x ~", "y ~")])
def test_all_else_does_after_markers_in_texts_too(old: str, new: str) -> None:
    assert digests.of_program(PROGRAM.replace(old, new)) != digests.of_program(PROGRAM)


def test_the_order_of_data_does_not_count() -> None:
    assert digests.of_json({"a": 1, "b": [1.0]}) == digests.of_json({"b": [1.0], "a": 1})
    assert digests.of_json({"a": 1}) != digests.of_json({"a": 2})
