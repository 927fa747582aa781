"""Jumps of log p̃ are found, measured and named; what a score sees is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.gaussian import jumps
from pymc_ext.variational.gaussian.jumps import LEAST, jump_among

NAMES = ["place", "level", "width"]
MOST = 576 + 2 * 3 * jumps.LINES * jumps.HALVINGS + 2 * 4 * jumps.LINES  # scores


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
    ((name, place),) = found.names
    assert name == "place" and place == pytest.approx(at, abs=1e-6)
    assert "along place = " in found.sentence and target.gradients < MOST
    a, b = np.sort(draws(40_000)[:, 0].reshape(2, -1), axis=0)
    assert found.share == pytest.approx(np.mean((a < at) & (at < b)), abs=0.35)  # 24 lines


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


def test_nothing_is_said_of_smooth_targets() -> None:
    for name, seed in (("funnel-10", 1), ("horseshoe-centred", 2), ("box-2", 3), ("laplace-4", 4)):
        target = ZOO[name].make()
        theta = target.draws(400, np.random.default_rng(1))
        assert jump_among(CountedDensity(target), theta, seed) is None, name


def test_a_density_that_raises_is_left_alone() -> None:
    def raises(x):
        raise ValueError("no such place")

    target = CountedDensity(CallableDensity(raises, raises, dimension=3))
    assert jump_among(target, draws(), seed=1) is None
    assert jump_among(density(np.sign), draws(1), seed=1) is None
