"""Jumps of log p̃ are found, measured and named; what a score sees is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.ill_posed import jumps
from pymc_ext.variational.ill_posed.jumps import LEAST, jump_among
from tests.tolerances import monte_carlo

NAMES = ["place", "level", "width"]
FIRST = jumps.LINES * (2 * jumps.PIECES + 1)
MOST = FIRST + 2 * jumps.LINES * jumps.HALVINGS  # scores


def density(step, slope=lambda t: 0.0 * t) -> CountedDensity:
    """Three standard normals, and a step along the first with its slope."""

    def log_p(x):
        return -0.5 * (x**2).sum(axis=1) + step(x[:, 0])

    def score(x):
        return -x + np.eye(3)[0] * slope(x[:, 0])[:, None]

    return CountedDensity(CallableDensity(log_p, score, dimension=3, names=NAMES))


def draws(n: int = 400) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((n, 3))


@pytest.mark.parametrize(("at", "size"), [(0.0, 2.0), (0.5, -0.8), (-0.3, 40.0)])
def test_a_step_is_found_where_it_is(at: float, size: float) -> None:
    target = density(lambda t: size * (t > at))
    found = jump_among(target, draws(), seed=1)
    assert found is not None and found.size == pytest.approx(abs(size))
    assert found.name == "place" and found.place == pytest.approx(at, abs=1e-6)
    assert "along place at " in found.sentence
    assert FIRST < target.gradients <= MOST
    lines = np.sort(draws(40_000)[:, 0].reshape(2, -1), axis=0)
    share = np.mean((lines[0] < at) & (at < lines[1]))
    error = np.sqrt(share * (1 - share) / jumps.LINES)
    assert abs(found.share - share) < monte_carlo(error)


def test_a_jump_along_several_has_no_place() -> None:
    def log_p(x):
        return -0.5 * (x**2).sum(axis=1) + 3.0 * (x[:, 0] + x[:, 1] > 0.2)

    target = CountedDensity(CallableDensity(log_p, lambda x: -x, dimension=3, names=NAMES))
    found = jump_among(target, draws(), seed=1)
    assert found is not None and found.name in NAMES[:2] and found.place is None
    assert f"along {found.name} (by 3 nats" in found.sentence


def test_the_coordinate_is_found_among_many() -> None:
    D = 1000

    def log_p(x):
        return -0.5 * (x**2).sum(axis=1) + 2.0 * (x[:, 777] > 0.1)

    target = CountedDensity(CallableDensity(log_p, lambda x: -x, dimension=D))
    found = jump_among(target, np.random.default_rng(3).standard_normal((100, D)), seed=1)
    assert found is not None and found.name == "theta[777]"
    assert found.place == pytest.approx(0.1, abs=1e-6)
    assert target.values - target.gradients < 11 * jumps.LINES


@pytest.mark.parametrize(
    "target",
    [
        density(lambda t: -50 * np.abs(t), lambda t: -50 * np.sign(t)),  # a kink
        density(lambda t: -(np.abs(t) ** 0.5), lambda t: -0.5 * np.sign(t) / np.abs(t) ** 0.5),
        density(lambda t: 30 * expit(1e4 * t), lambda t: 3e5 * expit(1e4 * t) * expit(-1e4 * t)),
        density(lambda t: np.where(t > -0.2, 0.0, -np.inf)),  # a wall
        density(lambda t: 3 * np.log(np.abs(t)), lambda t: 3 / t),  # no mass at one place
        density(lambda t: 0.9 * LEAST * (t > 0)),  # too little to speak of
        density(lambda t: 5.0 * (t > 3.0)),  # where next to no line comes
    ],
    ids=["kink", "cusp", "cliff", "wall", "gap", "small", "rare"],
)
def test_what_is_no_jump(target: CountedDensity) -> None:
    assert jump_among(target, draws(), seed=1) is None


@pytest.mark.parametrize("name", [n for n, target in ZOO.items() if target.kind != "improper"])
def test_nothing_is_said_of_the_zoo(name: str) -> None:
    target = ZOO[name].make()
    theta = target.draws(400, np.random.default_rng(1))
    assert jump_among(CountedDensity(target), theta, 1) is None


def test_a_density_that_raises_is_left_alone() -> None:
    def raises(x):
        raise ValueError("no such place")

    target = CountedDensity(CallableDensity(raises, raises, dimension=3))
    assert jump_among(target, draws(), seed=1) is None
    assert jump_among(density(np.sign), draws(1), seed=1) is None
