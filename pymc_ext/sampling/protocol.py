"""What a sampler is: something that makes chains, each with a state of its own.

Structural: ``stan_models.StanChain`` knows nothing of this package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from numpy.typing import NDArray

from pymc_ext.density import Density, TransportMap
from pymc_ext.maths.types import Array
from pymc_ext.sampling.options import Sampling

STATISTICS = ("acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy")


class Transitions(Protocol):
    """Successive states of one chain."""

    @property
    def points(self) -> Array:
        """(n, D), in the chain's coordinates."""

    @property
    def statistics(self) -> Mapping[str, NDArray]:
        """By ArviZ's names, each (n,): at least `STATISTICS`."""


class Chain(Protocol):
    """One chain, which keeps its position, its adaptation and its random numbers between calls."""

    def warm_up(self) -> Transitions:
        """Adapt, once, for as long as the chain was made to."""

    def draw(self, iterations: int) -> Transitions:
        """The next ``iterations`` states, without adaptation; fewer after :meth:`stop`."""

    def stop(self) -> None:
        """Called from another thread: let a call in progress end soon."""

    def close(self) -> None:
        """No further call comes."""

    @property
    def gradients(self) -> int:
        """Gradients of log p̃ so far, with warm-up."""

    @property
    def infinite(self) -> int:
        """Points tried so far where log p̃ is +∞; 0 where the sampler does not tell."""


class Sampler(Protocol):
    """Makes chains. An object holds options and nothing else."""

    @property
    def name(self) -> str:
        """What records call it."""

    def chain(
        self,
        density: Density,
        start: Array,
        *,
        transport: TransportMap | None,
        scale: Array | None,
        seed: int,
        options: Sampling,
    ) -> Chain:
        """A chain on ``density``.

        Parameters
        ----------
        density
            log p̃ of θ.
        start
            Where it starts, (D,), in its coordinates.
        transport
            θ = T(v) for a chain in v, whose warm-up is short; None for one in θ, which adapts a
            metric of its own.
        scale
            A first guess of the sds of θ (D,), for a chain in θ.
        seed
            Of its random numbers.
        options
            Acceptance rate and depth.
        """

    def share(self, chains: Sequence[Chain]) -> None:
        """After the warm-up in v: let the chains share what each has learnt; may do nothing."""


class Source(Protocol):
    """Several chains at once."""

    @property
    def count(self) -> int:
        """Of chains, M."""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C has ended them."""

    @property
    def gradients(self) -> int:
        """Of log p̃ so far, over all chains and with warm-up."""

    @property
    def infinite(self) -> int:
        """Points tried so far where log p̃ is +∞; 0 where the sampler does not tell."""

    def warm_up(self, budget: float) -> Transitions:
        """Adapt, once; where that takes more gradients than ``budget`` it ends early.

        Points are (M, n, D), statistics (M, n), here and in :meth:`draw`.
        """

    def draw(self, iterations: int) -> Transitions:
        """The next states of all; fewer after Ctrl-C."""

    def close(self) -> None:
        """No further call comes."""
