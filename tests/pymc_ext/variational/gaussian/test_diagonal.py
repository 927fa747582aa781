import numpy as np
import pymc as pm
import pytest

import pymc_ext as px
from pymc_ext.density import CallableDensity, CountedDensity
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.gaussian.mixed import Diagonal
from tests.pymc_ext.variational.targets import eight_schools, two_gaussians, two_gaussians_kl
from tests.tolerances import NUMERIC


def fit(model, **options):
    inference = px.DiagonalVI(model=model, **{"random_seed": 1, **options})
    return pm.fit(method=inference, model=model, progressbar=False)


def test_figure_1_to_four_digits():
    approx = fit(two_gaussians(), fixed_draws=px.FixedDraws(16_384))
    assert two_gaussians_kl(approx) == pytest.approx(0.1283, abs=7e-5)
    S = approx.cov.eval()
    assert S[0, 1] == S[1, 0] == 0


def test_correlated_gaussian_gets_the_mean_field_optimum():
    """The best independent Gaussian has the variances 1/P_ii of the precision P."""
    cov = np.array([[4.0, 1.5, 0.2], [1.5, 1.0, 0.1], [0.2, 0.1, 9.0]])
    with pm.Model() as model:
        pm.MvNormal("x", np.array([1.0, 2.0, -3.0]), cov=cov)
    approx = fit(model)
    np.testing.assert_allclose(approx.mean.eval(), [1, 2, -3], atol=1e-3)
    np.testing.assert_allclose(
        np.diag(approx.cov.eval()), 1 / np.diag(np.linalg.inv(cov)), rtol=1e-3
    )
    kl = -0.5 * (np.linalg.slogdet(cov)[1] + np.log(np.diag(np.linalg.inv(cov))).sum())
    assert approx.result.train_elbo == pytest.approx(kl, abs=NUMERIC)


def test_starts_are_the_laplace_diagonal_and_1e_4():
    P = np.linalg.inv(np.array([[4.0, 1.5], [1.5, 1.0]]))
    density = CallableDensity(
        lambda x: -0.5 * np.einsum("ni,ij,nj->n", x, P, x), lambda x: -x @ P, dimension=2
    )
    with Monitor.silent() as monitor:
        family, starts, *_ = Diagonal().prepare(
            CountedDensity(density), np.ones(2), 1, 100, monitor
        )
    variances = []
    for x in starts:
        family.x = x
        variances.append(family.posterior().std ** 2)
    np.testing.assert_allclose(variances, [[4.0, 1.0], [1e-4, 1e-4]], rtol=1e-8)


def test_eight_schools_without_a_mode():
    approx = fit(eight_schools(centred=True), base="unit")
    assert approx.result.converged and np.isfinite(approx.result.elbo)


def test_bad_options():
    with pytest.raises(ValueError, match="draws must be an integer >= 2, got 0"):
        px.DiagonalVI(model=two_gaussians(), fixed_draws=px.FixedDraws(0))
