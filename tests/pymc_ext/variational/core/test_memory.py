"""Large fits keep their memory between steps, and give it back at the end."""

import platform
import resource

import numpy as np
import pytest

from pymc_ext.density import CallableDensity
from pymc_ext.variational.core.memory import LARGE, memory_for, memory_kept
from pymc_ext.variational.gaussian.batch_match import BatchMatch

PAGES = 200_000  # of 4 kB, of a hundred arrays of 8 MB
glibc = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="the C library is not glibc: nothing is done"
)


def page_faults_of_temporaries():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.full(10**6, 1.0) + 1.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@glibc
def test_temporaries_are_mapped_once():
    with memory_kept():
        page_faults_of_temporaries()
        assert page_faults_of_temporaries() < PAGES / 100


@glibc
def test_memory_goes_back_at_the_end():
    def resident():
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    with memory_kept():
        before = resident()
        arrays = [np.ones(10**6) for _ in range(20)]
        del arrays
        kept = resident() - before
    assert kept > 100e6
    assert resident() - before < kept / 4


def test_an_error_inside_is_not_lost():
    with pytest.raises(ValueError, match="inside"), memory_kept():
        raise ValueError("inside")


@pytest.mark.parametrize(("dimension", "kept"), [(LARGE, 0), (LARGE + 1, 1)])
def test_only_fits_of_many_parameters_keep_memory(dimension, kept, monkeypatch):
    entered = []
    monkeypatch.setattr(
        "pymc_ext.variational.core.memory.memory_kept", lambda: entered.append(1) or memory_for(1)
    )
    density = CallableDensity(lambda t: -0.5 * (t**2).sum(1), np.negative, dimension=dimension)
    BatchMatch().fit(density, random_seed=1)
    assert len(entered) == kept
