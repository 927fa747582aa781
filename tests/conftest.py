"""Fixtures shared by all tests."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

# A shell's background jobs ignore Ctrl-C, and so would the tests that raise it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CORPUS = Path(__file__).resolve().parents[2] / "shared" / "corpus"


def pytest_report_header() -> str:
    names = ("pymc", "pytensor", "arviz", "numba", "numpy")
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Folder of real data sets beside the checkout; tests that need it skip where it is absent."""
    if not CORPUS.is_dir():
        pytest.skip(
            f"no data corpus at {CORPUS}, whose stored published results this test compares with: "
            "put the project's own there"
        )
    return CORPUS


@pytest.fixture
def without_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """A map in every fit, for tests of what maps and their checks do where no law of fields is."""
    monkeypatch.setattr(
        "pymc_ext.variational.hierarchical.algorithm.find_neighbours", lambda *_: None
    )


# ---------------------------------------------------------------- how the run ends

LEFT_OUT = pytest.StashKey[int]()  # tests that -m left out; xdist's workers all leave out the same


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    if items:
        config = items[0].config
        config.stash[LEFT_OUT] = config.stash.get(LEFT_OUT, 0) + len(items)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """The number that a worker of xdist left out."""
    left_out = getattr(node, "workeroutput", {}).get("left_out", 0)
    config = node.config
    config.stash[LEFT_OUT] = max(config.stash.get(LEFT_OUT, 0), left_out)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """What was skipped, why, and how to run it."""
    skipped = [report.longrepr[2] for report in terminalreporter.stats.get("skipped", ())]
    left_out = config.stash.get(LEFT_OUT, 0)
    if not skipped and not left_out:
        return
    terminalreporter.section("skipped, why, and how to run it")
    for reason, count in Counter(skipped).most_common():
        terminalreporter.write_line(f"{count:>5}  {reason.removeprefix('Skipped: ')}")
    if left_out:
        asked = {"-m": config.option.markexpr, "-k": config.option.keyword}
        by = " ".join(f"{option} {text!r}" for option, text in asked.items() if text)
        how = ": make test-all" if by == "-m 'not slow'" else ""
        terminalreporter.write_line(f"{left_out:>5}  left out by {by or '--deselect'}{how}")
