"""Stan for the tests: found or assembled once, in the user's cache like any other use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from stan_models import StanProgram
from stan_models.toolchain import CACHE_VARIABLE, Toolchain, cache_directory, find_toolchain

PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """The Stan under test."""
    found = find_toolchain()
    found.activate()
    return found


@pytest.fixture(scope="session")
def program(toolchain: Toolchain) -> Callable[[str], StanProgram]:
    """A test program by name; compiled when first used, kept for the session."""
    known: dict[str, StanProgram] = {}

    def get(name: str) -> StanProgram:
        return known.setdefault(name, StanProgram(PROGRAMS / f"{name}.stan"))

    return get


@pytest.fixture
def fresh_cache(toolchain: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without compiled programs that shares the toolchain of the user's cache."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for part in ("toolchains", "wheels"):
        if (cache_directory() / part).exists():
            os.symlink(cache_directory() / part, cache / part)
    monkeypatch.setenv(CACHE_VARIABLE, str(cache))
    return cache
