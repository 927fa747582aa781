"""Fixtures shared by all tests."""

from __future__ import annotations

import signal
from importlib import metadata
from pathlib import Path

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
        pytest.skip(f"no data corpus at {CORPUS}: this test compares with stored published results")
    return CORPUS
