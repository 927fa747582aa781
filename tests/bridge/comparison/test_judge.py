"""The verdict in a record: trusted or not and why, as `bridge.fit` says it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from bridge.attempt import Demands, attempted
from bridge.comparison.judge import judge
from bridge.comparison.records import plain
from bridge.errors import IncompleteReferenceError
from bridge.measures.moments import reference_moments
from bridge.methods.method import Fit, Method, WeightedDraws
from bridge.methods.problems import as_problem
from bridge.targets.density import DensityTarget
from bridge.trust import missed_by_chains
from posteriordb_cases.zoo import ZOO, ZooDensity
from posteriordb_cases.zoo.mixtures import NormalMixture, two
from pymc_ext.variational.gaussian.posteriors import Gaussian

N = 4_000


@dataclass
class Known:
    """What `judge` asks of a case, for a density whose exact draws are at hand."""

    density: ZooDensity

    @property
    def reference_moments(self) -> pd.DataFrame:
        draws = self.density.draws(10_000, np.random.default_rng(0))
        return reference_moments({"theta": draws.reshape(10, 1000, -1)})

    def log_evidence(self, target: object) -> None:
        raise IncompleteReferenceError("not asked for here")


def by(q: Gaussian, density: ZooDensity) -> Fit:
    """Draws of q as a method gives them."""
    theta, lq = q.forward(np.random.default_rng(1).standard_normal((N, q.dimension)))
    target = DensityTarget(density)
    lp = density.log_density(theta)
    return Fit(target, theta[None], lp[None], 0.1, lq[None], q.log_density, gradient_evaluations=7)


def judged(fit: Fit, density: ZooDensity) -> dict[str, object]:
    record = judge(Known(density), fit, repetitions=5)
    plain(record)
    return record


MODES = two(2, 10.0, 0.3)


def test_one_mode_of_two_has_a_good_khat_and_is_not_trusted() -> None:
    record = judged(by(Gaussian(np.zeros(2), np.eye(2)), MODES), MODES)
    assert record["khat_exact"] or record["khat"] < 0.5
    assert record["trusted"] is False
    assert str(record["verdict"]).startswith("refused: mass is missed: a mode at theta[")
    assert record["missed"] == pytest.approx(np.log(0.3 / 0.7), abs=0.1)
    assert record["search_gradients"] > 24 and record["gradient_evaluations"] == 7


def test_the_posterior_itself_is_trusted() -> None:
    density = NormalMixture([1.0], np.zeros((1, 2)), 1.0)
    record = judged(by(Gaussian(np.zeros(2), np.eye(2)), density), density)
    assert record["trusted"] is True and record["khat_exact"] and record["missed"] is None
    wider = judged(by(Gaussian(np.zeros(2), 1.2 * np.eye(2)), density), density)
    assert wider["trusted"] is True and str(wider["verdict"]).startswith("good enough: k̂ = ")
    assert wider["search_gradients"] > 24 and 1.0 < wider["sd_ratio"] < 1.3


def test_a_proposal_may_have_draws_without_weight_or_constrained_values() -> None:
    density = NormalMixture([1.0], np.zeros((1, 2)), 1.0)
    fit = by(Gaussian(np.zeros(2), np.eye(2)), density)
    wider = by(Gaussian(np.zeros(2), 1.2 * np.eye(2)), density)
    assert wider.lq is not None
    far = wider.theta.copy()
    far[0, ::100] = 40.0

    class OfBounded(DensityTarget):
        def constrain(self, theta: np.ndarray) -> dict[str, np.ndarray]:
            if (theta > 30).any():
                raise ValueError("lb is 0, but must be less than 0.000000")
            return super().constrain(theta)

    lp = np.where((far > 30).any(axis=-1), -np.inf, wider.lp)
    proposal = WeightedDraws(far, lp, wider.lq)
    record = judged(replace(fit, target=OfBounded(density), proposal=proposal), density)
    assert record["trusted"] is True
    assert record["mean_error_psis"] < 0.1 and 0.9 < record["sd_ratio_psis"] < 1.1  # type: ignore[operator]


def test_what_weights_refuse_is_not_searched() -> None:
    record = judged(by(Gaussian(np.zeros(2), 0.2 * np.eye(2)), MODES), MODES)
    assert record["trusted"] is False and record["search_gradients"] == 0
    assert str(record["verdict"]).startswith("refused: k̂ = ")


def test_a_record_says_what_a_fit_says() -> None:
    """One rule for both: `bridge.fit`'s attempt of the same draws."""
    density = ZOO["regression-4"].make()
    fit = by(Gaussian(np.zeros(3), np.diag([0.7, 0.7, 1.0])), density)
    method = Method("same", "the same draws", "pymc", lambda *_: fit)
    attempt, _, _ = attempted(method, as_problem(density, None), Demands(0.7, 400, N, N), 1)
    record = judged(fit, density)
    assert record["verdict"] == attempt.verdict and record["khat"] == attempt.khat


class Unwilling(NormalMixture):
    def log_density_gradient(self, theta):
        raise NotImplementedError("no score here")

    def log_density(self, theta):
        return super().log_density_gradient(theta)[0]


