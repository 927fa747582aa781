import numpy as np
import pytest

from pymc_ext.maths import lowrank
from tests.tolerances import EXACT


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("rank", [1, 2, 5])
def test_products_inverse_and_determinant_against_dense_algebra(batch, rank):
    rng = np.random.default_rng(rank)
    u, v = rng.normal(size=(2, *batch, 5, rank))
    x = rng.normal(size=(*batch, 7, 5))
    A = np.eye(5) + u @ np.swapaxes(v, -1, -2)
    transpose = np.swapaxes(A, -1, -2)
    np.testing.assert_allclose(lowrank.multiply(x, u, v), x @ transpose, rtol=EXACT)
    inverse = x @ np.linalg.inv(transpose)
    np.testing.assert_allclose(lowrank.solve(x, u, v), inverse, rtol=1e-8)
    log_det = lowrank.log_abs_det(u, v)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(A)[1], rtol=1e-8)
