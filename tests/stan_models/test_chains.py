"""Stan's NUTS in this process: exact targets, the coordinates' map, blocks, counts, refusals."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable

import arviz as az
import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit

from stan_models import StanDensity, StanProgram, StanRunError, ToolchainError
from stan_models.chains import StanChain, has_chains
from stan_models.coordinates import CMap, Coordinates
from stan_models.toolchain import Toolchain
from tests.tolerances import EXACT, monte_carlo

pytestmark = pytest.mark.stan

D = 5
RNG = np.random.default_rng(1)
MEAN = np.array([5.0, -1.0, 3000.0, 0.0, 1e-3])
UNIT = np.tril(RNG.normal(size=(D, D)) + 2 * np.eye(D))
ROOT = UNIT * np.array([[1.0, 10, 100, 1e-3, 1e-4]]).T
LOWER = np.tril(RNG.normal(size=(D, D)), -1)


@pytest.fixture(scope="module")
def gaussian(toolchain: Toolchain) -> Callable[..., StanDensity]:
    if not toolchain.is_assembled:
        pytest.skip("an installed CmdStan is in use, whose library has no chains")
    program = StanProgram("tests/stan_models/programs/gaussian.stan")

    def density(mean: np.ndarray = MEAN, root: np.ndarray = ROOT, power: float = 1) -> StanDensity:
        data = {"D": len(mean), "mean": mean, "cov": root @ root.T, "log_z": 0, "power": power}
        return program.density(data)

    return density


def funnel() -> StanDensity:
    return StanProgram("tests/stan_models/programs/funnel.stan").density({"K": 4})


def require_moments(x: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> None:
    """Mean and sd of draws (chains, draws, D), within four standard errors, which are small."""
    for i in range(x.shape[-1]):
        own = x[..., i]
        for values, truth in ((own, mean[i]), ((own - mean[i]) ** 2, sd[i] ** 2)):
            ess = az.ess(values, method="mean")
            assert ess > 400
            se = values.std() / np.sqrt(ess)
            assert abs(values.mean() - truth) < monte_carlo(se), (i, values.mean(), truth, se)


def in_chains(density: StanDensity, coordinates: Coordinates | None, draws: int) -> np.ndarray:
    """Draws of four chains, in their coordinates."""
    found = []
    for chain in range(1, 5):
        start = np.random.default_rng(chain).normal(size=density.dimension)
        own = StanChain(density, start, seed=7, chain=chain, coordinates=coordinates)
        own.run(19, adapt=True)
        found.append(own.run(draws).points)
    return np.stack(found)


def test_a_gaussian_in_its_own_coordinates(gaussian: Callable[..., StanDensity]) -> None:
    v = in_chains(gaussian(), Coordinates(MEAN, ROOT), 500)
    require_moments(v, np.zeros(D), np.ones(D))
    require_moments(MEAN + v @ ROOT.T, MEAN, np.sqrt((ROOT**2).sum(1)))


def test_a_gaussian_as_it_is_with_stans_own_adaptation(
    gaussian: Callable[..., StanDensity],
) -> None:
    root = np.diag([1.0, 2.0, 0.5, 3.0, 0.1])
    start = np.zeros(D)
    chain = StanChain(gaussian(np.zeros(D), root), start, seed=3, adapt_metric=True)
    chain.run(500, adapt=True)
    np.testing.assert_allclose(chain.inverse_metric, np.diag(root) ** 2, rtol=0.5)
    require_moments(chain.run(2000).points[None], np.zeros(D), np.diag(root))


def test_a_funnel_in_the_coordinates_of_its_own_law() -> None:
    # g = sigmoid(2x) is e^{2x} far below zero: w_i = e^{1.5 v_0} v_i to 1e-16
    C = np.zeros((5, 5))
    C[1:, 0] = 1.5
    d = np.r_[0, np.full(4, -20.0)]
    law = Coordinates(
        np.zeros(5), np.diag([1.5, 1, 1, 1, 1]), order=np.array([4, 0, 1, 2, 3]), C=C, d=d
    )
    v = in_chains(funnel(), law, 1000)
    require_moments(v, np.zeros(5), np.ones(5))
    s = 1.5 * v[..., 0]
    assert (s < -3).any() and (s > 3).any()  # neck and mouth


# ---- the map -------------------------------------------------------------------------------


def full_map() -> Coordinates:
    skew = np.array([0.5, 0, -0.4, 0, 0.3])
    below, above = np.array([1.4, 1, 0.7, 1, 1.2]), np.array([0.8, 1, 1.9, 1.5, 1.2])
    gate = {"d": RNG.normal(size=D), "m": RNG.normal(size=D), "s": np.array([1.0, -1, -1, 1, -1])}
    return Coordinates(
        RNG.normal(size=D), UNIT, order=np.array([2, 0, 3, 1, 4]), C=0.4 * LOWER,
        H=sparse.coo_array(0.3 * LOWER[::-1, ::-1].T), Q=0.1 * LOWER,
        skew=skew, below=below, above=above, **gate,
    )  # fmt: skip


def written_out(t: Coordinates, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ and log|det ∂T/∂v| less that of L, of rows v, by the formulas of the docstring."""
    C, H, Q = (np.zeros((D, D)) if M is None else np.asarray(sparse.coo_array(M).todense())
               for M in (t.C, t.H, t.Q))  # fmt: skip
    vector = lambda x, fill: np.full(D, fill) if x is None else x  # noqa: E731
    d, m, skew = (vector(x, 0.0) for x in (t.d, t.m, t.skew))
    below, above, s = (vector(x, 1.0) for x in (t.below, t.above, t.s))

    def S(u: np.ndarray) -> np.ndarray:
        tail = np.where(u < 0, below, above)
        return np.sinh(tail * u) / tail

    steepness = np.cosh(np.where(skew > 0, below, above) * skew)  # S'(−ε)
    u = np.arcsinh(v) - skew
    y = (S(u) - S(-skew)) / steepness
    slope = np.cosh(np.where(u < 0, below, above) * u) / (steepness * np.sqrt(1 + v**2))
    w, a, g0 = y.copy(), np.zeros_like(y), expit(2 * d)
    for i in range(D):
        g = expit(2 * (w @ C[i] + d[i]))
        a[:, i] = 0.5 * s[i] * np.log(g / g0[i])
        w[:, i] = np.exp(a[:, i]) * y[:, i] + g * (m[i] + w @ H[i]) + (w**2 - 1) @ Q[i]
    theta = np.empty_like(v)
    theta[:, np.arange(D) if t.order is None else t.order] = t.mu + w @ t.L.T
    return theta, a.sum(1) + np.log(slope).sum(1)