def test_without_a_search_nothing_is_trusted() -> None:
    density = Unwilling([1.0], np.zeros((1, 2)), 1.0)
    record = judged(by(Gaussian(np.zeros(2), np.eye(2)), density), density)
    assert record["trusted"] is False and record["khat_exact"]
    words = "refused: no search for missed mass: NotImplementedError: no score here"
    assert record["verdict"] == words


def chains(density: ZooDensity, apart: float, **statistics: np.ndarray) -> Fit:
    rng = np.random.default_rng(1)
    theta = density.draws(N, rng).reshape(4, N // 4, -1)
    theta[3] += apart
    lp = density.log_density(theta.reshape(N, -1)).reshape(4, -1)
    return Fit(DensityTarget(density), theta, lp, 0.1, statistics=statistics)


NORMAL = NormalMixture([1.0], np.zeros((1, 2)), 1.0)
ENERGY = np.random.default_rng(2).standard_normal((4, N // 4))
DIVERGING = np.arange(N).reshape(4, -1) % 100 == 0


@pytest.mark.parametrize(
    ("apart", "statistics", "trusted", "words"),
    [
        (0.0, {}, True, "it does not tell its divergences and energies"),
        (0.0, {"energy": ENERGY, "diverging": 0 * DIVERGING}, True, "trusted: R̂ = 1.00"),
        (4.0, {}, False, "the chains disagree about log p̃: R̂ = 1.5"),
        (0.0, {"diverging": DIVERGING}, False, "40 of 4000 transitions diverged"),
        (0.0, {"energy": ENERGY.cumsum(axis=1)}, False, "E-FMI = 0.0"),
    ],
)
def test_chains_are_judged_by_their_own_signs(apart, statistics, trusted, words) -> None:
    record = judged(chains(NORMAL, apart, **statistics), NORMAL)
    assert record["trusted"] is trusted and words in str(record["verdict"])
    assert (record["search_gradients"] > 0) is trusted and (record["rhat"] > 1.4) is (apart > 0)


def test_chains_tell_effective_draws_a_gradient() -> None:
    """As far as their sampler counts gradients; draws of an approximation take none."""
    fit = chains(NORMAL, 0.0)
    record = judged(replace(fit, gradient_evaluations=8 * N), NORMAL)
    assert record["ess_per_gradient"] == record["ess"] / (8 * N)
    assert judged(fit, NORMAL)["ess_per_gradient"] is None


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("name", ["modes-1", "modes-5", "modes-20", "labels-3"])
def test_chains_of_one_mode_agree_and_are_not_trusted(name: str, mode: int) -> None:
    density = ZOO[name].make()
    draws = density.draws(20 * N, np.random.default_rng(1))
    theta = draws[density.mode_of(draws) == mode][:N].reshape(4, -1, density.dimension)
    lp = density.log_density(theta.reshape(N, -1)).reshape(4, -1)
    record = judged(Fit(DensityTarget(density), theta, lp, 0.1), density)
    assert record["rhat"] < 1.01 and record["ess"] > 2_000
    assert record["trusted"] is False and "mass is missed" in str(record["verdict"])


@pytest.mark.parametrize("name", ["modes-5", "funnel-10", "banana-2", "ring", "schools-centred"])
def test_what_chains_have_visited_is_not_missed(name: str) -> None:
    """Necks and arms lie outside the Gaussian of the draws, and no less in the draws."""
    density = ZOO[name].make()
    missed = missed_by_chains(chains(density, 0.0), seed=1)
    assert not missed.matters and missed.gradients > 24


def test_draws_that_do_not_tell_their_mass_are_an_error() -> None:
    fit = chains(NORMAL, 0.0)
    with pytest.raises(ValueError, match="draws"):
        missed_by_chains(replace(fit, theta=fit.theta[:, :1], lp=fit.lp[:, :1]), seed=1)


def test_few_effective_draws_are_not_trusted() -> None:
    fit = chains(NORMAL, 0.0)
    few = replace(fit, theta=fit.theta[:, :80], lp=fit.lp[:, :80])
    record = judged(few, NORMAL)
    assert record["trusted"] is False and "effective draws of" in str(record["verdict"])


def test_a_sampler_that_judges_itself_is_believed() -> None:
    own = {"trusted": False, "verdict": "not trusted: it says so"}
    record = judged(replace(chains(NORMAL, 0.0), info=own), NORMAL)
    assert record["trusted"] is False and record["verdict"] == "not trusted: it says so"


def test_one_chain_alone_keeps_its_effective_draws_unless_it_says_otherwise() -> None:
    fit = chains(NORMAL, 0.0)
    alone = replace(fit, theta=fit.theta[:1], lp=fit.lp[:1], info={"trusted": False})
    record = judged(alone, NORMAL)
    assert record["ess"] > 500 and record["rhat"] is None
    without = replace(alone, info={"trusted": False, "ess": None})
    assert judged(without, NORMAL)["ess"] is None


def test_a_q_known_at_its_own_draws_is_searched_as_their_gaussian() -> None:
    fit = by(Gaussian(np.zeros(2), np.eye(2)), MODES)
    record = judged(replace(fit, log_q=None), MODES)
    assert record["missed"] == pytest.approx(np.log(0.3 / 0.7), abs=0.1)
