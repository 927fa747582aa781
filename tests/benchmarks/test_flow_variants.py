"""Variants of a flow's training take what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.speed.flow_variants import VARIANTS, made, pairs
from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CountedDensity
from pymc_ext.variational.bernstein.base import Affine
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.shape import FlowShape


@pytest.fixture(scope="module")
def runs():
    return made(ZOO["product-0"].make(), list(VARIANTS), seed=1, steps=500)


def test_third_order_moments_show_what_bends() -> None:
    """Of five bananas y_p bends along x_p, and no other pair is linked."""
    rng, density = np.random.default_rng(1), CountedDensity(ZOO["banana-10"].make())
    flow = BernsteinFlow(FlowShape(), Affine(np.arange(10), np.zeros(10)), 0, rng)
    linked = pairs(flow, density, rng)
    np.testing.assert_array_equal(linked, np.eye(10, k=-5, dtype=bool))


def test_half_as_many_steps_of_twice_the_draws(runs) -> None:
    assert runs["growing"]["gradients"] == pytest.approx(runs["kept"]["gradients"], rel=0.05)
    more = runs["controlled"]["gradients"] - runs["kept"]["gradients"]
    assert 0 < more < 0.15 * runs["kept"]["gradients"]  # 16 batches for a mean, each block


def test_gains_are_of_paired_draws(runs) -> None:
    assert runs["kept"]["gain"] == runs["kept"]["gain_error"] == 0
    for variant in ("growing", "controlled", "mirrored", "masked"):
        assert runs[variant]["gain"] != 0
        assert abs(runs[variant]["gain"]) < 0.05
