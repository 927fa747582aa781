"""nutpie's NUTS in the coordinates of a normalising flow that it trains in its warm-up."""

from __future__ import annotations

import io
import itertools
import time
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.methods.method import Fit, Problem
from bridge.methods.options import options_text
from bridge.methods.peers.shared import imported, in_jax, peer, quiet
from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    from pymc_ext.density.in_jax import JaxLogDensity

__all__ = ["NUTPIE_FLOW_METHODS", "NutpieFlow"]

PACKAGE = "flowjax"  # without which nutpie has none


@dataclass(frozen=True)
class NutpieFlow:
    """Run of a method: ``nutpie.sample(..., transform_adapt=True)``, experimental in its words.

    Its own defaults of the flow, its training and the length of the warm-up. Chains start as Stan's
    do, uniform on (−2, 2) unconstrained where log p̃ is finite, one after another, each with a flow
    of its own. What goes wrong inside nutpie's threads may end the process: ask for ``isolate``.
    Gradients are the leapfrog steps that its statistics report, warm-up included; seconds hold
    JAX's compilation and the training, which no gradient of log p̃ is taken for.

    Parameters
    ----------
    chains, tune, draws
        How many, and of each the warm-up and what follows it.

    References
    ----------
    https://pymc-devs.github.io/nutpie
    """

    chains: int = 4
    tune: int = 1_500
    draws: int = 1_000

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """``draws`` does not matter, as for `stan-nuts`.

        Raises
        ------
        ImportError
            nutpie or flowjax is not installed.
        NoModelError
            There is no JAX function of log p̃.
        DensityError
            log p̃ is finite nearly nowhere where chains start.
        RuntimeError
            A flow could not be made or ran away.
        KeyboardInterrupt
            It was interrupted: fewer draws are another sampler's.
        """
        nutpie = imported("nutpie", "nutpie")
        imported("flowjax", PACKAGE)
        target, log_density = in_jax(problem)
        from pymc_ext.sampling.attempts import points_inside  # with SciPy, for no list of methods

        rng, density = np.random.default_rng(seed), CountedDensity(target.density)
        model = _model(log_density, points_inside(density, self.chains, rng))
        clock = time.perf_counter()
        with quiet(PACKAGE), redirect_stdout(io.StringIO()):  # it prints losses that are not finite
            found: Any = nutpie.sample(
                model, transform_adapt=True, chains=self.chains, cores=1, tune=self.tune,
                draws=self.draws, seed=seed, progress_bar=False, save_warmup=True,
            )  # fmt: skip
        seconds = time.perf_counter() - clock
        theta = np.array(found["posterior"]["theta"], dtype=float)
        if theta.shape[:2] != (self.chains, self.draws) or not np.isfinite(theta).all():
            raise KeyboardInterrupt("interrupted before nutpie had made all draws")
        statistics = {
            name: np.array(found["sample_stats"][name]) for name in ("diverging", "energy")
        }
        steps = [
            int(np.sum(found[group]["n_steps"]))
            for group in ("warmup_sample_stats", "sample_stats")
        ]
        lp = target.log_density(theta.reshape(-1, target.dimension)).reshape(theta.shape[:2])
        return Fit(
            target=target,
            theta=theta,
            lp=lp,
            seconds=seconds,
            gradient_evaluations=sum(steps),
            statistics=statistics,
            info={
                "engine": f"nutpie {nutpie.__version__} with a flow",
                "divergences": int(statistics["diverging"].sum()),
                "warm_up_gradients": steps[0],
                "options": options_text(**asdict(self)),
            },
        )


def _model(log_density: JaxLogDensity, starts: Array) -> Any:
    """nutpie's model of a density on R^D, whose chains take one start (D,) each."""
    import jax
    from nutpie.compiled_pyfunc import from_pyfunc

    D, with_gradient = starts.shape[1], jax.jit(jax.value_and_grad(log_density))
    begin = itertools.cycle(starts)

    def evaluated(x: Array) -> tuple[float, Array]:
        value, gradient = with_gradient(x)
        return float(value), np.array(gradient, dtype=float)

    return from_pyfunc(
        D, lambda: evaluated, lambda *_: lambda x: {"theta": np.array(x)},
        [np.dtype("float64")], [(D,)], ["theta"],
        make_initial_point_fn=lambda _: next(begin),
        raw_logp_fn=lambda x: (log_density(x),),
    )  # fmt: skip


NUTPIE_FLOW_METHODS = (
    peer(
        "nutpie-flow",
        "nutpie's NUTS in a flow, 4 x (1500 + 1000)",
        f"nutpie and {PACKAGE}",
        NutpieFlow(),
        sampler=True,
    ),
)
