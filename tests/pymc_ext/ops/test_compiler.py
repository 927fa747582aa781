"""Where there is no C++ compiler numba becomes PyTensor's default, unless the user chose."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest
from pytensor.compile.mode import Mode

from pymc_ext.ops import compiler


@pytest.fixture
def machine(monkeypatch):
    """``machine(cxx, linker=..., flags=...)``: that compiler and PyTensor 2's defaults."""

    def pretend(cxx: str, linker: str = "auto", mode: str = "Mode", flags: str | None = None):
        config = SimpleNamespace(cxx=cxx, linker=linker, mode=mode)
        monkeypatch.setattr(compiler, "pytensor", SimpleNamespace(config=config))
        monkeypatch.setattr(compiler, "get_default_mode", lambda: Mode(linker="vm"))
        monkeypatch.setenv("PYTENSOR_FLAGS", flags or "")
        compiler.use_numba_without_compiler()
        return config

    return pretend


@pytest.mark.parametrize(
    ("flags", "inherited"),
    [(None, compiler.FLAGS), ("floatX=float64", f"floatX=float64,{compiler.FLAGS}")],
)
def test_numba_without_a_compiler(machine, caplog, flags, inherited) -> None:
    assert machine("", flags=flags).linker == "numba"
    assert os.environ["PYTENSOR_FLAGS"] == inherited
    (message,) = [r.getMessage() for r in caplog.records]
    assert message.startswith("no C++ compiler")


@pytest.mark.parametrize(
    ("cxx", "linker", "mode"),
    [("g++", "auto", "Mode"), ("", "vm", "Mode"), ("", "auto", "JAX"), ("", "numba", "Mode")],
)
def test_a_compiler_or_a_choice_is_kept(machine, caplog, cxx, linker, mode) -> None:
    assert machine(cxx, linker, mode).linker == linker
    assert os.environ["PYTENSOR_FLAGS"] == ""
    assert not caplog.records


def test_pytensor_3_has_chosen_numba(machine, monkeypatch, caplog) -> None:
    monkeypatch.setattr(compiler, "NumbaLinker", object)  # whatever the default is, it is numba
    assert machine("").linker == "auto"
    assert not caplog.records


@pytest.mark.parametrize(
    ("linker", "mode", "flags", "asked"),
    [
        ("auto", "Mode", "", False),
        ("vm", "Mode", "", True),
        ("numba", "Mode", "", True),
        ("auto", "JAX", "", True),
        ("numba", "Mode", f"floatX=float64,{compiler.FLAGS}", False),  # our own choice, inherited
        ("vm", "Mode", compiler.FLAGS, True),
    ],
)
def test_what_the_user_asked_for(monkeypatch, linker, mode, flags, asked) -> None:
    config = SimpleNamespace(linker=linker, mode=mode)
    monkeypatch.setattr(compiler, "pytensor", SimpleNamespace(config=config))
    monkeypatch.setenv("PYTENSOR_FLAGS", flags)
    assert compiler.backend_asked_for() is asked
