"""A law on a lattice of correlated effects' scales, against the exact posterior."""

from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

import pymc_ext as px
from posteriordb_cases.zoo.effects import simulated
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.maths.psis import psislw
from pymc_ext.variational.hierarchical import lattice
from pymc_ext.variational.hierarchical.algorithm import LAW_SERVES, Hierarchical
from pymc_ext.variational.hierarchical.lattice import LatticeLaplace
from pymc_ext.variational.hierarchical.law import Conditional
from pymc_ext.variational.hierarchical.law_map import LawMap
from pymc_ext.variational.hierarchical.maxima import maximum_near, with_shifted_modes
from pymc_ext.variational.hierarchical.reach import crossings
from tests.pymc_ext.variational.hierarchical.laws import middle, on_lattice

GROUPS = 12
SCALES, CORRELATION, SIGMA = [2, 3], 4, 2 * GROUPS + 5  # places in θ
# Globals first, the effects last: the order of a map of them.
ORDER = np.array([SIGMA, *SCALES, CORRELATION, 0, 1, *range(5, SIGMA)])


@cache
def target():
    return simulated(1, 0.4)


@cache
def exact() -> np.ndarray:
    return target().draws(50_000, np.random.default_rng(1))


@cache
def law() -> tuple[LatticeLaplace, int]:
    density = CountedDensity(target())
    crossing = [*SCALES, CORRELATION]
    found = on_lattice(density, exact()[:2000], crossing, [SIGMA], ORDER)
    assert found is not None
    return found, density.gradients


def test_its_marginals_are_the_exact_ones() -> None:
    """Three of effects' scales and their correlation, and σ, in a few thousand scores."""
    found, scores = law()
    mean, sd = exact().mean(axis=0), exact().std(axis=0)
    along = found.governors
    assert along.tolist() == [*SCALES, CORRELATION, SIGMA]
    assert np.all(np.abs(found.mean_along - mean[along]) < 0.06 * sd[along])
    assert np.all(np.abs(found.sd_along / sd[along] - 1) < 0.06)
    assert scores < 16_000


def test_its_map_is_the_posterior_and_a_file_keeps_it(tmp_path) -> None:
    kept = LawMap(law()[0])
    z = np.random.default_rng(3).standard_normal((8_000, kept.latent_dimension))
    theta, log_q = kept.forward(z)
    ratios = target().log_density(theta) - log_q
    assert 0 < target().log_z - ratios.mean() < 0.06  # nats, of cells a third of an sd wide
    np.testing.assert_allclose(theta.std(axis=0), exact().std(axis=0), rtol=0.08)
    loaded = px.load(px.save(tmp_path / "q.npz", kept))
    np.testing.assert_array_equal(loaded.rvs(8_000, random_state=3), theta)
    np.testing.assert_array_equal(loaded.logpdf(theta), kept.log_density(theta))
    np.testing.assert_allclose(loaded.logpdf(theta), log_q, rtol=1e-8)


def test_weights_of_its_draws_know_the_evidence_and_every_moment() -> None:
    found, _ = law()
    z = np.random.default_rng(2).standard_normal((8_000, found.latent_dimension))
    theta, log_q = found.forward(z)
    log_ratios = target().log_density(theta) - log_q
    log_w, khat = psislw(log_ratios)
    w = np.exp(log_w)
    ess = 1 / (w @ w)
    assert khat < 0.5 and ess > 0.5 * len(w)
    error = 1 / np.sqrt(ess)
    evidence = np.log(np.mean(np.exp(log_ratios - log_ratios.max()))) + log_ratios.max()
    assert abs(evidence - target().log_z) < 4 * error + 0.01  # nats of the grid's own
    mean = w @ theta
    sd = np.sqrt(w @ (theta - mean) ** 2)
    assert np.all(np.abs(mean - exact().mean(axis=0)) < 5 * error * sd)
    # heavier than a normal: an error of a sd is no 1/√2 of that of a mean
    assert np.all(np.abs(sd / exact().std(axis=0) - 1) < 5 * error)


def test_log_q_anywhere_is_that_of_its_own_draws() -> None:
    """And there are as many draws in cells as their mass says."""
    found, _ = law()
    z = np.random.default_rng(3).standard_normal((20_000, found.latent_dimension))
    theta, log_q = found.forward(z)
    np.testing.assert_allclose(found.log_density(theta), log_q, rtol=0, atol=1e-8)
    share = found.masses / found.masses.sum()
    cell = found.cell_of(theta[:, found.governors])
    parts = np.arange(len(share)) * 50 // len(share)  # fifty of the thousands of cells together
    counts = np.bincount(parts[cell], minlength=50)
    masses = np.bincount(parts, share) * len(theta)
    assert np.all(np.abs(counts - masses) < 5 * np.sqrt(masses) + 3)
    theta[:, SCALES[0]] = 100
    assert np.all(found.log_density(theta) == -np.inf)


