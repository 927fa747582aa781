"""The line that says what is done: when it is there, what it says, when it gives way."""

import io

import pytest
import rich
from rich.console import Console

from pymc_ext.sampling.progress import at_work, hidden, now


@pytest.fixture
def screen(monkeypatch):
    """A terminal of 80 columns whose text can be read."""
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr(rich, "_console", console)
    return console.file


def test_the_line_says_what_is_done_and_goes(screen):
    with at_work(True):
        now("counting")
        with at_work(True):  # of something that the first calls
            now("dividing")
    shown = screen.getvalue()
    assert "counting" in shown or "dividing" in shown
    assert shown.endswith("\x1b[2K")  # the line is erased
    now("nobody is there")
    assert screen.getvalue() == shown


def test_what_has_a_progress_of_its_own_is_alone(screen):
    with at_work(True):
        now("counting")
        with hidden():
            before = screen.getvalue()
            now("unseen")
            assert screen.getvalue() == before
        now("counting on")
    assert "counting on" in screen.getvalue()


def test_nothing_is_shown_where_nobody_asks_or_watches(screen, monkeypatch):
    with at_work(False), hidden():
        now("counting")
    assert screen.getvalue() == ""
    pipe = Console(file=io.StringIO(), force_terminal=False)
    monkeypatch.setattr(rich, "_console", pipe)
    with at_work(True), hidden():
        now("counting")
    assert pipe.file.getvalue() == ""
