"""Masked autoregressive network: output j of a row sees only the inputs before j.

Notation: ``D`` inputs, ``H`` units of a layer, a unit of degree m sees inputs 1..m and feeds
outputs m+1..D (Germain et al. 2015, MADE, arXiv:1502.03509).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from pymc_ext.maths.namespace import NUMPY, Elementwise, Namespace
from pymc_ext.maths.types import Array


def check_hidden(hidden: Sequence[int]) -> tuple[int, ...]:
    """Widths of the hidden layers as a tuple; ValueError unless each is an integer >= 1."""
    if isinstance(hidden, str) or not isinstance(hidden, Iterable):
        raise ValueError(
            f"hidden must be a sequence of layer widths such as (10, 10), got {hidden!r}"
        )
    for width in hidden:
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1:
            raise ValueError(f"each hidden layer needs an integer >= 1 of units, got {hidden!r}")
    return tuple(int(width) for width in hidden)


def degrees(inputs: int, units: int, first: int = 0) -> NDArray[np.intp]:
    """Degrees in max(first, 1)..D-1 of the units of a layer, ascending.

    With enough units every degree occurs. With fewer the degrees are spaced geometrically: inputs
    are then seen in groups, the first ones singly, because a model's few hyperparameters come first
    and matter to everything after them.
    """
    low = max(first, 1)
    top = max(inputs - 1, low)
    if units >= top - low + 1:
        return np.sort(np.arange(units) % (top - low + 1) + low)
    spaced = np.round(np.geomspace(low, top, units)).astype(int)
    return np.sort(np.resize(np.unique(spaced), units))


class MaskedNetwork:
    """Hidden softplus layers with masks, and linear heads of one block of outputs per input.

    Softplus, unlike tanh, lets an output go on with another slope on each side, as log scales do in
    funnels.

    Parameters
    ----------
    inputs
        D.
    hidden
        Widths of the hidden layers.
    heads
        Name -> outputs per input. The head ``w`` returns an array (N, D - first, w).
    first
        The first input (from 0) that has outputs.
    """

    def __init__(
        self, inputs: int, hidden: Sequence[int], heads: Mapping[str, int], first: int = 0
    ) -> None:
        self.inputs, self.hidden, self.heads = inputs, check_hidden(hidden), dict(heads)
        self.first, self.outputs = first, inputs - first
        layers = [np.arange(1, inputs + 1)]
        layers += [degrees(inputs, width, first) for width in self.hidden]
        self.masks = [
            (after[None, :] >= before[:, None]).astype(float)
            for before, after in itertools.pairwise(layers)
        ]
        outputs = np.arange(first + 1, inputs + 1)
        self.output_mask = (outputs[None, :] > layers[-1][:, None]).astype(float)

    @property
    def grouped(self) -> bool:
        """Whether a layer is too narrow for each output to see exactly the inputs before it."""
        return bool(self.hidden) and min(self.hidden) < self.inputs - max(self.first, 1)

    def initial(self, rng: np.random.Generator, biases: Mapping[str, Array]) -> dict[str, Array]:
        """Starting values: random hidden weights, zero heads, so that head biases are the output.

        Parameters
        ----------
        biases
            Head name -> output at the start, shape (D - first, w).
        """
        values: dict[str, Array] = {}
        for i, mask in enumerate(self.masks if self.inputs > 1 else []):
            seen = np.maximum(mask.sum(axis=0), 1)
            values[f"W{i}"] = rng.standard_normal(mask.shape) * mask / np.sqrt(seen)
            values[f"b{i}"] = np.zeros(mask.shape[1])
        conditioned = bool(values)
        for name, width in self.heads.items():
            if conditioned:
                values[f"W_{name}"] = np.zeros((self.hidden[-1], self.outputs * width))
            values[f"b_{name}"] = np.array(biases[name], dtype=float)
        return values

    def __call__(
        self, parameters: Mapping[str, Elementwise], inputs: Elementwise, xp: Namespace = NUMPY
    ) -> dict[str, Elementwise]:
        """Outputs of every head at ``inputs`` (N, D): name -> (N, D - first, w).

        ``xp`` is ``NUMPY``, or ``pytensor.tensor`` for graphs.
        """
        h = inputs
        if "W0" not in parameters:  # one variable, or no layers: nothing to condition on
            zero = xp.zeros_like(h[:, self.first :])[..., None]
            return {name: parameters[f"b_{name}"] + zero for name in self.heads}
        h, _ = self._hidden(parameters, inputs, xp)
        return {name: self._head(parameters, h, name) for name in self.heads}

    def _hidden(
        self, parameters: Mapping[str, Elementwise], inputs: Elementwise, xp: Namespace
    ) -> tuple[Elementwise, list[Elementwise]]:
        """What the last hidden layer makes, and what goes into the units of each, (N, H)."""
        h, into = inputs, list[Elementwise]()
        for i, mask in enumerate(self.masks):
            into.append(h @ (parameters[f"W{i}"] * mask) + parameters[f"b{i}"])
            h = xp.softplus(into[-1]) - np.log(2)
        return h, into

    def _head_weights(self, parameters: Mapping[str, Elementwise], name: str) -> Elementwise:
        """(H, outputs · w), block by block of one output."""
        return parameters[f"W_{name}"] * np.repeat(self.output_mask, self.heads[name], axis=1)

    def pullback_of_each(
        self,
        parameters: Mapping[str, Elementwise],
        inputs: Elementwise,
        cotangents: Mapping[str, Elementwise],
        xp: Namespace = NUMPY,
    ) -> Elementwise:
        """Gradients in ``inputs`` (N, D) of one number for each input that has outputs, of the
        outputs that belong to it alone: name -> (N, D - first, w) -> (N, D - first, D)."""
        if "W0" not in parameters:  # biases alone, which see nothing
            return xp.zeros_like(inputs[:, self.first :, None] * inputs[:, None, :])
        slopes = [xp.sigmoid(z) for z in self._hidden(parameters, inputs, xp)[1]]
        g: Elementwise | float = 0.0
        for name, width in self.heads.items():
            weights = self._head_weights(parameters, name).reshape((-1, self.outputs, width))
            by_output = cotangents[name].swapaxes(0, 1) @ weights.transpose((1, 2, 0))
            g = g + by_output.swapaxes(0, 1)  # (N, D - first, H)
        for i, slope in reversed(list(enumerate(slopes))):
            g = (g * slope[:, None, :]) @ (parameters[f"W{i}"] * self.masks[i]).T
        return g

    def _head(
        self, parameters: Mapping[str, Elementwise], h: Elementwise, name: str
    ) -> Elementwise:
        flat = h @ self._head_weights(parameters, name)
        return flat.reshape((-1, self.outputs, self.heads[name])) + parameters[f"b_{name}"]
