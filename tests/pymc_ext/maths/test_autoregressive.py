"""The masked network: what each output may and does depend on."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_ext.maths.autoregressive import MaskedNetwork, check_hidden, degrees


def jacobian(D: int, hidden: tuple[int, ...], seed: int = 1) -> np.ndarray:
    """|∂ output_j / ∂ input_i| summed over the head's width, (D, D)."""
    rng = np.random.default_rng(seed)
    network = MaskedNetwork(D, hidden, {"a": 2, "b": 1})
    start = network.initial(rng, {"a": np.zeros((D, 2)), "b": np.zeros((D, 1))})
    parameters = {k: pt.constant(rng.normal(size=v.shape)) for k, v in start.items()}
    x, j = pt.matrix("x"), pt.iscalar("j")
    out = network(parameters, x, pt)["a"][0, j].sum()
    f = pytensor.function([x, j], pt.grad(out, x)[0], mode="FAST_COMPILE")
    point = rng.normal(size=(1, D))
    return np.abs([f(point, j) for j in range(D)])


@pytest.mark.parametrize("hidden", [(9, 9), (20,), (10, 10), (12, 9, 11)])
def test_each_output_sees_all_inputs_before_it_and_no_other(hidden):
    J = jacobian(10, hidden)
    before = np.tril(np.ones((10, 10), dtype=bool), -1)
    assert (J[before] > 0).all()
    assert (J[~before] == 0).all()


def test_narrow_layers_see_groups_and_still_nothing_later():
    J = jacobian(40, (6, 6))
    assert (J[~np.tril(np.ones((40, 40), dtype=bool), -1)] == 0).all()
    assert (J[1:, 0] > 0).all()  # the first variable is seen by everything after it
    assert (J[-1] > 0).sum() >= 20


def test_degrees_cover_or_are_spaced():
    np.testing.assert_array_equal(degrees(5, 4), [1, 2, 3, 4])
    np.testing.assert_array_equal(degrees(5, 6), [1, 1, 2, 2, 3, 4])
    assert degrees(200, 10)[0] == 1
    assert degrees(200, 10)[-1] == 199
    assert len(degrees(200, 10)) == 10
    np.testing.assert_array_equal(degrees(1, 3), [1, 1, 1])


def test_outputs_start_at_the_biases():
    network = MaskedNetwork(4, (5, 5), {"a": 3})
    bias = np.arange(12.0).reshape(4, 3)
    parameters = network.initial(np.random.default_rng(1), {"a": bias})
    out = network(parameters, pt.constant(np.ones((2, 4))), pt)["a"].eval()
    np.testing.assert_array_equal(out, np.stack([bias, bias]))
    assert not network.grouped
    assert MaskedNetwork(4, (2, 5), {"a": 3}).grouped


@pytest.mark.parametrize("D, hidden", [(1, (5,)), (3, ())])
def test_one_variable_or_no_layer_has_no_network(D, hidden):
    network = MaskedNetwork(D, hidden, {"a": 2, "b": 1})
    bias = np.arange(2.0 * D).reshape(D, 2)
    parameters = network.initial(np.random.default_rng(1), {"a": bias, "b": np.zeros((D, 1))})
    assert set(parameters) == {"b_a", "b_b"}
    out = network(parameters, pt.constant(np.ones((3, D))), pt)["a"].eval()
    np.testing.assert_array_equal(out, np.tile(bias, (3, 1, 1)))


@pytest.mark.parametrize("bad", [(0,), (10, -1), (2.5,), (True,), 10, "10"])
def test_bad_widths(bad):
    with pytest.raises(ValueError, match="hidden"):
        check_hidden(bad)


def test_outputs_go_on_with_another_slope_on_each_side() -> None:
    """As the log scales of a funnel do: constant on one side, linear on the other."""
    network = MaskedNetwork(2, (8,), {"a": 1})
    values = network.initial(np.random.default_rng(1), {"a": np.zeros((2, 1))})
    values["W_a"][:] = np.random.default_rng(2).standard_normal(values["W_a"].shape)
    x = np.array([[-60.0, 0], [-50, 0], [50, 0], [60, 0]])
    out = network(values, pt.as_tensor(x), pt)["a"].eval()[:, 1, 0]
    left, right = (out[1] - out[0]) / 10, (out[3] - out[2]) / 10
    assert abs(left - right) > 0.1 and min(abs(left), abs(right)) > 0.01
