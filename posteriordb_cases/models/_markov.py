"""Likelihood of a hidden Markov model without a loop over time."""

import pytensor.tensor as pt
from pymc.distributions.transforms import Ordered
from pytensor.tensor import TensorVariable

positive_ordered = Ordered(positive=True)


def log_likelihood(
    transition: TensorVariable, log_density: TensorVariable, length: int
) -> TensorVariable:
    """Return log p(observations), the first state being uniform.

    ``transition`` (K, K) has a row for each present state; ``log_density`` (length, K) is that of
    each observation given its state. With A_t[i, j] = transition[i, j] p(y_t | j) the likelihood
    is p(y_1)' A_2 ... A_length 1 / K; neighbours are multiplied pairwise until one is left.
    """
    steps = pt.log(transition) + log_density[1:, None, :]
    count = length - 1
    while count > 1:
        left, right = steps[: count - 1 : 2], steps[1:count:2]
        pairs = pt.logsumexp(left[:, :, :, None] + right[:, None, :, :], axis=2)
        steps = pt.concatenate([pairs, steps[count - 1 :]]) if count % 2 else pairs
        count = (count + 1) // 2
    uniform = -pt.log(transition.shape[0])
    return uniform + pt.logsumexp(log_density[0][:, None] + steps[0])
