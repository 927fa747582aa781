"""Orders of labels and signs that a posterior does not tell apart, on densities with known ones."""

from itertools import permutations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import logsumexp

from bridge.methods.warm_nuts import sampled
from bridge.targets.density import DensityTarget
from bridge.targets.pymc import pymc_target
from pymc_ext.density import CallableDensity
from pymc_ext.sampling import symmetry_search
from pymc_ext.sampling.images import images_among
from pymc_ext.sampling.modes import left_behind, modes_outside
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.symmetry_search import find_symmetry
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.missed_mass import Basin, MissedMass

EXACT = 1e-9
CENTRES = np.array([-6.0, 0.0, 7.0])


def gaussians(places):
    """An equal mixture of N(place, I), with its exact score."""
    places = np.asarray(places, dtype=float)

    def log_density(x):
        squares = ((x[:, None] - places) ** 2).sum(axis=2)
        return logsumexp(-0.5 * squares, axis=1)

    def score(x):
        squares = ((x[:, None] - places) ** 2).sum(axis=2)
        w = np.exp(-0.5 * squares - logsumexp(-0.5 * squares, axis=1, keepdims=True))
        return w @ places - x

    return CallableDensity(log_density, score, dimension=places.shape[1])


def labels():
    """All orders of three labels."""
    return gaussians([CENTRES[list(order)] for order in permutations(range(3))])


def one_of(density, place, count=50):
    return place + np.random.default_rng(1).standard_normal((count, density.dimension))


def mixture(weights=None):
    y = np.concatenate([np.linspace(-2, 0, 12), np.linspace(3, 5, 9), np.linspace(8, 9, 5)])
    with pm.Model() as model:
        mu = pm.Normal("mu", 2, 5, shape=3)
        sigma = pm.HalfNormal("sigma", 2, shape=3)
        w = pm.Dirichlet("w", np.ones(3)) if weights is None else np.array(weights)
        pm.NormalMixture("y", w=w, mu=mu, sigma=sigma, observed=y)
        pm.Normal("apart", 0, 1)
    return pymc_target(model)


def around(target, count=50):
    """A mode whose images are elsewhere."""
    middle = np.linspace(3, 0, target.dimension)
    return middle + np.random.default_rng(2).normal(0, 0.2, (count, target.dimension))


def test_labels_of_a_mixture_are_found_and_every_image_is_as_likely() -> None:
    target = mixture()
    theta = around(target)
    found = find_symmetry(target, theta)
    assert found.order == 6
    assert str(found) == "the order of the entries of mu, sigma, w"
    images = found.images(theta)
    assert len({tuple(image[0].round(6)) for image in images}) == 6
    for image in images:
        np.testing.assert_allclose(target.log_density(image), target.log_density(theta), atol=1e-8)
    values = target.constrain(images[3])
    np.testing.assert_allclose(np.sort(values["mu"]), np.sort(target.constrain(theta)["mu"]))
    np.testing.assert_allclose(images[:, :, -1], np.tile(theta[:, -1], (6, 1)))  # of `apart`


def test_one_order_is_the_same_for_all_images_and_an_image_at_random_is_any() -> None:
    target = mixture()
    theta = around(target, 300)
    found = find_symmetry(target, theta)
    folded = found.one_order(theta)
    for image in found.images(theta):
        np.testing.assert_allclose(found.one_order(image), folded, atol=1e-7)
    rng = np.random.default_rng(1)
    orders = np.argsort(target.constrain(found.at_random(folded, rng))["mu"], axis=1)
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert np.all(np.abs(counts - 50) < 5 * np.sqrt(300 / 6))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("weight", "the order of the entries of mu, w against 1 − w"),
        ("factor", "the sign of f, loadings"),
        ("chain", "the order of the entries of initial, mu, rows"),
    ],
)
def test_other_symmetries_of_models(model, said) -> None:
    y = np.array([-1.0, 0.2, 2.0, 2.5, 3.0, 0.1])
    with pm.Model() as built:
        if model == "weight":  # of a mixture of two, one
            w, mu = pm.Beta("w", 2, 2), pm.Normal("mu", 1, 2, shape=2)
            pm.NormalMixture("y", w=pt.stack([w, 1 - w]), mu=mu, sigma=1, observed=y)
        elif model == "factor":
            f, loadings = pm.Normal("f", shape=3), pm.Normal("loadings", shape=2)
            pm.Normal("y", f[:, None] * loadings, 1, observed=y.reshape(3, 2))
        else:  # two states of a Markov chain, by its sums over all paths
            rows = pm.Dirichlet("rows", np.ones((2, 2)), shape=(2, 2))
            initial, mu = pm.Dirichlet("initial", np.ones(2)), pm.Normal("mu", 1, 2, shape=2)
            forward = initial * pt.exp(-0.5 * (y[0] - mu) ** 2)
            for value in y[1:]:
                forward = pt.dot(forward, rows) * pt.exp(-0.5 * (value - mu) ** 2)
            pm.Potential("y", pt.log(forward.sum()))
    target = pymc_target(built)
    theta = around(target)
    found = find_symmetry(target, theta)
    assert (found.order, str(found)) == (2, said)
    image = found.images(theta)[1]
    np.testing.assert_allclose(target.log_density(image), target.log_density(theta), atol=1e-9)
    np.testing.assert_allclose(found.images(image)[1], theta, atol=1e-9)


