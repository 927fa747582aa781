"""Ctrl-C while the base of a fit is fitted ends the whole fit, with what there is by then."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from scipy.special import expit

from pymc_ext.density import CallableDensity
from pymc_ext.variational.basins.algorithm import Basins
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.polish.policy import Policy
from pymc_ext.variational.bernstein.shape import FlowShape
from pymc_ext.variational.bernstein.whitening import BASES
from pymc_ext.variational.core.monitor import NOTHING_YET
from pymc_ext.variational.gaussian.laplace import Laplace
from pymc_ext.variational.gaussian.mixed import Diagonal, Mixed
from pymc_ext.variational.hierarchical.algorithm import Hierarchical

X = np.random.default_rng(4).normal(size=(12, 3))
Y = np.random.default_rng(5).random(12) < 0.3
# Scores before anything is known, and a share of those of the base: the last of these only look for
# ends of log p̃, and a KeyboardInterrupt leaves them out: a flow learns of it by the signal alone.
EARLY, LATE = 40, 0.7


class Interrupted:
    """A logistic regression of few rows, skew enough to train a flow on any base; Ctrl-C in the
    score of row ``at`` of those asked for."""

    def __init__(self, at: float = np.inf, raised: bool = True) -> None:
        self.at, self.raised, self.rows = at, raised, 0

    def log_density(self, b):
        logit = b @ X.T
        return (Y * logit - np.logaddexp(0, logit)).sum(1) - 0.125 * (b**2).sum(1)

    def score(self, b):
        return (Y - expit(b @ X.T)) @ X - 0.25 * b

    def interrupted_score(self, b):
        before, self.rows = self.rows, self.rows + len(b)
        if before < self.at <= self.rows:
            if self.raised:
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)
        return self.score(b)

    @property
    def density(self):
        return CallableDensity(self.log_density, self.interrupted_score, dimension=3)


class TwoBasins(Interrupted):
    """The same of two normals at (±9, 0, 0)."""

    def log_density(self, b):
        return np.logaddexp(-9 * b[:, 0], 9 * b[:, 0]) - 0.5 * (b**2).sum(1)

    def score(self, b):
        return 9 * np.tanh(9 * b[:, :1]) * np.eye(1, 3) - b


def rows_of(algorithm, of: type[Interrupted] = Interrupted) -> int:
    """Scores that it takes."""
    counted = of()
    algorithm.fit(counted.density, random_seed=1)
    return counted.rows


def flow(base: str) -> Bernstein:
    return Bernstein(FlowShape(5), base=base)


@pytest.mark.parametrize("raised", [True, False], ids=["raised", "signalled"])
@pytest.mark.parametrize("base", ["match", "hierarchical"])
def test_ctrl_c_leaves_the_base_as_the_flow(base: str, raised: bool) -> None:
    rows = rows_of(BASES[base].algorithm)
    assert rows_of(flow(base)) > rows  # steps would be taken
    interrupted = Interrupted(LATE * rows, raised)
    fitted = flow(base).fit(interrupted.density, random_seed=1)
    result = fitted.result
    assert result.stop_reason == "stopped after 0 steps: KeyboardInterrupt"
    assert not result.converged and result.iterations == 0
    assert interrupted.rows < rows + EARLY  # no step was begun
    z = np.random.default_rng(1).standard_normal((100, 3))
    theta, _ = fitted.q.base.forward(z)
    np.testing.assert_allclose(fitted.q.forward(z)[0], theta, atol=1e-10)
    assert np.isfinite(result.elbo) and fitted.proposal is None
    # and the next run takes the steps
    again = flow(base).fit(Interrupted().density, random_seed=1, state=fitted.state)
    assert again.result.iterations > 0 and again.result.elbo > result.elbo


def test_ctrl_c_leaves_the_best_of_the_bases_so_far() -> None:
    rows = rows_of(BASES["laplace"].algorithm)
    result = flow("auto").fit(Interrupted(rows + EARLY).density, random_seed=1).result
    assert result.stop_reason == "stopped after 0 steps: KeyboardInterrupt"
    assert result.notes[0].startswith("base laplace, by fresh ELBO (identity ")


@pytest.mark.parametrize("base", ["laplace", "match", "hierarchical", "auto", None])
def test_ctrl_c_before_there_is_a_base_says_that_nothing_is_kept(base: str | None) -> None:
    with pytest.raises(KeyboardInterrupt, match=NOTHING_YET):
        Bernstein(FlowShape(5), base=base).fit(Interrupted(2).density, random_seed=1)


@pytest.mark.parametrize("algorithm", [Laplace(), Mixed(), Diagonal(), Mixed(base="match")])
def test_the_same_of_gaussians(algorithm) -> None:
    with pytest.raises(KeyboardInterrupt, match=NOTHING_YET):
        algorithm.fit(Interrupted(2).density, random_seed=1)


@pytest.mark.parametrize("variant", ["mu", "eig", "lr"])
def test_a_gaussian_on_an_interrupted_base_is_that_base(variant: str) -> None:
    rows = rows_of(BASES["match"].algorithm)
    interrupted = Interrupted(LATE * rows)
    fitted = Mixed(variant, base="match").fit(interrupted.density, random_seed=1)
    assert fitted.result.stop_reason == "unfinished: KeyboardInterrupt"
    assert not fitted.result.converged and fitted.result.iterations == 0
    base = BASES["match"].algorithm.fit(Interrupted(LATE * rows).density, random_seed=1).q
    np.testing.assert_allclose(fitted.q.mean, base.mean)
    np.testing.assert_allclose(fitted.q.cov, base.cov, rtol=1e-8)
    again = Mixed(variant, base="match").fit(
        Interrupted().density, random_seed=1, state=fitted.state
    )
    assert again.result.iterations > 0


def test_ctrl_c_in_the_proposals_training_leaves_the_flow(monkeypatch) -> None:
    def interrupted(training, polish):
        raise KeyboardInterrupt

    home = "pymc_ext.variational.bernstein.algorithm._Training._polished"
    monkeypatch.setattr(home, interrupted)
    algorithm = Bernstein(
        FlowShape(5), base="laplace", polish="weighted", policy=Policy(fewest_steps=1)
    )
    result = algorithm.fit(Interrupted().density, random_seed=1).result
    assert not result.converged and result.fresh_proposal is None
    assert result.stop_reason.endswith("steps: KeyboardInterrupt before a proposal was made")


def test_ctrl_c_in_a_search_for_more_basins_leaves_those_found() -> None:
    rows = rows_of(Hierarchical(necks=False), TwoBasins)
    assert rows_of(Basins(), TwoBasins) > rows + 2 * EARLY
    result = Basins().fit(TwoBasins(rows + EARLY).density, random_seed=1).result
    assert result.stop_reason == "unfinished: KeyboardInterrupt" and not result.converged
    assert result.notes[0] == "one basin found" and np.isfinite(result.elbo)
