"""What every algorithm must do: it holds options, and no fit remembers another."""

import dataclasses
import pickle

import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.density import CallableDensity, PyMCDensity
from pymc_ext.density.model import VALUE_ROWS
from pymc_ext.variational.gaussian.posteriors import Gaussian
from tests.contracts import ALGORITHMS
from tests.tolerances import NUMERIC, monte_carlo

SEED, STEPS = 3, 60
Y = np.array([0.5, 1.5, 1.1, 2.0])
STAN = "data { vector[4] y; } parameters { vector[2] x; } model {\n"
STAN += "x ~ normal(0, 1); y ~ student_t(3, x[1] + x[2], exp(0.3 * x[1])); }"


def banana():
    """x ~ N(0, 1), y | x ~ N(x²/2, 1)."""

    def gradient(t):
        off = t[:, 1] - 0.5 * t[:, 0] ** 2
        return np.stack([-t[:, 0] + off * t[:, 0], -off], axis=1)

    return CallableDensity(
        lambda t: -0.5 * t[:, 0] ** 2 - 0.5 * (t[:, 1] - 0.5 * t[:, 0] ** 2) ** 2,
        gradient,
        dimension=2,
    )


def narrow():
    """N((10, −5), 0.1² I), far from the banana."""
    mean = np.array([10.0, -5.0])
    return CallableDensity(
        lambda t: -50 * ((t - mean) ** 2).sum(1), lambda t: -100 * (t - mean), dimension=2
    )


def regression():
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1, shape=2)
        pm.StudentT("y", nu=3, mu=x[0] + x[1], sigma=pm.math.exp(0.3 * x[0]), observed=Y)
    return model


def of_pymc():
    density = PyMCDensity(regression())
    density.log_density(np.zeros((VALUE_ROWS + 1, 2)))  # from here on by one compiled function
    return density


def of_stan():
    from stan_models import StanProgram

    return StanProgram(STAN, name="student").density({"y": Y})


DENSITIES = {"callable": banana, "pymc": of_pymc, "stan": of_stan}


@pytest.fixture(scope="module", params=list(ALGORITHMS))
def make(request):
    return ALGORITHMS[request.param]


@pytest.fixture(
    scope="module",
    params=["callable", "pymc", pytest.param("stan", marks=pytest.mark.stan)],
)
def density(request):
    return DENSITIES[request.param]()


def draws(q):
    z = np.random.default_rng(1).standard_normal((50, q.latent_dimension))
    return np.column_stack(q.forward(z))


def said(fitted):
    """The result without its times."""
    return dataclasses.replace(fitted.result, seconds=0.0, compile_seconds=0.0)


def assert_same(one, other):
    np.testing.assert_array_equal(draws(one.q), draws(other.q))
    assert said(one) == said(other)


def test_two_densities_in_turn_are_fitted_as_by_two_algorithms(make, density):
    used = make()
    first, second = (used.fit(d, n=STEPS, random_seed=SEED) for d in (narrow(), density))
    assert_same(first, make().fit(narrow(), n=STEPS, random_seed=SEED))
    assert_same(second, make().fit(density, n=STEPS, random_seed=SEED))
    assert used == make()


def test_a_seed_is_a_result_and_another_seed_another(make, density):
    one, two = (make().fit(density, n=STEPS, random_seed=seed) for seed in (SEED, SEED + 1))
    assert one.result.random_seed == SEED and two.result.random_seed == SEED + 1
    assert one.result.fresh != two.result.fresh


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_start_is_used(make, side):
    """Two modes, 60 sd apart: q is at the one where the fit starts."""

    def halves(t):
        return np.stack([-0.5 * ((t - sign * 30) ** 2).sum(1) for sign in (-1, 1)])

    def gradient(t):
        near = np.argmax(halves(t), axis=0)
        return np.where(near, 30.0, -30.0)[:, None] - t

    density = CallableDensity(lambda t: halves(t).max(axis=0), gradient, dimension=2)
    if isinstance(getattr(make(), "base", None), Gaussian):
        pytest.skip("a given base says where the fit starts")
    q = make().fit(density, np.array([side, side]) * 29, STEPS, random_seed=SEED).q
    first = q.components[0] if hasattr(q, "components") else q  # a search may find the other too
    assert np.all(side * draws(first)[:, :2] > 20)


