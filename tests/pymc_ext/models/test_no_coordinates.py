"""Simulators and Wishart's matrices are refused in a sentence, before anything is compiled."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bridge
import pymc_ext as px

pytestmark = pytest.mark.filterwarnings(
    "ignore:The Wishart distribution:UserWarning",  # PyMC 5's own advice
    "ignore:RandomVariable Ops will stop hiding:DeprecationWarning",  # of PyMC 6's own Simulator
    "ignore:Calling a RandomVariable without an explicit rng:DeprecationWarning",
)
SIMULATED = r"the density of 's' is known by simulation only .*: use pm.sample_smc"
WISHART = r"'precision' is pm.Wishart, .*: give the covariance by pm.LKJCholeskyCov instead"


def simulator() -> pm.Model:
    with pm.Model() as model:
        a = pm.Normal("a")
        pm.Simulator("s", lambda rng, a, size: rng.normal(a, 1, size=5), a, observed=np.zeros(5))
    return model


def wishart() -> pm.Model:
    with pm.Model() as model:
        precision = pm.Wishart("precision", 5, np.eye(2))
        pm.MvNormal("y", np.zeros(2), tau=precision, observed=np.zeros((3, 2)))
    return model


@pytest.mark.parametrize("family", ["laplace", "hierarchical", "bernstein"])
def test_families_refuse_simulators(family) -> None:
    with pytest.raises(ValueError, match=SIMULATED):
        px.fit(family, model=simulator())


def test_wishart_is_refused_where_pymc_does_not_transform_it() -> None:
    model = wishart()
    if model.rvs_to_transforms[model["precision"]] is None:  # PyMC 5
        with pytest.raises(ValueError, match=WISHART):
            px.fit("laplace", model=model)
        with pytest.raises(ValueError, match=WISHART):
            bridge.pymc_target(model)
    else:
        assert np.isfinite(bridge.pymc_target(model).log_density(np.full((1, 3), 0.1))).all()


def test_a_simulator_is_refused_by_bridge_fit_as_pm_sample_does_not_take_it_either() -> None:
    with pytest.raises(ValueError, match=SIMULATED):
        bridge.fit(simulator(), random_seed=1)


def test_targets_refuse_them() -> None:
    with pytest.raises(ValueError, match=SIMULATED):
        bridge.pymc_target(simulator())
