"""The matched loss in other frameworks: its optimum for a linear model is the posterior mean."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_ext.matching import METHODS, MatchingState, matched_targets
from tests.needed import needs
from tests.tolerances import EXACT

RNG = np.random.default_rng(3)
X = np.column_stack([RNG.normal(size=(80, 4)), np.ones(80)])
Y = RNG.integers(3, size=80)
PRECISION = 0.7


def optimum(method):
    state = MatchingState(
        range(3), 5, method=method, prior_precision=PRECISION, fit_intercept=False
    )
    state.update(X, Y)
    return state.posterior.mean.T


@pytest.mark.parametrize("method", METHODS)
def test_gradient_vanishes_in_pytensor(method):
    m, v = matched_targets(Y, 3, method=method)
    W = pt.dmatrix("W")
    loss = ((X @ W - m) ** 2 / (2 * v)).sum() + PRECISION / 2 * (W**2).sum()
    gradient = pytensor.function([W], pt.grad(loss, W), mode="FAST_COMPILE")
    scale = np.abs(gradient(np.zeros((5, 3)))).max()
    assert np.abs(gradient(optimum(method))).max() < EXACT * scale


def test_gradient_vanishes_in_torch():
    torch = needs("torch")
    m, v = (torch.tensor(a) for a in matched_targets(Y, 3))
    W = torch.tensor(np.ascontiguousarray(optimum("variational")), requires_grad=True)
    f = torch.tensor(X) @ W
    loss = torch.nn.functional.gaussian_nll_loss(f, m, v, reduction="sum")
    (loss + PRECISION / 2 * (W**2).sum()).backward()
    assert W.grad.abs().max() < 1e-8