class Counting:
    """A density that counts the rows it is asked for."""

    def __init__(self, density):
        self.density, self.values, self.gradients = density, 0, 0

    def __getattr__(self, name):
        return getattr(self.density, name)

    def log_density(self, theta):
        self.values += len(theta)
        return self.density.log_density(theta)

    def log_density_gradient(self, theta):
        self.values, self.gradients = self.values + len(theta), self.gradients + len(theta)
        return self.density.log_density_gradient(theta)


def test_counts_are_the_calls_made(make, density):
    counting = Counting(density)
    result = make().fit(counting, n=STEPS, random_seed=SEED).result
    assert result.density_evaluations == counting.values > 0
    assert result.gradient_evaluations == counting.gradients > 0
    assert result.seconds > 0


def test_options_are_a_value(make):
    algorithm = make()
    options = {f.name: getattr(algorithm, f.name) for f in dataclasses.fields(algorithm)}
    for again in (make(), type(algorithm)(**options), pickle.loads(pickle.dumps(algorithm))):
        assert again == algorithm and hash(again) == hash(algorithm)
    assert repr(algorithm) == repr(make()) and repr(algorithm).startswith(type(algorithm).__name__)
    assert dataclasses.asdict(algorithm).keys() == options.keys()
    assert algorithm.name and "seed" not in " ".join(options)
    for name in options:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(algorithm, name, None)


@pytest.mark.parametrize("n", [0, -1, True, 2.5, "10"])
def test_numbers_of_iterations_that_are_none_are_refused(make, n):
    with pytest.raises(ValueError, match="n must be an integer >= 1, got"):
        make().fit(banana(), n=n, random_seed=SEED)


def test_a_state_lets_a_run_go_on_and_is_not_used_up(make, density):
    algorithm = make()
    first = algorithm.fit(density, n=STEPS, random_seed=SEED)
    before, counts = draws(first.q), first.result
    on, again = (
        algorithm.fit(density, n=STEPS, random_seed=SEED, state=first.state) for _ in range(2)
    )
    assert_same(on, again)
    np.testing.assert_array_equal(draws(first.q), before)
    fell = first.result.elbo - on.result.elbo
    assert fell < monte_carlo(first.result.elbo_se + on.result.elbo_se) + NUMERIC
    if counts.converged:  # nothing is left to do
        assert on.result.iterations < counts.iterations or not counts.iterations
    else:
        moved = np.abs(draws(on.q) - before).max() > 1e-3
        assert moved or on.result.elbo == first.result.elbo  # the best q is kept


def test_steps_of_a_state_are_those_of_one_longer_run():
    algorithm = ALGORITHMS["monte-carlo-full"]()
    half = algorithm.fit(banana(), n=STEPS, random_seed=SEED)
    on = algorithm.fit(banana(), n=STEPS, random_seed=SEED, state=half.state)
    whole = algorithm.fit(banana(), n=2 * STEPS, random_seed=SEED)
    np.testing.assert_array_equal(draws(on.q), draws(whole.q))


def test_a_method_of_pm_fit_keeps_the_state_until_it_is_restarted(make):
    model = regression()
    inference = px.AlgorithmVI(make(), model=model, random_seed=SEED)

    def fitted(act):
        act()
        return inference.approx.draws_with_logs(50, random_seed=1)[0]

    run = {"n": STEPS, "progressbar": False}
    first = fitted(lambda: inference.fit(**run))
    expected = make().fit(inference.approx.density, inference.approx.group.start, STEPS,
                          random_seed=SEED)  # fmt: skip
    z = inference.approx.latent_draws(50, random_seed=1)
    np.testing.assert_array_equal(first, expected.q.forward(z)[0])
    refined = fitted(lambda: inference.refine(STEPS, progressbar=False))
    on = make().fit(inference.approx.density, n=STEPS, random_seed=SEED, state=expected.state)
    np.testing.assert_array_equal(refined, on.q.forward(z)[0])
    inference.restart()
    np.testing.assert_array_equal(fitted(lambda: inference.fit(**run)), first)
