"""BLAS has one thread wherever matrices are small: in searches and chains as in fits."""

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.sampling.nutpie import NutpieNUTS
from pymc_ext.sampling.run import sample
from pymc_ext.variational.gaussian.path import PathSettings, trajectory
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian
from pymc_ext.variational.missed.missed_mass import mass_outside


@pytest.fixture
def watched():
    """A normal that notes how many threads BLAS has when it is evaluated, and the notes."""
    seen, blas = set(), ThreadpoolController().select(user_api="blas")

    def blas_threads():
        return {pool["num_threads"] for pool in blas.info()}

    def log_density(theta):
        seen.update(blas_threads())
        return -0.5 * (theta**2).sum(axis=1)

    density = CallableDensity(log_density, lambda theta: -theta, dimension=2)
    with blas.limit(limits=2):
        if blas_threads() == {1}:
            pytest.skip("this BLAS has one thread at most")
        yield density, seen
        assert blas_threads() == {2}  # as before


def test_a_search_has_one_thread(watched):
    density, seen = watched
    q, rng = DiagonalGaussian(np.zeros(2), np.ones(2)), np.random.default_rng(1)
    theta, log_q = q.forward(rng.standard_normal((100, 2)))
    mass_outside(CountedDensity(density), theta, log_q, q.log_density, 0.0, rng)
    assert seen == {1}


def test_chains_have_one_thread(watched):
    density, seen = watched
    sample(density, DiagonalGaussian(np.zeros(2), np.ones(2)), NutpieNUTS(), seed=1)
    assert seen == {1}


def test_the_optimiser_of_a_path_has_one_thread_in_any_dimension(watched, monkeypatch):
    density, seen = watched
    monkeypatch.setattr("pymc_ext.variational.core.threads.MOST_COLUMNS", 1)
    trajectory(density, np.ones(2), PathSettings())
    assert seen == {1}