def test_what_tells_labels_apart_leaves_no_symmetry() -> None:
    target = mixture([0.2, 0.3, 0.5])
    assert find_symmetry(target, around(target)) is None
    target = mixture([0.3, 0.3, 0.4])  # two of three are alike
    assert find_symmetry(target, around(target)).order == 2


class Stretched(DensityTarget):
    """Values are cubes of every second coordinate: exchanges of values change volumes."""

    def constrain(self, theta):
        return {"theta": np.stack([theta[:, 0], np.cbrt(theta[:, 1])], axis=1)}

    def unconstrain(self, draws):
        values = np.asarray(draws["theta"])
        return np.stack([values[:, 0], values[:, 1] ** 3], axis=1)

    def log_density(self, theta):
        return -((self.constrain(theta)["theta"] - 3.0) ** 2).sum(axis=1)


def test_an_exchange_that_changes_the_volume_is_none() -> None:
    target = Stretched(CallableDensity(lambda x: -(x**2).sum(1), lambda x: -2 * x, dimension=2))
    theta = np.array([[1.0, 60.0]]) + np.random.default_rng(1).normal(0, 0.1, (50, 2))
    image = target.unconstrain({"theta": target.constrain(theta)["theta"][:, ::-1]})
    np.testing.assert_allclose(target.log_density(image), target.log_density(theta))
    assert find_symmetry(target, theta) is None


def test_too_many_images_are_none(monkeypatch) -> None:
    target = DensityTarget(labels())
    theta = one_of(target.density, CENTRES)
    assert find_symmetry(target, theta).order == 6
    monkeypatch.setattr(symmetry_search, "MOST_IMAGES", 5)
    assert find_symmetry(target, theta) is None
    monkeypatch.undo()
    monkeypatch.setattr(symmetry_search, "MOST_TRIED", 2)
    assert find_symmetry(target, theta) is None
    monkeypatch.undo()
    monkeypatch.setattr(symmetry_search, "MOST_DIMENSIONS", 2)
    assert find_symmetry(target, theta) is None


def test_a_draw_on_an_edge_of_the_support_stays_where_it_is() -> None:
    target = mixture()
    theta = around(target)
    found = find_symmetry(target, theta)
    edge = theta.copy()
    simplex = [i for i, n in enumerate(target.density.unconstrained_names) if "w_simplex" in n]
    edge[0, simplex] = 800.0, -800.0  # weights of 0 and 1 to rounding
    folded, scattered = found.one_order(edge), found.at_random(edge, np.random.default_rng(1))
    np.testing.assert_allclose(folded[0], edge[0])
    assert np.isfinite(scattered).all()
    np.testing.assert_allclose(folded[1:], found.one_order(theta)[1:])


def test_chains_in_one_of_six_modes_are_draws_of_all() -> None:
    density = labels()
    target = DensityTarget(density)
    basin = Gaussian(CENTRES, np.eye(3))
    modes = modes_outside(density, basin, 1)
    assert modes.matters
    found = sampled(target, basin, modes, Sampling(), 1, basin=basin)
    assert found.trusted, found.verdict
    assert found.in_map and found.theta.shape[0] == 8  # no chain for any other mode
    assert "one of 6 images of one mode at random" in found.notes[-1]
    theta = found.theta.reshape(-1, 3)
    counts = np.unique(np.argsort(theta, axis=1), axis=0, return_counts=True)[1]
    share = 1 / 6  # each draw's order is its own: independent
    assert np.all(np.abs(counts / len(theta) - share) < 5 * np.sqrt(share / len(theta)))
    error = np.sqrt((1 + np.var(CENTRES)) / len(theta))
    np.testing.assert_allclose(theta.mean(axis=0), CENTRES.mean(), atol=5 * error)
    np.testing.assert_allclose(found.lp.ravel(), density.log_density(theta), atol=EXACT)


