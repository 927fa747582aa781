"""The options of a run of chains, as one value."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_ext.options import require_count, require_memory, require_number

# Gradients that a run may take by default: what Stan's default of 4 × 2,000 iterations costs with
# trajectories of 127 steps.
BUDGET = 1_000_000
# Random starts as Stan's: uniform on (−2, 2), unconstrained, tried up to 100 times each.
START_RADIUS, START_TRIES = 2.0, 100


@dataclass(frozen=True)
class Sampling:
    """When chains are done, and how they step.

    Parameters
    ----------
    ess
        Bulk and tail ESS, over all chains, that every quantity and log p̃ must reach.
    budget
        Gradients of log p̃, over all chains and with warm-up, after which no further block begins;
        a warm-up that takes more ends there, and nothing is drawn.
    chains
        From weighted draws of the approximation; chains from starts of your own come on top. By
        default eight of HMC, four of a sampler.
    target_accept, max_depth
        Of NUTS: the acceptance rate that step sizes are adapted to, and the largest depth of a
        tree.

    Raises
    ------
    ValueError
        A number is out of range.

    Examples
    --------
    >>> Sampling(ess=1000).budget
    1000000
    """

    ess: float = 400
    budget: int = BUDGET
    chains: int | None = None
    target_accept: float = 0.8
    max_depth: int = 10

    def __post_init__(self) -> None:
        require_number("ess", self.ess)
        require_number("target_accept", self.target_accept)
        if not 0 < self.ess < np.inf:
            raise ValueError(f"ess must be a positive number, got {self.ess!r}")
        for name in ("budget", "max_depth"):
            require_count(name, getattr(self, name), 1)
        if self.chains is not None:
            require_count("chains", self.chains, 2)
        if not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept must be between 0 and 1, got {self.target_accept!r}")

    def require_reachable(self, dimension: int | None = None) -> None:
        """ValueError where no chains can give so many effective draws: a transition takes a
        gradient at least, and its point (D,) is kept.

        >>> Sampling(ess=1e9).require_reachable()
        Traceback (most recent call last):
        ...
        ValueError: ess=1e+09 takes NUTS at least as many gradients, and its budget is ...
        """
        if self.ess > self.budget:
            raise ValueError(
                f"ess={self.ess:g} takes NUTS at least as many gradients, and its budget is "
                f"{self.budget:,}: ask for fewer effective draws (px.sample takes a larger budget)"
            )
        if dimension is not None:
            require_memory("ess", int(np.ceil(self.ess)), dimension)
