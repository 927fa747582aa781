"""The record behind the choice of NumPy: what is predicted, and what bare calls are worth."""

from __future__ import annotations

from benchmarks.record import kept
from benchmarks.speed import by_numpy
from benchmarks.speed.model_kinds_models import KINDS
from pymc_ext.density import PyMCDensity

ROW_BY_ROW = {"multivariate", "ode"}  # matrices and solvers, which take compiled code as long


def test_a_kind_is_measured_and_a_loop_is_left_out() -> None:
    found = by_numpy.measured(PyMCDensity(KINDS["custom"]()))
    assert found is not None and 0 < found["bare"] <= found["operations"]
    assert 0 < found["numpy_call_us"] < found["perform_call_us"]
    assert by_numpy.measured(PyMCDensity(KINDS["garch"]())) is None


def test_what_is_predicted_is_what_was_measured_but_for_a_factor_of_three() -> None:
    stored = kept(by_numpy.RESULTS)
    assert len(stored) > 20
    for kind, numbers in stored.items():
        if kind not in ROW_BY_ROW:
            assert 0.4 < numbers["predicted_s"] / numbers["numpy_s"] < 3.2, kind
        assert numbers["perform_call_us"] > numbers["numpy_call_us"]
