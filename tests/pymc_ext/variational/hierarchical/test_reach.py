"""Weights that reach the tails of governors which a map lacks."""

import numpy as np
import pytest

from pymc_ext.density import CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.variational.core.mixture import PosteriorMixture
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.hierarchical import reach
from pymc_ext.variational.hierarchical.algorithm import Hierarchical
from pymc_ext.variational.hierarchical.reach import law_of_governors, reaching
from tests.pymc_ext.variational.hierarchical.funnels import draws_of_funnel, funnel

LOG_Z = 2.5 * np.log(2 * np.pi)


def narrow_map():
    """The funnel's map with half the sd of log τ, and all that it governs."""
    q = Hierarchical(necks=False).fit(funnel(), random_seed=1).q
    factor = np.ones(q.governors)
    factor[q.place[0]] = 0.5
    return q.moved(np.zeros(5), factor)


def test_weights_of_a_map_without_the_neck_have_it() -> None:
    q, density = narrow_map(), CountedDensity(funnel())
    fresh = fresh_draws(q, density, np.random.default_rng(1))
    reached = reaching(q, density, fresh, None, None, seed=1)
    assert isinstance(reached.proposal, PosteriorMixture) and reached.proposal.components[0] is q
    assert reached.fresh.khat < 0.5 < fresh.khat  # q's own draws were a bad sample of the neck
    error = 1 / np.sqrt(reached.fresh.ess)
    assert abs(reached.fresh.log_marginal_is - LOG_Z) < 4 * error
    z = np.random.default_rng(2).standard_normal((8192, reached.proposal.latent_dimension))
    theta, log_q = reached.proposal.forward(z)
    w = np.exp(psislw(funnel().log_density(theta) - log_q)[0])
    mean = w @ theta[:, 0]
    sd = np.sqrt(w @ (theta[:, 0] - mean) ** 2)
    error = 1 / np.sqrt(1 / (w @ w))
    assert abs(mean) < 4 * error and abs(sd - 1) < 4 * error / np.sqrt(2)


def test_of_a_map_that_has_the_neck_nothing_is_changed_but_the_law_is_known() -> None:
    fitted = Hierarchical().fit(funnel(), random_seed=1)
    assert fitted.proposal is None
    assert list(fitted.result.law.governors) == [0]
    assert fitted.result.law.sd_along == pytest.approx(1, abs=0.02)


def test_who_does_not_look_has_no_law_and_spends_nothing() -> None:
    fitted = Hierarchical(necks=False).fit(funnel(), random_seed=1)
    looked = Hierarchical().fit(funnel(), random_seed=1)
    assert fitted.result.law is None
    spent = looked.result.gradient_evaluations - fitted.result.gradient_evaluations
    assert 100 < spent < 1500


def test_beyond_a_hundred_dimensions_nothing_is_looked_at(monkeypatch) -> None:
    q, density = narrow_map(), CountedDensity(funnel())
    monkeypatch.setattr(reach, "MOST_DIMENSIONS", 4)
    assert law_of_governors(density, q, draws_of_funnel()) is None and density.gradients == 0


def test_ctrl_c_while_a_law_is_looked_for_keeps_the_map_and_says_so(monkeypatch) -> None:
    def pressed(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(reach, "nested_laplace", pressed)
    fitted = Hierarchical().fit(funnel(), random_seed=1)
    assert fitted.result.law is None and not fitted.result.converged
    assert fitted.result.stop_reason.startswith("unfinished")
