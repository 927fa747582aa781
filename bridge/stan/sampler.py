"""Stan's own NUTS as a sampler of `pymc_ext.sampling`, for densities of Stan programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pymc_ext.density import Density, TransportMap
from pymc_ext.maths.types import Array
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.protocol import Chain
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.hierarchical.map import HierarchicalMap
from stan_models.chains import StanChain, Transitions, has_chains
from stan_models.coordinates import Coordinates
from stan_models.density import StanDensity

if TYPE_CHECKING:
    from scipy import sparse

__all__ = ["StanNUTS", "coordinates_of", "takes"]

# Dimensions up to which a low-rank root is handed over as a dense one, which takes 32 MB there.
MOST_DENSE = 2_000


def coordinates_of(transport: TransportMap) -> Coordinates | None:
    """The map as plain arrays, in which form it runs beside the program; None where it has none."""
    if isinstance(transport, Gaussian):
        return Coordinates(_doubles(transport.mean), _doubles(transport.root))
    if isinstance(transport, DiagonalGaussian):
        return Coordinates(_doubles(transport.mean), _diagonal(transport.std))
    if isinstance(transport, LowRankGaussian) and transport.dimension <= MOST_DENSE:
        root = transport.root_transposed_product(np.eye(transport.dimension))
        return Coordinates(_doubles(transport.mean), _doubles(root))
    if isinstance(transport, HierarchicalMap):
        tails = _doubles(transport.marginal.tails)
        return Coordinates(
            _doubles(transport.center), transport.root.as_matrix(), order=transport.order,
            C=_square(transport.scales), H=_square(transport.gated), Q=_square(transport.squares),
            d=_doubles(transport.offset), m=_doubles(transport.gated_mean),
            s=_doubles(transport.sense),
            skew=_doubles(transport.marginal.skew), below=tails[0], above=tails[1],
        )  # fmt: skip
    return None


def takes(density: Density, transport: TransportMap | None) -> bool:
    """Whether Stan's own sampler can run on this density in these coordinates."""
    if not isinstance(density, StanDensity) or not has_chains(density):
        return False
    return transport is None or coordinates_of(transport) is not None


@dataclass(frozen=True)
class StanNUTS:
    """Stan's NUTS in the library of a compiled program; no Python is called for a gradient.

    Parameters
    ----------
    warm_up_in_map
        Iterations that adapt the step size in an approximation's coordinates, where the metric is
        one. The chains then share the geometric mean of their step sizes.
    warm_up
        Iterations in θ, where a diagonal metric is adapted too: Stan's default.
    """

    warm_up_in_map: int = 50
    warm_up: int = 1000
    name = "stan-nuts"

    def chain(
        self,
        density: Density,
        start: Array,
        *,
        transport: TransportMap | None,
        scale: Array | None,
        seed: int,
        options: Sampling,
    ) -> Warmed:
        """See `pymc_ext.sampling.protocol.Sampler`."""
        if not isinstance(density, StanDensity):
            raise TypeError(f"Stan's sampler needs a Stan program, got {type(density).__name__}")
        coordinates = None if transport is None else coordinates_of(transport)
        if transport is not None and coordinates is None:
            raise TypeError(
                f"Stan's sampler does not know the coordinates of {type(transport).__name__}: use "
                "nutpie"
            )
        alone = transport is None
        chain = StanChain(
            density, start, seed=seed, coordinates=coordinates, adapt_metric=alone,
            inverse_metric=np.square(scale) if alone and scale is not None else None,
            target_accept=options.target_accept, max_depth=options.max_depth,
        )  # fmt: skip
        return Warmed(chain, self.warm_up if alone else self.warm_up_in_map)

    def share(self, chains: Sequence[Chain]) -> None:
        """One step size for all: 50 iterations leave it within a factor of two."""
        own = [chain.chain for chain in chains if isinstance(chain, Warmed)]
        mean = np.exp(np.mean([np.log(chain.step_size) for chain in own]))
        for chain in own:
            chain.step_size = float(mean)


@dataclass(frozen=True)
class Warmed:
    """A chain and the length of its warm-up; see `pymc_ext.sampling.protocol.Chain`."""

    chain: StanChain
    iterations: int

    def warm_up(self) -> Transitions:
        """Adapt."""
        return self.chain.run(self.iterations, adapt=True)

    def draw(self, iterations: int) -> Transitions:
        """The next states."""
        return self.chain.run(iterations)

    def stop(self) -> None:
        """Let :meth:`draw` end with what there is."""
        self.chain.stop()

    def close(self) -> None:
        """Nothing: the chain goes with this object."""

    @property
    def gradients(self) -> int:
        """Of log p̃ so far."""
        return self.chain.gradients

    @property
    def infinite(self) -> int:
        """Stan tells none."""
        return 0


def _doubles(values: Array) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _square(columns: Array) -> sparse.sparray:
    """(D, k), the first k of D columns, of which the others are zero."""
    from scipy import sparse

    rows, own = np.nonzero(columns)
    return sparse.coo_array((_doubles(columns[rows, own]), (rows, own)), shape=(len(columns),) * 2)


def _diagonal(values: Array) -> sparse.sparray:
    from scipy import sparse

    return sparse.diags_array(values).tocoo()