def test_a_mode_that_is_no_image_has_chains_of_its_own() -> None:
    """Beside the two orders of (−6, 6) there is one at (20, 20)."""
    density = gaussians([[-6.0, 6.0], [6.0, -6.0], [20.0, 20.0]])
    target, basin = DensityTarget(density), Gaussian(np.array([-6.0, 6.0]), np.eye(2))
    modes = modes_outside(density, basin, 1)
    images = images_among(modes, target, basin, 1)
    assert images.symmetry.order == 2
    np.testing.assert_allclose(images.others.places, [[20.0, 20.0]], atol=1)
    found = sampled(target, basin, modes, Sampling(), 1, basin=basin)
    assert found.theta.shape[0] == 9
    assert not found.trusted  # chains do not go between that mode and the two


def test_a_change_that_chains_find_broken_is_not_trusted() -> None:
    density = gaussians([[-6.0, 6.0], [6.0, -6.0], [20.0, 20.0]])
    target, theta = DensityTarget(density), one_of(density, [-6.0, 6.0])
    found = find_symmetry(target, theta)
    assert str(found) == "the order of the entries of theta, the sign of theta"
    assert str(find_symmetry(target, theta, np.array([[20.0, 20.0]]))) == str(found).split(",")[0]
    assert found.is_kept(found.images(theta)[-1], density.log_density(theta))
    there = one_of(density, [20.0, 20.0])
    assert not found.is_kept(-there, density.log_density(there))


def gated():
    """Two orders of (−6, 6), of which the second is impossible where a third coordinate is > .5."""

    def log_density(x):
        both = logsumexp(-0.5 * ((x[:, None, :2] - [[-6.0, 6.0], [6.0, -6.0]]) ** 2).sum(2), axis=1)
        impossible = (x[:, 0] > x[:, 1]) & (x[:, 2] > 0.5)
        return np.where(impossible, -np.inf, both - 0.5 * x[:, 2] ** 2)

    return DensityTarget(CallableDensity(log_density, lambda x: -x, dimension=3))


def test_a_change_that_is_none_on_a_part_of_the_mass_is_seen_by_more_draws() -> None:
    target = gated()
    rng = np.random.default_rng(1)
    theta = np.array([-6.0, 6.0, 0.0]) + rng.standard_normal((500, 3))
    theta[:4, 2] = -0.5  # where it is one
    assert find_symmetry(target, theta) is None
    theta[:, 2] = -np.abs(theta[:, 2])
    found = find_symmetry(target, theta)
    assert found.order == 2
    assert not found.keeps_all(np.array([[-6.0, 6.0, 1.0]]))


def test_a_large_log_density_does_not_hide_that_labels_differ() -> None:
    """Weights of .27 and .73 are a nat of 1e8, eight digits of it."""
    places, log_w = np.array([[-6.0, 6.0], [6.0, -6.0]]), np.log([0.27, 0.73])

    def log_density(x):
        squares = ((x[:, None] - places) ** 2).sum(axis=2)
        return logsumexp(log_w - 0.5 * squares, axis=1) - 1e8

    target = DensityTarget(CallableDensity(log_density, lambda x: -x, dimension=2))
    assert find_symmetry(target, one_of(target.density, places[0])) is None


def test_a_spike_inside_an_image_is_no_image() -> None:
    places = np.array([[-6.0, 7.0], [7.0, -6.0], [-6.7, 7.5], [7.5, -6.7]])
    sds, log_w = np.array([1.0, 1.0, 0.01, 0.01]), np.log([0.35, 0.35, 0.15, 0.15])

    def log_density(x):
        squares = ((x[:, None] - places) ** 2).sum(axis=2) / sds**2
        return logsumexp(log_w - 2 * np.log(sds) - 0.5 * squares, axis=1)

    density = CallableDensity(log_density, lambda x: -x, dimension=2)
    basin = Gaussian(places[0], np.eye(2))
    found = tuple(
        Basin(Gaussian(place, sd * np.eye(2)), ratio, 0.01, 13.0)
        for place, sd, ratio in ((places[1], 1.0, 0.0), (places[3], 0.01, -0.85))
    )
    names, mean = ("theta[0]", "theta[1]"), basin.mean
    modes = MissedMass(found, 2, 34, 0, names, mean, np.ones(2))
    images = images_among(modes, DensityTarget(density), basin, 1)
    assert images.symmetry.order == 2
    np.testing.assert_allclose(images.others.places, [places[2]], atol=0.01)
    draws = places[0] + np.random.default_rng(1).standard_normal((4_000, 2))
    both = images.symmetry.at_random(draws, np.random.default_rng(2))
    (doubt,) = left_behind(modes, both, 1, copies=2)  # of the spike
    assert "theta[1] = -6.7" in doubt


def test_modes_that_are_not_images_are_left_alone() -> None:
    density = gaussians([[-6.0, 6.0], [8.0, -6.0]])
    basin = Gaussian(np.array([-6.0, 6.0]), np.eye(2))
    modes = modes_outside(density, basin, 1)
    assert images_among(modes, DensityTarget(density), basin, 1) is None