def test_between_places_in_a_neck_the_law_is_that_of_a_maximum_there() -> None:
    """Where a scale is e^-4 of the rest: entries of Λ cancel to a thousandth."""
    found, _ = law()
    k = found.lattice.along.index(SCALES[1])
    edges = found.lattice.edges
    middles = 0.5 * (edges[0] + edges[1])
    far = middles[np.argsort(np.abs(middles[:, k] + 4) + np.abs(middles[:, 2]))[:5]]
    density = CountedDensity(target())
    for t in far:
        at = np.append(t, found.middle.theta[SIGMA])
        given = Conditional.of(found.others.pattern, found.terms_at(at[None]))
        here = found.middle.theta.copy()
        here[found.governors] = at
        places = found.others.places
        here[places] = found.origin + given.draws(np.zeros((1, len(places))))[0]
        own = np.tril(found.others.pattern.dense(given.root[:, 0]))
        sds = 1 / np.linalg.norm(own, axis=1)
        there = maximum_near(density, here, sds, found.others)
        off = (here - there.theta)[places]
        assert 0.5 * off @ there.precision @ off < 1.0
        root = np.linalg.inv(np.linalg.cholesky(there.precision))
        spread = np.linalg.svd(root @ own, compute_uv=False)
        assert 0.6 < spread.min() and spread.max() < 1.6


def test_who_crosses_whom_and_whose_mode_is_shifted() -> None:
    """Scales and the correlation multiply one another, σ adds up; effects that are fitted leave a
    mode of σ below its own, and none of the means."""
    density, draws = CountedDensity(target()), exact()[:2000]
    crossing = crossings(density, draws, [*SCALES, CORRELATION, SIGMA])
    expected = np.zeros((4, 4), dtype=bool)
    expected[:3, :3] = ~np.eye(3, dtype=bool)
    assert np.array_equal(crossing, expected)
    along = [*SCALES, CORRELATION]
    found = middle(density, draws, along, ORDER).maximum
    assert len(found.others.columns) == 5  # two of a pair, both means and σ
    assert with_shifted_modes(density, found).tolist() == [SIGMA]


def test_too_many_places_are_none(monkeypatch) -> None:
    monkeypatch.setattr(lattice, "MOST_WORK", 500)
    density, draws = CountedDensity(target()), exact()[:2000]
    assert on_lattice(density, draws, [*SCALES, CORRELATION], [SIGMA], ORDER) is None


def test_without_a_maximum_there_is_none() -> None:
    flat = CallableDensity(
        lambda t: -0.5 * (t[:, 0] ** 2 + t[:, 1] ** 2) + 0.5 * t[:, 2] ** 2,
        lambda t: t * [-1.0, -1.0, 1.0],
        dimension=3,
    )
    draws = np.random.default_rng(1).standard_normal((500, 3))
    assert on_lattice(CountedDensity(flat), draws, [0, 1], [], np.arange(3)) is None


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fit_of_correlated_effects_has_it(without_fields, seed) -> None:
    """The map alone misses both necks; with the law weights serve after its first block."""
    fitted = Hierarchical(early=True).fit(target(), random_seed=seed)
    result = fitted.result
    assert result.stop_reason == LAW_SERVES and isinstance(result.law, LatticeLaplace)
    assert result.khat < 0.5 and result.fresh_proposal.ess > 0.25 * result.fresh_proposal.draws
    error = result.fresh_proposal.log_marginal_is_se
    assert abs(result.log_marginal_is - target().log_z) < 4 * error + 0.01


@pytest.mark.parametrize("side", [1, -1])
def test_a_governor_that_is_known_to_one_side_alone(side: int) -> None:
    """As where the others have no maximum beyond: the places are those to the other side."""
    maxima = [
        SimpleNamespace(theta=np.array([0.5 * k]), sds=np.ones(1), log_p=-0.125 * k**2)
        for k in range(0, 9 * side, side)
    ]
    scan = SimpleNamespace(j=0, sd=1.0, maxima=maxima[::side])
    kept = lattice._thinned(scan, maxima[0])
    assert kept[0 if side > 0 else -1] is maxima[0] and 2 < len(kept) < 9
    alone = SimpleNamespace(j=0, sd=1.0, maxima=maxima[:1])
    assert lattice._thinned(alone, maxima[0]) == (maxima[0],)
