"""What a flow is made of: its options, and the networks they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from pymc_ext.maths.autoregressive import MaskedNetwork, check_hidden
from pymc_ext.maths.bernstein_coefficients import check_order, inverse_softplus
from pymc_ext.maths.types import Array
from pymc_ext.options import RefusesKeywords
from pymc_ext.variational.bernstein.conditioning import CONDITIONING, Conditioning
from pymc_ext.variational.bernstein.input_maps import MAPS, InputMap
from pymc_ext.variational.bernstein.latents import Latent, Normal, resolve_latent
from pymc_ext.variational.bernstein.tails import TAILS, Tails

T = TypeVar("T")
SHUT = -100.0  # softplus 4e-44
NARROWEST, WIDEST = 10, 32  # units of a hidden layer by the rule below


def default_hidden(dimension: int) -> tuple[int, int]:
    """Two layers of 2 D units, at least 10 and at most 32.

    On the 13 dimensions of gp_pois_regr 26 units instead of 10 raise the ELBO by 0.15 nats.
    """
    width = min(max(NARROWEST, 2 * dimension), WIDEST)
    return width, width


@dataclass(frozen=True)
class FlowShape(RefusesKeywords):
    """What a Bernstein flow is made of; its formula is at :class:`pymc_ext.BernsteinVI`.

    Parameters
    ----------
    order
        M, 1..1000. More never hurts the fit, only the speed.
    hidden
        Widths of the hidden layers; None: two of 2 D units, at least 10 and at most 32. Layers
        narrower than D − 1 condition in groups: each output then sees the first variables singly
        and the later ones coarsely, besides a linear term in all of them
        (``conditioning="latent"``), so that cost grows as D² at most.
    input_map
        ``"f1"``: σ(αv + β); ``"f2"``: σ(v); ``"f3"``: v itself, normal(0.5, 0.15) truncated to
        [1e-4, 1 − 1e-4].
    latent
        Law of v: ``"normal"``, ``"logistic"``, ``"student-t"`` (5 degrees of freedom), or
        e.g. ``StudentT(df=3)``. The first has the paper's tails, the others longer ones.
    tails
        What is added beyond the polynomial so that q has all of R^D as support. ``"linear"``: a
        slope on each side; ``"quadratic"``: also a curvature on each side, with which a normal
        latent variable gets exponential tails; ``"bounded"``: nothing, as in the paper, where q
        ends at ϑ_0 and ϑ_M. None takes bounded tails for f3, quadratic ones for a normal latent
        variable, linear ones for those that have long tails themselves.
    conditioning
        What the network sees. ``"latent"``: x of the components before; ``"hierarchical"``: the
        same, but the variables after the leading scalar ones see the *values* of those, which
        makes funnels easy; ``"squashed"``: σ(x), as in the paper. Except in the last, what is
        seen also enters the location and the log scale of each component linearly. The paper's
        flow is ``tails="bounded", conditioning="squashed"``.
    ordering
        Names of the free variables in the order of conditioning. None puts variables of few
        elements first, and among those the ones with a transform (scales).
    """

    order: int = 50
    hidden: Sequence[int] | None = None
    input_map: str = "f1"
    latent: str | Latent = "normal"
    tails: str | None = None
    conditioning: str = "hierarchical"
    ordering: Sequence[str] | None = None

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.hidden is not None:
            object.__setattr__(self, "hidden", check_hidden(self.hidden))
        one_of("input_map", self.input_map, tuple(MAPS))
        object.__setattr__(self, "latent", resolve_latent(self.latent))
        if self.tails is None:
            unbounded = "quadratic" if isinstance(self.latent, Normal) else "linear"
            object.__setattr__(self, "tails", "bounded" if self.map.law else unbounded)
        one_of("tails", self.tails, tuple(TAILS))
        one_of("conditioning", self.conditioning, tuple(CONDITIONING))
        if isinstance(self.ordering, str) or not isinstance(self.ordering, Iterable | None):
            raise ValueError(f"ordering must be a sequence of names, got {self.ordering!r}")
        if self.ordering is not None:
            object.__setattr__(self, "ordering", tuple(self.ordering))

    @property
    def map(self) -> InputMap:
        """What ``input_map`` names."""
        return MAPS[self.input_map]

    @property
    def tail(self) -> Tails:
        """What ``tails`` names."""
        return TAILS[str(self.tails)]

    @property
    def law(self) -> Latent:
        """Law of the latent variables."""
        latent = self.map.law or self.latent
        assert isinstance(latent, Latent)
        return latent

    @property
    def sight(self) -> Conditioning:
        """What ``conditioning`` names."""
        return CONDITIONING[self.conditioning]

    @property
    def slopes(self) -> int:
        """Slopes and curvatures of each component's tails."""
        return self.tail.slopes


