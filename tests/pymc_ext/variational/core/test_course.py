"""What is kept of a fit under way."""

import numpy as np

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.course import NEARLY, Candidate, Course, Ended
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian


def test_a_q_that_overflows_at_one_draw_is_never_the_best():
    """Where p̃ is flat far out, its other draws have the higher ELBO the farther out they are."""
    flat = CallableDensity(
        lambda t: -np.logaddexp(0, t[:, 0]), lambda t: -1 / (1 + np.exp(-t)), dimension=1
    )
    once = np.r_[np.linspace(0.1, 1, 20), 4.0]
    z = np.r_[once, -once][:, None]
    monitor = Monitor(None, (), first=0, total=10, progressbar=False)
    course = Course(CountedDensity(flat), z, 10, monitor)
    near = course.offer(DiagonalGaussian(np.zeros(1), np.ones(1)))
    far = course.offer(DiagonalGaussian(np.array([-1e308]), np.array([1e308 / 2])))
    assert np.isfinite(near.elbo) and far.elbo == -np.inf
    assert course.best is near


def test_a_fit_that_still_gains_nats_has_not_converged():
    """A block that gained 3,500 nats of half a million pays for no other one, and is no end."""
    assert Ended(None, 0.1, 0.5, "").at_rest and Ended(None, 0.9, 0.1, "").at_rest
    assert not Ended(None, 3500.0, 300.0, "").at_rest


def test_a_fit_whose_last_block_paid_has_converged_where_nothing_is_left_to_gain():
    z = np.random.default_rng(1).standard_normal(4_000)
    for spread, converged in ((0.8, False), (0.1, True)):
        ratios = spread * z  # log Z − ELBO is spread²/2
        ended = Ended(Candidate(None, ratios), 0.004, 0.001, "", paid=True)
        assert (ended.best.gap < NEARLY) is converged and ended.best.relative_ess > 0.5
        assert ended.at_rest is converged
    far = Candidate(None, np.r_[ratios, 9.0])  # one draw has the weight: the gap is not known
    assert not Ended(far, 0.004, 0.001, "", paid=True).at_rest
