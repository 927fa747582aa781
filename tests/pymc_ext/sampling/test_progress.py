"""In a notebook without ipywidgets no progress is shown, where rich would warn at each change."""

from __future__ import annotations

import sys

import pytest
import rich
from rich.console import Console

from pymc_ext.sampling.progress import at_work, now
from pymc_ext.variational.core.monitor import Monitor, can_change


@pytest.fixture
def notebook(monkeypatch) -> Console:
    console = Console(force_jupyter=True)
    monkeypatch.setattr(rich, "_console", console)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    return console


def test_a_fit_and_a_line_show_nothing_and_warn_of_nothing(notebook) -> None:
    assert not can_change(notebook)
    with at_work(progressbar=True), Monitor(None, (), 0, 2, True) as monitor:
        now("fitting")
        monitor(1.0)


def test_with_ipywidgets_and_on_a_terminal_it_does(monkeypatch, notebook) -> None:
    assert can_change(Console(force_terminal=True, force_jupyter=False))
    monkeypatch.setattr("pymc_ext.variational.core.monitor.find_spec", lambda name: object())
    assert can_change(notebook)
    with pytest.warns(UserWarning, match="ipywidgets"):  # as rich cannot import it here
        with at_work(progressbar=True):
            now("fitting")
