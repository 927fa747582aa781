"""What is kept of a fit under way."""

import numpy as np

from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.course import Course
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