def in_c(density: StanDensity, t: Coordinates, name: str, *given: np.ndarray) -> list[np.ndarray]:
    """What a function of the library gives of one point: its outputs as arrays."""
    library, model = density.native
    doubles = ctypes.POINTER(ctypes.c_double)
    outputs = [np.empty(D), np.empty(1)][: 2 if name == "ext_map_forward" else 1]
    library[name].argtypes = [
        ctypes.c_void_p, ctypes.POINTER(CMap), *[doubles] * (len(given) + len(outputs)),
        ctypes.POINTER(ctypes.c_char_p),
    ]  # fmt: skip
    arrays = [np.ascontiguousarray(a).ctypes.data_as(doubles) for a in (*given, *outputs)]
    error = ctypes.c_char_p()
    assert library[name](model, ctypes.byref(t.as_c()), *arrays, ctypes.byref(error)) == 0
    return outputs


@pytest.mark.parametrize(
    "make",
    [
        full_map,
        lambda: Coordinates(
            RNG.normal(size=D), RNG.normal(size=(D, D))
        ),  # a root that is not triangular
        lambda: Coordinates(
            np.ones(D), sparse.coo_array(np.diag(np.arange(1.0, 6))), C=0.4 * LOWER
        ),
    ],
    ids=["all of it", "Gaussian", "sparse, without marginals"],
)
def test_the_map_is_the_formulas_and_its_pullback_their_derivative(
    gaussian: Callable[..., StanDensity], make: Callable[[], Coordinates]
) -> None:
    density, t = gaussian(), make()
    P = 2 * np.eye(D) + 0.1

    def value(v: np.ndarray) -> np.ndarray:
        theta, log_det = written_out(t, v)
        return -0.5 * np.einsum("ni,ij,nj->n", theta, P, theta) + log_det

    for v in RNG.normal(size=(3, D)):
        theta, log_det = in_c(density, t, "ext_map_forward", v)
        expected, expected_log_det = written_out(t, v[None])
        np.testing.assert_allclose(theta, expected[0], rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(log_det, expected_log_det, rtol=EXACT, atol=EXACT)
        (found,) = in_c(density, t, "ext_map_pullback", v, -theta @ P)
        h = 1e-5 * np.eye(D)
        slopes = (value(v + h) - value(v - h)) / 2e-5
        np.testing.assert_allclose(found, slopes, rtol=1e-6, atol=1e-6)


# ---- blocks, counts, seeds -----------------------------------------------------------------


def test_blocks_are_one_run_and_gradients_are_counted(gaussian: Callable[..., StanDensity]) -> None:
    make = lambda: StanChain(gaussian(), np.zeros(D), seed=5, coordinates=Coordinates(MEAN, ROOT))  # noqa: E731
    one, two = make(), make()
    warm = one.run(19, adapt=True)
    search = one.gradients - warm.statistics["n_steps"].sum()
    assert 2 <= search < 20  # of the first step size, and the point where the chain starts
    whole = one.run(60)
    two.run(19, adapt=True)
    before = two.gradients
    parts = [two.run(20), two.run(40)]
    np.testing.assert_array_equal(whole.points, np.concatenate([p.points for p in parts]))
    # the start of a trajectory is not computed again
    assert two.gradients - before == sum(p.statistics["n_steps"].sum() for p in parts)
    assert one.gradients == two.gradients
    assert np.ptp(whole.statistics["step_size"]) == 0 and np.ptp(warm.statistics["step_size"]) > 0
    assert whole.statistics["n_steps"].dtype == int
    assert not whole.statistics["diverging"].any()
    other = StanChain(gaussian(), np.zeros(D), seed=5, chain=2, coordinates=Coordinates(MEAN, ROOT))
    assert not np.array_equal(other.run(1).points, one.run(1).points)


def test_the_step_size_may_be_set_between_runs(gaussian: Callable[..., StanDensity]) -> None:
    chain = StanChain(gaussian(), np.zeros(D), seed=5, coordinates=Coordinates(MEAN, ROOT))
    chain.run(19, adapt=True)
    chain.step_size = 0.01
    found = chain.run(3).statistics
    assert chain.step_size == 0.01
    assert (found["step_size"] == 0.01).all() and (found["n_steps"] > 63).all()
    with pytest.raises(ValueError, match="step_size must be positive"):
        chain.step_size = 0.0


def test_a_chain_that_is_stopped_gives_what_it_made(gaussian: Callable[..., StanDensity]) -> None:
    chain = StanChain(gaussian(), np.zeros(D), seed=5, coordinates=Coordinates(MEAN, ROOT))
    timer = threading.Timer(0.2, chain.stop)
    timer.start()
    found = chain.run(10_000_000 // D)
    timer.join()
    assert 0 < len(found.points) < 10_000_000 // D
    assert len(found.statistics["energy"]) == len(found.points)


def test_points_outside_the_support_are_rejected_not_fatal(toolchain: Toolchain) -> None:
    program = StanProgram(
        'parameters { real x; } model { if (x < 0) reject("no"); x ~ exponential(1); }'
    )
    chain = StanChain(program.density(), np.ones(1), seed=1)
    chain.run(200, adapt=True)
    x = chain.run(8000).points
    assert (x > 0).all()
    require_moments(x[None], np.ones(1), np.ones(1))


# ---- refusals ------------------------------------------------------------------------------


def test_an_improper_density_is_stans_own_error(gaussian: Callable[..., StanDensity]) -> None:
    flat = StanChain(gaussian(power=0), np.zeros(D), seed=1)
    with pytest.raises(StanRunError, match=r"gaussian.*failed: Posterior is improper"):
        flat.run(10, adapt=True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"start": np.zeros(3)}, "start must be 5 finite numbers, got shape"),
        ({"start": np.full(5, np.nan)}, "start must be 5 finite numbers"),
        ({"target_accept": 1.0}, "need 0 < target_accept < 1"),
        ({"step_size": -1.0}, "a positive step_size"),
        ({"max_depth": 0}, "max_depth must be an integer >= 1"),
        ({"inverse_metric": np.ones(5)}, "needs adapt_metric=True"),
        ({"inverse_metric": -np.ones(5), "adapt_metric": True}, "must be positive"),
        ({"inverse_metric": "a", "adapt_metric": True}, "must be 5 finite numbers, got 'a'"),
        ({"coordinates": Coordinates(np.zeros(2), np.eye(2))}, "must have 5 dimensions, got 2"),
    ],
)
def test_bad_arguments_are_named(
    gaussian: Callable[..., StanDensity], changes: dict[str, object], words: str
) -> None:
    arguments = {"start": np.zeros(D), "seed": 1} | changes
    with pytest.raises(ValueError, match=words):
        StanChain(gaussian(), **arguments)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mu": np.full(5, np.inf)}, "mu must be finite"),
        ({"L": np.eye(4)}, r"L must have shape \(5, 5\), got \(4, 4\)"),
        ({"L": np.diag([1.0, 1, 0, 1, 1])}, "L must have an inverse.*not positive definite"),
        ({"L": np.ones((5, 5))}, "L must have an inverse"),
        ({"order": np.array([0, 1, 2, 3, 3])}, "order must be a permutation of 0 to 4"),
        ({"C": np.eye(5)}, "C must be strictly lower triangular"),
        ({"above": np.zeros(5)}, "above must be positive"),
    ],
)
def test_a_map_without_an_inverse_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Coordinates(**({"mu": MEAN, "L": ROOT} | changes))


def test_an_official_library_is_refused_with_the_way_out() -> None:
    class Official:
        native = (ctypes.CDLL(None), ctypes.c_void_p())
        dimension = 1
        program = StanProgram("parameters { real x; } model { x ~ normal(0, 1); }", name="plain")

    assert not has_chains(Official())  # type: ignore[arg-type]
    with pytest.raises(ToolchainError, match=r"use stan_models\.nuts"):
        StanChain(Official(), np.zeros(1), seed=1)  # type: ignore[arg-type]


def test_a_chain_is_stopped_within_a_trajectory(program) -> None:
    """Of 1,023 gradients that take some ms each: no step is so small that it turns by then."""
    density = program("slow").density({"K": 200_000})
    chain = StanChain(density, np.ones(1), seed=1, step_size=1e-9)
    timer = threading.Timer(0.3, chain.stop)
    timer.start()
    begin = time.perf_counter()
    assert len(chain.run(1).points) == 0
    assert 2 < chain.gradients < 1_023 and time.perf_counter() - begin < 2
    timer.join()
