"""The vectorised scan equals one scan a draw, in value and gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.scan.op import Scan
from pytensor.tensor.blockwise import Blockwise

from posteriordb_cases.models import _scan
from tests.tolerances import EXACT

_scan.register()
DRAWS, STEPS, WIDTH = 4, 6, 3
RNG = np.random.default_rng(0)
VALUES = {
    "x": RNG.normal(size=(DRAWS, WIDTH)),
    "s": RNG.normal(size=(DRAWS, STEPS, WIDTH)),
    "W": RNG.normal(size=(DRAWS, WIDTH, WIDTH)),
}


def graph() -> tuple[dict[str, Any], list[Any]]:
    """A scan with a sequence, states with one and two taps, a plain output and constants."""
    x, s, W = pt.vector("x"), pt.matrix("s"), pt.matrix("W")

    def step(now: Any, a: Any, before: Any, last: Any, x: Any, W: Any) -> tuple[Any, Any, Any]:
        return pt.tanh(W @ a + now * x), 0.3 * last - 0.2 * before + a[1] * x, a * x

    start = {"initial": pt.stack([x, 2 * x]), "taps": [-2, -1]}
    outputs = pytensor.scan(step, sequences=[s], outputs_info=[2 * x, start, None],
                            non_sequences=[x, W], return_updates=False)  # fmt: skip
    loss = (outputs[0] ** 2).sum() + (s * outputs[1]).sum() + pt.exp(outputs[2]).sum()
    gradient = pt.grad(loss, [x, s, W])
    return {"x": x, "s": s, "W": W}, [loss, *outputs, *gradient]


@pytest.mark.slow
@pytest.mark.parametrize("names", [("x",), ("s", "W")])
def test_vectorised_scan_is_one_scan_a_draw(names: tuple[str, ...]) -> None:
    inputs, outputs = graph()
    batched = {n: pt.tensor(f"{n}_draws", shape=(None, *inputs[n].type.shape)) for n in names}
    new = vectorize_graph(outputs, replace={inputs[n]: batched[n] for n in names})
    assert not any(isinstance(getattr(op, "core_op", None), Scan) for op in _ops(new, Blockwise))
    together = pytensor.function([batched.get(n, inputs[n]) for n in inputs], new)
    one = pytensor.function(list(inputs.values()), outputs)
    actual = together(*(VALUES[n] if n in names else VALUES[n][0] for n in inputs))
    for draw in range(DRAWS):
        expected = one(*(VALUES[n][draw if n in names else 0] for n in inputs))
        for all_draws, value in zip(actual, expected, strict=True):
            np.testing.assert_allclose(all_draws[draw], value, rtol=EXACT, atol=1e-12)


def test_gradient_of_a_vectorised_scan() -> None:
    inputs, outputs = graph()
    draws = pt.matrix("x_draws")
    loss = vectorize_graph(outputs[0], replace={inputs["x"]: draws})
    others = [inputs["s"], inputs["W"]]
    gradient = pytensor.function([draws, *others], pt.grad(loss.sum(), draws))
    one = pytensor.function(list(inputs.values()), outputs[4])
    fixed = VALUES["s"][0], VALUES["W"][0]
    expected = [one(x, *fixed) for x in VALUES["x"]]
    np.testing.assert_allclose(gradient(VALUES["x"], *fixed), expected, rtol=EXACT)


def test_draws_that_differ_in_their_number_of_steps_are_refused() -> None:
    steps, draws = pt.lscalar("steps"), pt.lvector("steps_draws")
    path = pytensor.scan(lambda: pt.ones(()), n_steps=steps, return_updates=False)
    length = pytensor.function([draws], vectorize_graph(path, replace={steps: draws}).shape[-1])
    assert length([3, 3]) == 3
    with pytest.raises(AssertionError, match="same number of steps"):
        length([3, 4])


def _ops(outputs: list[Any], kind: type) -> list[Any]:
    found = (v.owner.op for v in ancestors(outputs) if v.owner)
    return [op for op in found if isinstance(op, kind)]
