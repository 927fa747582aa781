"""Fields: the map against numerical derivatives, neighbours found, exact laws reached."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import sparse, special, stats

import pymc_ext as px
from posteriordb_cases.zoo.crossed import simulated as simulated_crossed
from posteriordb_cases.zoo.density import ZooDensity
from posteriordb_cases.zoo.effects import simulated as correlated
from posteriordb_cases.zoo.levels import simulated as simulated_level
from posteriordb_cases.zoo.nested import simulated as simulated_nested
from posteriordb_cases.zoo.rows import simulated
from posteriordb_cases.zoo.schools import Groups as SchoolsLike
from pymc_ext.density import (
    CallableDensity,
    CountedDensity,
    Density,
    DensityInCoordinates,
    PyMCDensity,
)
from pymc_ext.density.graph import NotByRowsError
from pymc_ext.maths.bordered import BorderedRoot
from pymc_ext.maths.bordered_many import BorderedRoots
from pymc_ext.maths.grid import Grid
from pymc_ext.maths.marginal import Marginal
from pymc_ext.maths.normal import standard_normal_logp
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.posterior import fresh_draws
from pymc_ext.variational.core.saved.codec import decode, encode
from pymc_ext.variational.fields.conditional import ByPlace, NoMaximumError
from pymc_ext.variational.fields.curves import Curves
from pymc_ext.variational.fields.evidence import highest, information
from pymc_ext.variational.fields.found import field_map
from pymc_ext.variational.fields.globals_grid import GlobalsGrid
from pymc_ext.variational.fields.globals_map import GlobalsMap
from pymc_ext.variational.fields.map import FieldMap
from pymc_ext.variational.fields.means import with_means
from pymc_ext.variational.fields.neighbours import Neighbours, find_neighbours
from pymc_ext.variational.fields.on_grid import MOST_ROUNDING, TOGETHER, Filled
from pymc_ext.variational.fields.precision import PrecisionRoot
from pymc_ext.variational.gaussian.numbers import antithetic
from pymc_ext.variational.hierarchical.algorithm import GROUPS_SERVE, Hierarchical
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from tests.needed import needs
from tests.pymc_ext.variational.fields.field_targets import (
    Autoregression,
    Groups,
    NormalWalk,
    Seasons,
    chain,
)
from tests.tolerances import EXACT, NUMERIC, monte_carlo


def bordered(n: int, b: int, border: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A positive definite matrix, and its entries as those of a `BorderedRoot`."""
    rng, first = np.random.default_rng(seed), n - border
    A = np.zeros((n, n))
    for k in range(1, b + 1):
        A[:first, :first] += np.diag(rng.standard_normal(first - k), -k)
    A[first:] = np.tril(rng.standard_normal((border, n)), first - 1)
    A = A + A.T + (1 + np.abs(A + A.T).sum(axis=1).max()) * np.eye(n)
    scale = np.exp(2 * rng.standard_normal(n))
    A *= np.outer(scale, scale)
    entries = np.zeros((b + 1 + border, n))
    entries[0] = np.diag(A)
    for k in range(1, b + 1):
        entries[k, : first - k] = np.diag(A[:first, :first], -k)
    entries[b + 1 :] = np.tril(A[first:], first - 1)
    return A, entries