def one_of(label: str, value: object, allowed: Sequence[object]) -> None:
    """ValueError unless ``value`` is allowed."""
    if value not in allowed:
        raise ValueError(f"{label} must be one of {tuple(allowed)}, got {value!r}")


class Layout:
    """The networks of a flow of ``dimension`` D and the names and shapes of its parameters.

    With ``conditioning="hierarchical"`` there are two: one of the leading scalars, one of all else
    given their values.
    """

    def __init__(self, shape: FlowShape, dimension: int, leading: int) -> None:
        self.shape, self.dimension, self.leading = shape, dimension, leading
        D = dimension
        heads = {"raw": shape.order, "local": 1 + shape.slopes + self.scaled}
        hidden = default_hidden(D) if shape.hidden is None else shape.hidden
        self.networks = [
            MaskedNetwork(stop, hidden, heads, first)
            for first, stop in shape.sight.networks(leading, D)
        ]

    @property
    def scaled(self) -> bool:
        """Whether components before j enter linearly: a Gaussian's, or a funnel's, dependence."""
        return self.shape.sight.linear and self.dimension > 1

    def initial(self, rng: np.random.Generator) -> dict[str, Array]:
        """Parameters at which the flow is close to the identity, by name."""
        shape = self.shape
        offset, increments = shape.map.identity(shape.order, 1 - shape.tail.share)
        local = np.array([offset, *_raw(shape.tail.start)] + [0.0] * self.scaled)
        values: dict[str, Array] = {}
        for k, network in enumerate(self.networks):
            repeat = (network.outputs, 1)
            biases = {
                "raw": np.tile(inverse_softplus(increments), repeat),
                "local": np.tile(local, repeat),
            }
            own = network.initial(rng, biases)
            if self.scaled:
                square = np.zeros((network.inputs, network.outputs))
                own |= {"skip": square, "skip_scale": square.copy()}
            values |= {f"{name}_{k}": value for name, value in own.items()}
        return values | shape.map.initial(self.dimension)

    def none(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Parameters of the shapes of ``values`` at which a flow with tails is the identity."""
        local = np.array([0.0, *_raw(self.shape.tail.identity)] + [0.0] * self.scaled)
        made = {name: np.zeros_like(value) for name, value in values.items()}
        for k, network in enumerate(self.networks):
            made[f"b_raw_{k}"][...] = SHUT
            made[f"b_local_{k}"][...] = np.tile(local, (network.outputs, 1)).reshape(
                made[f"b_local_{k}"].shape
            )
        if "alpha" in made:
            made["alpha"][...] = _raw([1.0])
        return made

    def masks(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """1 where a parameter has an effect, by name: masks of the networks and of the skips."""
        masks = {name: np.ones_like(value) for name, value in values.items()}
        for k, network in enumerate(self.networks):
            own = {f"W{i}": mask for i, mask in enumerate(network.masks)}
            for head, width in network.heads.items():
                own[f"W_{head}"] = np.repeat(network.output_mask, width, axis=1)
            own["skip"] = own["skip_scale"] = self.skip_mask(network)
            masks |= {f"{n}_{k}": m for n, m in own.items() if f"{n}_{k}" in masks}
        return masks

    @staticmethod
    def skip_mask(network: MaskedNetwork) -> Array:
        """Which inputs enter an output linearly: those before it."""
        return np.triu(np.ones((network.inputs, network.inputs)), 1)[:, network.first :]

    @staticmethod
    def own(k: int, values: Mapping[str, T]) -> dict[str, T]:
        """Parameters of network k without its number."""
        suffix = f"_{k}"
        return {n.removesuffix(suffix): v for n, v in values.items() if n.endswith(suffix)}


def _raw(positive: Sequence[float]) -> list[float]:
    """Numbers whose softplus these are; of zero, one whose softplus is next to nothing."""
    return [float(inverse_softplus(np.array(x))) if x > 0 else SHUT for x in positive]


def spans(values: Mapping[str, Array]) -> Iterator[tuple[str, slice, tuple[int, ...]]]:
    """Name, place in one flat vector, and shape of each array."""
    begin = 0
    for name, value in values.items():
        yield name, slice(begin, begin + value.size), value.shape
        begin += value.size