@pytest.mark.parametrize("b", [0, 1, 4])
@pytest.mark.parametrize("border", [0, 1, 3])
@pytest.mark.parametrize("constrained", [False, True])
def test_a_precision_and_its_root(b: int, border: int, constrained: bool) -> None:
    n, rng = 20, np.random.default_rng(1)
    A, entries = bordered(n, b, border)
    common = 5.0 * constrained * rng.standard_normal(n) * np.sqrt(np.diag(A))
    root = PrecisionRoot(BorderedRoot.of(entries, border), common)
    covariance, eye = np.linalg.inv(A + np.outer(common, common)), np.eye(n)
    half = root.draws(eye)  # rows K⁻ᵀ e, so that halfᵀ half is their covariance
    np.testing.assert_allclose(half.T @ half, covariance, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(root.whitened(eye), half.T, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(root.normals(half), eye, atol=1e-9)
    np.testing.assert_allclose(root.covariance_times(eye), covariance, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(root.precision_times(covariance), eye, atol=1e-6)
    np.testing.assert_allclose(-2 * root.log_det, np.linalg.slogdet(covariance)[1], rtol=1e-10)


@pytest.mark.parametrize("border", [0, 2])
def test_many_roots_at_once_are_each_by_itself(border: int) -> None:
    """Beyond what numbers can hold too: one of them is no reason for another to be wrong."""
    roots = [BorderedRoot.of(bordered(7, 2, border, seed)[1], border) for seed in range(5)]
    x = np.random.default_rng(1).standard_normal((5, 7))
    for far in (1.0, 1e-320, np.inf, 0.0):
        entries = np.stack([root.entries for root in roots])
        with np.errstate(all="ignore"):  # what LAPACK leaves of a band stays zero
            entries[2] = np.where(entries[2] == 0, 0.0, entries[2] * far)
        many = BorderedRoots(entries, border)
        for name in ("solve", "transposed_solve", "transposed_times"):
            with np.errstate(all="ignore"):
                each = [
                    getattr(BorderedRoot(B, border), name)(row[None])[0]
                    for B, row in zip(entries, x, strict=True)
                ]
                np.testing.assert_allclose(getattr(many, name)(x), each, rtol=1e-10)
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(many.log_det, np.log(entries[:, 0]).sum(axis=1))


def test_a_corner_whose_pivots_vanish_is_solved_by_itself() -> None:
    """Far out one of many was singular to LAPACK's general solver, and ended an answer."""
    roots = [BorderedRoot.of(bordered(7, 2, 2, seed)[1], 2) for seed in range(3)]
    entries = np.stack([root.entries for root in roots])
    entries[1, 0, -2:], entries[1, -1, -2] = 1e-200, 1e200
    x = np.random.default_rng(1).standard_normal((3, 7))
    for name in ("solve", "transposed_solve"):
        with np.errstate(all="ignore"):
            found = getattr(BorderedRoots(entries, 2), name)(x)
        for k in (0, 2):
            expected = getattr(BorderedRoot(entries[k], 2), name)(x[k : k + 1])[0]
            np.testing.assert_allclose(found[k], expected, rtol=1e-10)


def test_what_is_not_positive_definite_has_no_root() -> None:
    for wrong in ([[1.0, 1.0], [2.0, 0.0]], [[1.0, -1.0], [0.0, 0.0]], [[1.0, np.nan], [0.0, 0.0]]):
        with pytest.raises(np.linalg.LinAlgError):
            BorderedRoot.of(np.array(wrong))
    _, entries = bordered(6, 1, 2)
    for wrong in (np.nan, 1e9):
        entries[-1, 0] = wrong
        with pytest.raises(np.linalg.LinAlgError):
            BorderedRoot.of(entries, 2)


def some_curves(g: int, rng: np.random.Generator) -> tuple[GlobalsMap, Curves]:
    pairs = np.array([(i, j) for i in range(g) for j in range(i)], dtype=int).reshape(-1, 2)
    places = np.tile([-2.2, -0.7, 0.8, 2.1], g)
    curves = Curves(0.3 * rng.standard_normal(g), places, np.full(g, 4), pairs)
    of_globals = GlobalsMap(
        rng.standard_normal(g),
        0.3 * rng.standard_normal((g, g)) + np.eye(g),
        Marginal(0.5 * rng.standard_normal(g), np.exp(0.3 * rng.standard_normal((2, g)))),
        np.tril(0.3 * rng.standard_normal((g, g)), -1),
        curves.origin,
    )
    return of_globals, curves


def some_grid(g: int, rng: np.random.Generator) -> tuple[GlobalsGrid, Grid]:
    """A box with its corners missing, of a skew law."""
    places = np.array([-3.5, -2.2, -0.7, 0.8, 2.1, 3.2])
    box = np.array(list(product(range(6), repeat=g)))
    nodes = box[np.abs(places[box]).sum(axis=1) < 3.4 * g] if g > 1 else box
    grid = Grid(np.tile(places, g), np.full(g, 6), nodes)
    log_p = -0.5 * (grid.values**2).sum(axis=1) + 0.1 * grid.values.sum(axis=1) ** 2
    return GlobalsGrid(rng.standard_normal(g), np.exp(rng.standard_normal(g)), grid, log_p), grid


def some_map(
    n: int, b: int, border: int, g: int, constrained: bool, on_grid: bool = False
) -> FieldMap:
    rng = np.random.default_rng(3)
    of_globals, curves = (some_grid if on_grid else some_curves)(g, rng)
    terms = curves.terms
    entries = 0.2 * rng.standard_normal((terms, b + 1 + border, n))
    for k in range(1, b + 1):
        entries[:, k, n - border - k :] = 0.0
    entries[:, b + 1 :] = np.tril(entries[:, b + 1 :], n - border - 1)
    return FieldMap(
        order=rng.permutation(n + g),
        of_globals=of_globals,
        curves=curves,
        middle=0.3 * rng.standard_normal((terms, n)),
        entries=entries,
        common=3.0 * constrained * rng.standard_normal(n),
        shift=0.1 * rng.standard_normal(n),
        marginal=Marginal(0.4 * rng.standard_normal(n), np.ones((2, n))),
        border=border,
    )


@pytest.mark.parametrize(
    ("n", "b", "border", "g", "constrained", "on_grid"),
    [
        (12, 3, 0, 2, True, False),
        (9, 1, 0, 1, False, False),
        (7, 2, 0, 0, True, False),
        (8, 0, 1, 3, True, False),
        (9, 2, 3, 2, False, False),
        (8, 0, 1, 1, False, True),
        (9, 1, 2, 2, True, True),
        (6, 0, 1, 3, False, True),
    ],
)
def test_the_map_by_its_derivatives(
    n: int, b: int, border: int, g: int, constrained: bool, on_grid: bool
) -> None:
    q, D, h = some_map(n, b, border, g, constrained, on_grid), n + g, 1e-6
    z = np.random.default_rng(4).standard_normal((3, D))
    theta, log_q = q.forward(z)
    np.testing.assert_allclose(q.inverse(theta), z, atol=1e-9)
    np.testing.assert_allclose(q.log_density(theta), log_q, rtol=1e-9)
    eye = h * np.eye(D)
    for row, log_q_there in zip(z, log_q, strict=True):
        jacobian = (q.forward(row + eye)[0] - q.forward(row - eye)[0]) / (2 * h)
        log_det = standard_normal_logp(row[None])[0] - log_q_there
        np.testing.assert_allclose(np.linalg.slogdet(jacobian)[1], log_det, atol=NUMERIC)
    P = np.cov(np.random.default_rng(5).standard_normal((D, 3 * D)))
    density = CallableDensity(
        lambda t: -0.5 * np.einsum("nd,nd->n", t @ P, t), lambda t: -t @ P, dimension=D
    )
    seen = DensityInCoordinates(density, q)
    _, score = seen.log_density_gradient(z)
    np.testing.assert_allclose(q.pullback(z, -theta @ P), score, rtol=1e-12)
    for row, own, of_row in zip(z, score, log_q, strict=True):  # as chains ask for it
        at, log_q_there, pullback = q.forward_with_pullback(row[None])
        np.testing.assert_allclose(q.inverse(at)[0], row, atol=1e-9)
        np.testing.assert_allclose(log_q_there, of_row, rtol=1e-12)
        np.testing.assert_allclose(pullback(-at @ P)[0], own, rtol=1e-9, atol=1e-9)
    for k in range(D):
        numeric = (seen.log_density(z + eye[k]) - seen.log_density(z - eye[k])) / (2 * h)
        np.testing.assert_allclose(score[:, k], numeric, rtol=NUMERIC, atol=NUMERIC)


@pytest.mark.parametrize("constraint", [0.0, 0.5])
@pytest.mark.parametrize("sites", [40, 1_500])
def test_neighbours_and_a_constraint_on_a_sum_are_found(sites: int, constraint: float) -> None:
    density, P = chain(sites, constraint)
    counted = CountedDensity(density)
    near = find_neighbours(counted, np.zeros(sites), np.random.default_rng(1))
    assert near is not None and near.field == sites
    found = {tuple(sorted(pair)) for pair in near.order[near.pairs].tolist()}
    off = np.abs(P - constraint**2) > 0.5
    assert found == set(zip(*map(list, np.nonzero(np.triu(off, 1))), strict=True))
    assert near.width == 1 and near.differences == 3
    np.testing.assert_allclose(np.abs(near.common), constraint, rtol=1e-6)
    assert counted.gradients <= 1_200  # whatever the number of sites


def test_a_band_by_few_differences_is_the_precision() -> None:
    density, P = chain(60, 0.3)
    near = find_neighbours(CountedDensity(density), np.zeros(60), np.random.default_rng(1))
    assert near is not None
    h = np.full(60, 1e-3)
    changes = -near.moves(h) @ P[np.ix_(near.order, near.order)]
    band = near.entries(changes, h)
    np.testing.assert_allclose(band[0], 2.5, rtol=1e-9)
    np.testing.assert_allclose(band[1, :-1], -1.0, rtol=1e-9)


@pytest.mark.parametrize("kind", ["groups", "dense", "alone", "outside"])
def test_where_there_is_no_field_but_groups(kind: str) -> None:
    D = 64
    P = {
        "groups": np.kron(np.eye(16), 2 * np.eye(4) + 1),
        "dense": np.eye(D) + np.cos(np.subtract.outer(np.arange(D), np.arange(D))),
        "alone": np.eye(D),
        "outside": np.eye(D),
    }[kind]
    density = CallableDensity(
        lambda t: -0.5 * np.einsum("nd,nd->n", t @ P, t) + (np.nan if kind == "outside" else 0),
        lambda t: -t @ P + (np.nan if kind == "outside" else 0),
        dimension=D,
    )
    found = find_neighbours(CountedDensity(density), np.zeros(D), np.random.default_rng(1))
    if kind in ("groups", "alone"):
        assert found is not None and found.in_groups
        assert found.width == (3 if kind == "groups" else 0)
    else:
        assert found is None


@pytest.mark.parametrize("constraint", [0.0, 0.5])
def test_a_normal_field_is_exact(constraint: float) -> None:
    density, P = chain(400, constraint)
    fitted = Hierarchical().fit(density, random_seed=1)
    assert isinstance(fitted.q, FieldMap)
    log_z = 200 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(P)[1]
    np.testing.assert_allclose(fitted.result.elbo, log_z, atol=1e-4)
    assert fitted.result.fresh.ess > 0.9999 * fitted.result.fresh.draws
    assert fitted.result.gradient_evaluations < 700


def assert_law_by_quadrature(
    fitted: Fitted[Any], density: Density, column: int, truth: tuple[float, float, float]
) -> None:
    """Its evidence, and mean and sd of one coordinate by weights of draws of q."""
    log_z, mean, sd = truth
    fresh = fitted.result.fresh
    np.testing.assert_allclose(
        fresh.log_marginal_is, log_z, atol=4 * fresh.log_marginal_is_se + 1e-3
    )
    z = np.random.default_rng(2).standard_normal((20_000, density.dimension))
    theta, log_q = fitted.q.forward(z)
    weights = np.exp(density.log_density(theta) - log_q - log_z)
    weights /= weights.sum()
    of_mean = weights @ theta[:, column]
    assert abs(of_mean - mean) < 4 * sd / np.sqrt(10_000)
    assert abs(np.sqrt(weights @ (theta[:, column] - of_mean) ** 2) / sd - 1) < 0.05


@pytest.mark.parametrize("sites", [40, 400])
def test_a_scale_and_its_field(sites: int) -> None:
    """The law of the scale by quadrature; given it all is normal."""
    density = NormalWalk(sites)
    fitted = Hierarchical().fit(density, random_seed=1)
    assert isinstance(fitted.q, FieldMap)
    fresh = fitted.result.fresh
    assert fresh.usable and fresh.ess > 0.99 * fresh.draws
    assert_law_by_quadrature(fitted, density, -1, density.of_scale())
    assert fitted.result.gradient_evaluations < 1_200


def test_a_level_that_an_autoregression_governs_belongs_to_the_field() -> None:
    """Near a unit root the level is hardly known: given rho all is normal, and the law of rho, and
    of the level, by quadrature."""
    target = Autoregression(50)
    fitted = Hierarchical().fit(PyMCDensity(target.model()), random_seed=1)
    assert isinstance(fitted.q, FieldMap)
    assert fitted.result.field_given == ("logodds rho",)
    log_z, sd = target.of_level()
    fresh = fitted.result.fresh
    assert fresh.khat < 0.7 and fresh.ess > 0.8 * fresh.draws
    np.testing.assert_allclose(
        fresh.log_marginal_is, log_z, atol=4 * fresh.log_marginal_is_se + 1e-3
    )
    theta, log_q = fitted.q.forward(np.random.default_rng(2).standard_normal((20_000, 52)))
    weights = np.exp(PyMCDensity(target.model()).log_density(theta) - log_q - log_z)
    weights /= weights.sum()
    level = theta[:, 0]
    of_sd = np.sqrt(weights @ (level - weights @ level) ** 2)
    assert abs(of_sd / sd - 1) < 0.05
    assert abs(np.std(level) / sd - 1) < 0.1  # unweighted: so are q's tails


def test_what_governs_the_sd_of_a_level_is_no_level() -> None:
    """Known to .1 on its scale, rho changes the field's own precision by next to nothing."""
    density = CountedDensity(PyMCDensity(Autoregression(400).model()))
    near = find_neighbours(density, np.zeros(402), np.random.default_rng(1))
    assert near is not None and near.field == 400
    q = field_map(density, near, np.zeros(402), np.random.default_rng(1))
    assert q is not None and q.border == 1
    assert [density.unconstrained_names[i] for i in q.order[: q.globals]] == ["rho_logodds__"]


def test_effects_belong_to_the_field_before_their_scale_is_climbed() -> None:
    """All seasons' effects at zero have no maximum in their scale: given that all is normal, and
    its law by quadrature."""
    target = Seasons(72)
    density = PyMCDensity(target.model())
    fitted = Hierarchical().fit(density, random_seed=1)
    assert isinstance(fitted.q, FieldMap) and fitted.q.border == 11
    assert fitted.result.field_given == ("log tau",)
    fresh = fitted.result.fresh
    assert fresh.khat < 0.7 and fresh.ess > 0.9 * fresh.draws
    column = density.unconstrained_names.index("tau_log__")
    assert_law_by_quadrature(fitted, density, column, target.of_log_scale())
    assert fitted.result.gradient_evaluations < 4_000


@pytest.mark.parametrize("spread", [0.3, 2.0])
def test_groups_where_weights_are_wanted(spread: float) -> None:
    """Given their scale all is normal: its law by quadrature, in a neck and without one."""
    target = Groups(40, spread)
    density = PyMCDensity(target.model())
    fitted = Hierarchical(early=True).fit(density, random_seed=1)
    assert isinstance(fitted.q, FieldMap)
    assert fitted.result.stop_reason == GROUPS_SERVE
    assert fitted.result.field_given == ("log tau",)
    assert fitted.result.gradient_evaluations < 600
    fresh = fitted.result.fresh
    assert fresh.usable and fresh.ess > 0.95 * fresh.draws
    column = density.unconstrained_names.index("tau_log__")
    assert_law_by_quadrature(fitted, density, column, target.of_log_scale())


def test_groups_have_a_map_where_more_than_weights_is_wanted() -> None:
    fitted = Hierarchical().fit(PyMCDensity(Groups(40, 2.0).model()), random_seed=1)
    assert isinstance(fitted.q, HierarchicalMap) and fitted.result.links.links


@pytest.mark.parametrize("groups", [4, 40])
@pytest.mark.parametrize("tau", [0.1, 1.0])
def test_groups_of_two_scales_in_a_neck(groups: int, tau: float) -> None:
    """Exact by quadrature; down the neck means and the other scale move, along no straight line."""
    target = simulated(groups, tau, 1.0, (groups, 3))
    fitted = Hierarchical(early=True).fit(target, random_seed=1)
    assert fitted.result.stop_reason == GROUPS_SERVE
    fresh = fitted.result.fresh
    assert fresh.usable and fresh.ess > 0.7 * fresh.draws
    error = fresh.log_marginal_is_se
    assert abs(fresh.log_marginal_is - target.log_z) < 4 * error + 0.01
    exact = target.draws(40_000, np.random.default_rng(1))[:, 1]
    z = np.random.default_rng(2).standard_normal((40_000, target.dimension))
    log_tau = fitted.q.forward(z)[0][:, 1]
    # of an exponential tail the sd of 40,000 draws errs by a hundredth
    assert abs(log_tau.std() / exact.std() - 1) < 0.06
    assert abs(log_tau.mean() - exact.mean()) < 0.06 * exact.std()
    assert fitted.result.gradient_evaluations < 2_000


def assert_exact(fitted: Fitted[Any], target: ZooDensity, worth: float, off: float) -> None:
    """Weighted draws worth that share of as many, log Z that near beside its error, and no mass
    left out where exact draws are."""
    fresh = fitted.result.fresh
    assert fresh.usable and fresh.ess > worth * fresh.draws
    assert abs(fresh.log_marginal_is - target.log_z) < 4 * fresh.log_marginal_is_se + off
    exact = target.draws(20_000, np.random.default_rng(1))
    ratio = target.log_density(exact) - fitted.q.log_density(exact) - target.log_z
    assert (ratio > 2).mean() < 0.001


def test_correlated_effects_have_four_globals_on_a_grid() -> None:
    target = correlated(1, 0.5, 15, 6)
    fitted = Hierarchical(early=True).fit(target, random_seed=1)
    assert fitted.result.stop_reason == GROUPS_SERVE and fitted.q.globals == 4
    # nor is mass left out where a place in the corner of a cell was too low to be looked at
    assert_exact(fitted, target, 0.7, 0.02)
    arrays: dict[str, np.ndarray] = {}
    assert decode(encode(fitted.q, arrays), arrays) == fitted.q


@pytest.mark.parametrize(("first", "second"), [(6, 5), (12, 8), (60, 40), (100, 12)])
def test_of_two_factors_that_cross_the_effects_of_one_are_a_field(first: int, second: int) -> None:
    """The scale of the others, on which no effect of the field depends, is a global for it all."""
    near, names = neighbours_of(crossed_factors(first, second))
    assert near.in_groups and near.field == first and near.differences == 1
    assert sorted(names) == sorted(
        ["mu", "s_log__", "t_log__", "sigma_log__", *(f"b[{j}]" for j in range(second))]
    )


@pytest.mark.parametrize("first", [5, 12])
def test_effects_that_cross_are_known_and_join_the_field_together(first: int) -> None:
    """Of counts they lose more than a hundredth of a nat, and a few of them alone leave the rest,
    with their scale, as axes of a grid: 17,000 scores in place of 2,600."""
    rng, rows = np.random.default_rng(9), np.arange(4 * first)
    with pm.Model() as model:
        mu, s, t = pm.Normal("mu"), pm.HalfNormal("s", 1), pm.HalfNormal("t", 1)
        a, b = pm.Normal("a", 0, s, shape=first), pm.Normal("b", 0, t, shape=4)
        rate = pm.math.exp(mu + a[rows // 4] + b[rows % 4])
        pm.Poisson("y", rate, observed=rng.poisson(2.0, len(rows)))
    density = CountedDensity(PyMCDensity(model))
    near, names = neighbours_of(model)
    effects = {density.unconstrained_names[i] for i in near.effects}
    assert effects == {name for name in names if name[:2] in ("a[", "b[")} and len(effects) >= 4
    q = field_map(density, near, np.zeros(density.dimension), np.random.default_rng(1))
    assert q is not None and q.globals == 2 and density.gradients < 6_000
    fresh = fresh_draws(q, density, np.random.default_rng(2), 4_096)
    assert fresh.usable and fresh.ess > 0.6 * fresh.draws


def test_groups_without_data_and_what_only_a_few_have_are_no_governors() -> None:
    """Three groups no row tells of lack a global of all others, as the scale of effects does."""
    rng = np.random.default_rng(1)
    with pm.Model() as model:
        mu, tau, sigma = pm.Normal("mu"), pm.HalfNormal("tau"), pm.HalfNormal("sigma")
        x = pm.Normal("x", mu, tau, shape=30)
        pm.Normal("y", x[:27], sigma, observed=rng.normal(size=(4, 27)))
    near, names = neighbours_of(model)
    assert near.field == 30 and sorted(names) == ["mu", "sigma_log__", "tau_log__"]


@pytest.mark.parametrize("seed", [23, 25])
def test_noise_about_a_walk_that_may_vanish(seed: int) -> None:
    """A half of one percent has half of the variance of log σ, along no line through the maximum:
    axes have .7 and .6 of its sd, k̂ below .5 on one."""
    target = simulated_level(seed, 0.3, 0.5, 30)
    fitted = Hierarchical(early=True).fit(target, random_seed=1)
    assert fitted.q.globals == 2
    assert_exact(fitted, target, 0.95, 0.01)
    exact = target.draws(100_000, np.random.default_rng(1))[:, :2]
    z = np.random.default_rng(2).standard_normal((100_000, target.dimension))
    drawn = fitted.q.forward(z)[0][:, :2]
    # of a kurtosis of 50 each sd errs by a hundredth
    np.testing.assert_allclose(drawn.std(axis=0), exact.std(axis=0), rtol=0.06)
    np.testing.assert_allclose(drawn.mean(axis=0), exact.mean(axis=0), atol=0.01)
    assert fitted.result.gradient_evaluations < 1_500


def test_places_are_foreseen_where_two_steps_change_what_each_changes_alone() -> None:
    """Four scales of effects that cross and of their pairs, not centred: each may vanish."""
    density = CountedDensity(PyMCDensity(crossed_with_pairs()))
    near = find_neighbours(density, np.zeros(density.dimension), np.random.default_rng(1))
    assert near is not None

    def law(together: float) -> tuple[FieldMap, int]:
        before = density.gradients
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pymc_ext.variational.fields.on_grid.TOGETHER", together)
            q = field_map(density, near, np.zeros(density.dimension), np.random.default_rng(1))
        assert q is not None and q.globals == 4
        return q, density.gradients - before

    (foreseen, few), (looked_at, many) = law(TOGETHER), law(0.0)
    assert many > 1.5 * few
    worth = [
        fresh_draws(q, density, np.random.default_rng(2), 4_096).ess for q in (foreseen, looked_at)
    ]
    assert worth[0] > 0.97 * worth[1]


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_effects_that_cross_by_quadrature(share: float) -> None:
    target = simulated_crossed(4, (0.5, 0.3), (20, 6), share)
    fitted = Hierarchical(early=True).fit(target, random_seed=1)
    assert fitted.result.stop_reason == GROUPS_SERVE and fitted.q.globals == 3
    assert_exact(fitted, target, 0.9, 0.01)
    assert fitted.result.gradient_evaluations < 10_000


@pytest.mark.parametrize(("regions", "groups"), [(3, 3), (4, 3), (5, 4), (6, 5), (8, 10)])
def test_of_three_levels_the_mean_and_the_scale_of_regions_are_globals(
    regions: int, groups: int
) -> None:
    """However few regions there are: with that scale among them locals have no maximum."""
    region = np.repeat(np.arange(regions), groups)
    with pm.Model() as model:
        mu, t, s, sigma = pm.Normal("mu"), *(pm.HalfNormal(name) for name in ("t", "s", "sigma"))
        a = pm.Normal("a", mu, t, shape=regions)
        c = pm.Normal("c", a[region], s, shape=len(region))
        y = np.random.default_rng(1).normal(size=(3, len(region)))
        pm.Normal("y", c, sigma, observed=y)
    near, names = neighbours_of(model)
    assert near.in_groups and {"mu", "t_log__", "s_log__", "sigma_log__"} <= set(names)


def test_three_levels_by_quadrature() -> None:
    target = simulated_nested(5, (0.5, 0.3), (4, 3, 4))
    fitted = Hierarchical(early=True).fit(target, random_seed=1)
    assert fitted.result.stop_reason == GROUPS_SERVE and fitted.q.globals == 3
    assert_exact(fitted, target, 0.9, 0.01)
    assert fitted.result.gradient_evaluations < 10_000


def test_a_scale_whose_tail_never_falls_has_no_law_of_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a prior on log τ the neck goes on for ever, below a maximum that looks like any."""
    density, start = CountedDensity(PyMCDensity(Groups(40, 1.0).model(flat=True))), np.zeros(42)

    def law() -> FieldMap | None:
        near = find_neighbours(density, start, np.random.default_rng(1))
        assert near is not None and near.in_groups
        return field_map(density, near, start, np.random.default_rng(1))

    assert law() is None
    monkeypatch.setattr("pymc_ext.variational.fields.on_grid.SLOWEST", 0.0)
    assert law() is not None


def test_deep_in_a_neck_where_curvatures_are_rounding_all_goes_straight_on() -> None:
    """Else the law would end there, or have what rounding makes of a mean's precision."""
    rng = np.random.default_rng(6)
    sigma = rng.uniform(0.5, 2, 15)
    y = rng.normal(0, 0.1, 15) + rng.normal(0, sigma)
    density = CountedDensity(SchoolsLike(True, y, sigma, 10.0, 1.0))
    near = find_neighbours(density, np.zeros(17), np.random.default_rng(1))
    assert near is not None
    by_place = ByPlace(density, near)
    by_place, at = with_means(by_place, np.zeros(17)[near.order], np.random.default_rng(1))
    at, slope = highest(by_place, at.point)
    found = Filled(by_place, at, slope, np.sqrt(1 / np.diag(information(by_place, at, slope))))
    found.fill()
    steps = np.array(list(found.rows))
    at_places = found.middle + found.sds * np.array([found.along(step) for step in steps])
    laws = [
        by_place.conditional(np.concatenate([x_hat, eta]), np.exp(-log_diagonal))
        for eta, (_, (x_hat, log_diagonal, *_)) in zip(at_places, found.rows.values(), strict=True)
    ]
    assert found.beyond and max(law.rounding for law in laws) < MOST_ROUNDING
    grid, evidence, _ = found.grid()
    # by quadrature, up to a constant
    log_tau = at.point[-1] + found.sds[0] * grid.values[:, 0]
    exact = [
        stats.multivariate_normal.logpdf(y, cov=np.diag(sigma**2 + np.exp(2 * t)) + 100)
        + t - np.logaddexp(0, 2 * t)
        for t in log_tau
    ]  # fmt: skip
    error = evidence - exact
    np.testing.assert_allclose(error, error[np.argmax(evidence)], atol=0.2)


def test_few_counts_make_a_skew_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """A count of zero says that a rate is low, not how low: left tails are longer."""

    def fitted() -> FieldMap:
        density = CountedDensity(PyMCDensity(few_counts(300)))
        near = find_neighbours(density, np.zeros(300), np.random.default_rng(1))
        assert near is not None
        q = field_map(density, near, np.zeros(300), np.random.default_rng(1))
        assert q is not None
        return q

    density, fresh = CountedDensity(PyMCDensity(few_counts(300))), []
    skew = fitted()
    monkeypatch.setattr("pymc_ext.variational.fields.shape.PROMISED", np.inf)
    normal = fitted()
    assert not len(normal.marginal.bent) and skew.marginal.skew.mean() > 0.05
    for q in (skew, normal):
        fresh.append(fresh_draws(q, density, np.random.default_rng(2), 4096))
    gain = fresh[0].elbo - fresh[1].elbo
    assert gain > 4 * np.hypot(fresh[0].elbo_se, fresh[1].elbo_se) and gain > 0.3
    assert fresh[0].ess > 1.2 * fresh[1].ess
    error = np.hypot(fresh[0].log_marginal_is_se, fresh[1].log_marginal_is_se)
    assert abs(fresh[0].log_marginal_is - fresh[1].log_marginal_is) < 4 * error
    # what is corrected has no residual left
    v = antithetic(np.random.default_rng(3), 2_000, 300)
    r = skew.pullback(v, density.log_density_gradient(skew.forward(v)[0])[1]) + v
    for moment in (r, r * (np.sqrt(1 + v**2) - 1)):
        mean = moment.mean(axis=0)
        assert np.sqrt(np.mean(mean**2)) < 0.02


def test_the_same_seed_gives_the_same_map() -> None:
    first, second = (Hierarchical().fit(NormalWalk(60), random_seed=3).q for _ in range(2))
    assert first == second


def test_a_field_without_a_maximum_has_no_map() -> None:
    """Each is the likelier the farther it is above the one before."""

    def score(t):
        pull, out = special.expit(-np.diff(t)), np.zeros_like(t)
        out[:, 1:] += pull
        out[:, :-1] -= pull
        return out

    density = CountedDensity(
        CallableDensity(
            lambda t: np.sum(special.log_expit(np.diff(t)), axis=1), score, dimension=40
        )
    )
    near = find_neighbours(density, np.zeros(40), np.random.default_rng(1))
    assert near is not None
    with pytest.raises(NoMaximumError):
        ByPlace(density, near).conditional(np.zeros(40), np.full(40, 0.1))
    assert field_map(density, near, np.zeros(40), np.random.default_rng(1)) is None


def test_a_maximum_that_takes_too_many_scores_is_given_up(monkeypatch) -> None:
    density = CountedDensity(NormalWalk(60))
    near = find_neighbours(density, np.zeros(density.dimension), np.random.default_rng(1))
    assert near is not None
    before = density.gradients
    start = np.zeros(density.dimension)
    assert field_map(density, near, start, np.random.default_rng(1)) is not None
    monkeypatch.setattr("pymc_ext.variational.fields.evidence.MOST_SCORES", 30)
    spent = density.gradients
    assert field_map(density, near, start, np.random.default_rng(1)) is None
    assert density.gradients - spent < 0.5 * (spent - before)


def test_dozens_of_slopes_belong_to_the_field() -> None:
    rng, slopes = np.random.default_rng(6), 30
    X, walk = rng.normal(size=(150, slopes)), np.cumsum(rng.normal(0, 0.2, 150))
    with pm.Model() as model:
        beta, sigma = pm.Normal("beta", 0, 1, shape=slopes), pm.HalfNormal("sigma", 0.5)
        x = pm.GaussianRandomWalk("x", mu=0, sigma=sigma, init_dist=pm.Normal.dist(0, 1), steps=149)
        pm.Normal("y", x + X @ beta, 0.5, observed=walk + 0.5 * rng.standard_normal(150))
    fitted = Hierarchical().fit(PyMCDensity(model), random_seed=1)
    assert isinstance(fitted.q, FieldMap) and fitted.q.border == slopes
    assert fitted.result.field_given == ("log sigma",)
    fresh = fitted.result.fresh  # normal given sigma
    assert fresh.usable and fresh.ess > 0.95 * fresh.draws
    assert fitted.result.gradient_evaluations < 8_000


def neighbours_of(model: pm.Model) -> tuple[Neighbours, list[str]]:
    """And the names of the globals."""
    density = CountedDensity(PyMCDensity(model))
    found = find_neighbours(density, np.zeros(density.dimension), np.random.default_rng(1))
    assert found is not None
    return found, [density.unconstrained_names[i] for i in found.order[found.field :]]


def crossed_factors(first: int, second: int) -> pm.Model:
    """A row of each pair."""
    i, j = (k.ravel() for k in np.indices((first, second)))
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0, 2), pm.HalfNormal("sigma", 1)
        a = pm.Normal("a", 0, pm.HalfNormal("s", 1), shape=first)
        b = pm.Normal("b", 0, pm.HalfNormal("t", 1), shape=second)
        y = np.random.default_rng(1).normal(size=len(i))
        pm.Normal("y", mu + a[i] + b[j], sigma, observed=y)
    return model


def crossed_with_pairs() -> pm.Model:
    """Binary rows of three factors and of pairs of two of them, not centred."""
    rng = np.random.default_rng(6)
    i, j, k = (rng.integers(0, n, 400) for n in (12, 5, 4))
    with pm.Model() as model:
        scales = [pm.HalfNormal(name, 1) for name in ("s_a", "s_b", "s_c", "s_bc")]
        a, b, c = (pm.Normal(name, shape=n) for name, n in (("a", 12), ("b", 5), ("c", 4)))
        pairs = pm.Normal("bc", shape=(5, 4))
        effects = zip(scales, (a[i], b[j], c[k], pairs[j, k]), strict=True)
        logit = pm.Normal("mu", 0, 1.5) + sum(scale * effect for scale, effect in effects)
        pm.Bernoulli("y", logit_p=logit, observed=rng.integers(0, 2, 400))
    return model


def test_scales_of_several_fields_and_what_governs_them_are_globals() -> None:
    """Each governs a third of the coordinates, which parts of a few do not all show."""
    with pm.Model() as model:
        wide = pm.HalfNormal("wide", 1)
        scales = pm.LogNormal("scales", -1, wide, shape=3)
        walks = pm.Flat("walks", shape=(3, 40))
        steps = pm.logp(pm.Normal.dist(0, scales[:, None]), walks[:, 1:] - walks[:, :-1])
        pm.Potential("steps", steps.sum() + pm.logp(pm.Normal.dist(0, 1), walks[:, 0]).sum())
        pm.Normal("y", walks, 0.5, observed=np.random.default_rng(1).normal(size=(3, 40)))
    found, names = neighbours_of(model)
    assert found.width == 1 and found.differences == 3 and found.field == 120
    assert sorted(names) == ["scales_log__[0]", "scales_log__[1]", "scales_log__[2]", "wide_log__"]


def test_a_constraint_is_found_where_parts_have_none_of_the_field() -> None:
    with pm.Model() as model:
        share = pm.Beta("share", 1, 1)
        noise, x = pm.Normal("noise", 0, 1, shape=64), pm.ICAR("x", W=lattice(8).toarray())
        both = pt.sqrt(1 - share) * noise + pt.sqrt(share) * x
        pm.Poisson("y", pt.exp(1 + both), observed=np.random.default_rng(2).poisson(3, 64))
    found, names = neighbours_of(model)
    assert names == ["share_logodds__"] and (found.common != 0).sum() == 64
    assert found.width < 30 and found.differences < 15


def few_counts(sites: int) -> pm.Model:
    with pm.Model() as model:
        x = pm.Flat("x", shape=sites)
        pm.Potential("first", pm.logp(pm.Normal.dist(0, 1), x[0]))
        pm.Potential("others", pm.logp(pm.Normal.dist(0.5 * x[:-1], 0.87), x[1:]).sum())
        pm.Poisson("y", pt.exp(x), observed=np.random.default_rng(5).poisson(1.0, sites))
    return model


# ---- PyMC ------------------------------------------------------------------------------------


def lattice(side: int) -> sparse.csr_matrix:
    path = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    eye = sparse.eye_array(side)
    return sparse.csr_matrix(sparse.kron(path, eye) + sparse.kron(eye, path))


def car(side: int = 6) -> pm.Model:
    counts = np.random.default_rng(2).poisson(3, side**2)
    with pm.Model(coords={"site": np.arange(side**2)}) as model:
        tau, alpha = pm.Gamma("tau", 2, 1), pm.Uniform("alpha", 0, 1)
        x = pm.CAR("x", mu=np.zeros(side**2), tau=tau, alpha=alpha, W=lattice(side), dims="site")
        pm.Poisson("y", pt.exp(1 + x), observed=counts, dims="site")
    return model


def test_log_p_of_a_car_is_pymcs() -> None:
    """PyTensor makes no graph of many draws of it: they are evaluated one by one."""
    model = car()
    density, value = PyMCDensity(model), model.compile_logp()
    names = [variable.name for variable in model.value_vars]
    theta = 0.3 * np.random.default_rng(1).standard_normal((3, density.dimension))
    for row, found in zip(theta, density.log_density(theta), strict=True):
        parts = np.split(row, np.cumsum([model.initial_point()[name].size for name in names])[:-1])
        point = {
            name: part.reshape(model.initial_point()[name].shape)
            for name, part in zip(names, parts, strict=True)
        }
        np.testing.assert_allclose(found, value(point), rtol=EXACT)


def test_jax_takes_no_model_of_whose_graph_pytensor_makes_none_of_many_draws() -> None:
    needs("jax")
    with car(), pytest.raises(NotByRowsError, match="leave out backend='jax'"):
        pm.fit(10, method=px.BernsteinVI(backend="jax"), progressbar=False)


def test_a_field_in_pymc(tmp_path) -> None:
    model = car()
    approx = pm.fit(
        method=px.HierarchicalVI(random_seed=1, model=model), model=model, progressbar=False
    )
    assert isinstance(approx.q, FieldMap) and approx.result.khat < 0.7
    assert set(approx.result.field_given) == {"log tau", "interval alpha"}
    assert "a field given" in str(approx.result)
    draws = approx.sample(500, random_seed=2).posterior
    assert draws["x"].dims == ("chain", "draw", "site")
    kept = px.load(approx.save(tmp_path / "field.npz"), model)
    assert kept.q == approx.q
    again = pm.fit(
        method=px.HierarchicalVI(random_seed=1, model=model), model=model, progressbar=False
    )
    assert again.q == approx.q
    flow = pm.fit(
        200, method=px.BernsteinVI(base=approx.q, random_seed=1, model=model), model=model,
        progressbar=False,
    )  # fmt: skip
    assert flow.result.elbo > approx.result.elbo - 0.1


@pytest.mark.slow
def test_chains_in_a_field_agree_with_its_weights() -> None:
    with car() as model:
        approx = pm.fit(method=px.HierarchicalVI(random_seed=1), progressbar=False)
        chains = px.sample(approx, random_seed=1, progressbar=False)["posterior"]
    assert chains.attrs["trusted"]
    theta, log_p, log_q = approx.weighted_draws(20_000, random_seed=1)
    weights = np.exp(log_p - log_q - np.max(log_p - log_q))
    weights /= weights.sum()
    assert [variable.name for variable in model.value_vars][-1] == "x"
    field = theta[:, 2:]  # after tau and alpha
    of_weights = weights @ field
    of_chains = chains["x"].mean(("chain", "draw")).to_numpy()
    error = np.sqrt(weights**2 @ (field - of_weights) ** 2 + chains["x"].var().item() / 400)
    assert np.all(np.abs(of_weights - of_chains) < monte_carlo(1) * error)
