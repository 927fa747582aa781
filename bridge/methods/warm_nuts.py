"""Exact answers: chains in the coordinates of an approximation that is fitted first."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np

from bridge.methods.families import FLOW, Made, made
from bridge.methods.method import Fit, Method, Problem
from bridge.methods.options import options_text
from bridge.stan.start import stan_start
from bridge.targets.target import Target
from pymc_ext.density import CountedDensity, Density, TransportMap
from pymc_ext.density.coordinates import as_transport
from pymc_ext.interrupts import Interrupts, interrupt_says
from pymc_ext.maths.types import Array
from pymc_ext.sampling.installed import installed_sampler
from pymc_ext.sampling.options import Sampling
from pymc_ext.sampling.protocol import Sampler
from stan_models import StanDensity, ToolchainError

if TYPE_CHECKING:
    from pymc_ext.sampling.result import Sampled
    from pymc_ext.variational.core.algorithm import Algorithm
    from pymc_ext.variational.core.posterior import Posterior
    from pymc_ext.variational.missed.missed_mass import MissedMass

__all__ = [
    "FLOW_NUTS",
    "FLOW_STEPS",
    "WARM_NUTS",
    "WarmNUTS",
    "default_approximation",
    "expected_failures",
    "sampled",
    "sampler_for",
]


def expected_failures() -> tuple[type[Exception], ...]:
    """What an approximation may fail with where it does not suit: no mode, overflow, a runaway, no
    end. Chains then adapt by themselves; all else is a fault in code."""
    from pymc_ext.variational.core.monitor import FitStopped

    return ValueError, ArithmeticError, RuntimeError, NotImplementedError, FitStopped


def default_approximation() -> Made:
    """What a sampler starts from if it is not told: a map not refined, as NUTS does that, and whose
    weights nobody takes."""
    unrefined = {"longest_block": 20, "rounds": 1, "necks": False}
    return Made("hierarchical.algorithm:Hierarchical", unrefined)


def sampler_for(density: Density, transport: TransportMap | None) -> Sampler:
    """Stan's own for a program in coordinates that it knows, for all else what is installed."""
    from bridge.stan.sampler import StanNUTS, takes

    return StanNUTS() if takes(density, transport) else installed_sampler()


def sampled(
    target: Target,
    transport: TransportMap | None,
    modes: MissedMass | None,
    options: Sampling,
    seed: int,
    fall_back: bool = True,
    hierarchy: TransportMap | None = None,
    basin: TransportMap | None = None,
) -> Sampled:
    """Chains from q and from every mode that is known outside it.

    ``hierarchy`` is a map that knows who governs whose scale; by default q. ``basin`` is a map of
    one of several modes: where these are its images, as the labellings of a mixture are, chains run
    in it alone, and each draw gets one of the orders at random.

    They are not trusted where they have left one behind: started in two, all may drift to one, and
    agree; nor where they miss a tail of what governs others' scales.
    """
    # SciPy's special functions: a wrong name of a method is said without them
    from bridge.stan.sampler import takes
    from pymc_ext.sampling.modes import through_modes
    from pymc_ext.sampling.run import sample
    from pymc_ext.sampling.starts import MOST_IN_MODES
    from pymc_ext.sampling.tails import with_tails

    hierarchy = transport if hierarchy is None else hierarchy
    images = None
    if modes is not None and basin is not None:
        from pymc_ext.sampling.images import images_among

        images = images_among(modes, target, basin, seed)
    if images is not None:
        transport = hierarchy = basin
        modes = images.others
    places = None if modes is None or not modes.matters else modes.places[:MOST_IN_MODES]
    if places is not None and not hasattr(transport, "inverse"):
        transport = None  # chains that start in other modes need their places in v
    if find_spec("nutpie") is None and takes(target.density, None):
        # of coordinates that Stan's sampler does not know PyMC's is slower than Stan's without them
        transport = transport if takes(target.density, transport) else None
    if places is not None and transport is None and basin is not None:
        middle = basin.forward(np.zeros((1, basin.latent_dimension)))[0]
        places = np.concatenate([middle, places])  # random starts may all leave that mode
    found = sample(
        target.density, transport, sampler_for(target.density, transport), options, seed=seed,
        extra_starts=places, constrain=target.constrain, fall_back=fall_back,
        fold=None if images is None else images.symmetry.one_order,
        in_step=True,
    )  # fmt: skip
    found = with_tails(through_modes(found, modes, seed, basin), target.density, hierarchy)
    return found if images is None else images.of_all(found, seed)


@dataclass(frozen=True)
class WarmNUTS:
    """Run of a method: an approximation, then chains in its coordinates until draws are enough.

    Parameters
    ----------
    algorithm
        What approximates, or what makes it; its q is given to the sampler.
    options
        Of the chains.
    n
        Iterations of ``algorithm``; its default if None.

    Examples
    --------
    >>> run = WarmNUTS(options=Sampling(ess=1000))
    >>> method = bridge.Method("warm-nuts-1000", "more draws", "pymc", run, sampler=True)
    >>> bridge.compare(["eight_schools"], methods=[method], seeds=[1], out="exact")

    On a model of your own, without a comparison, or on ``as_problem(program, data)`` of a Stan
    program; draws are unconstrained, (chains, N, D):

    >>> from bridge.methods.problems import as_problem
    >>> fit = WarmNUTS()(as_problem(model), 0, seed=1)
    >>> fit.info["verdict"]
    'trusted'
    """

    algorithm: Algorithm | Made = field(default_factory=default_approximation)
    options: Sampling = field(default_factory=Sampling)
    n: int | None = None

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """``draws`` does not matter: as many are made as their ESS asks for."""
        from pymc_ext.sampling.modes import modes_outside
        from pymc_ext.sampling.run import NOTHING_DRAWN
        from pymc_ext.variational.core.effort import Effort

        target, start = _target(problem)
        self.options.require_reachable(target.dimension)
        counted = CountedDensity(target.density)
        effort = Effort(counted)
        with interrupt_says(NOTHING_DRAWN), Interrupts() as interrupts:
            q, approximation = self._approximate(counted, start, seed)
            modes = None if q is None or interrupts.seen else modes_outside(counted, q, seed)
        if interrupts.seen:  # what was interrupted took it as its own end
            raise KeyboardInterrupt(NOTHING_DRAWN)
        if modes is not None and not modes.matters:
            modes = None
        transport = None if q is None else as_transport(q)
        found = sampled(target, transport, modes, self.options, seed, basin=transport)
        spent = effort.spent()
        return Fit(
            target=target,
            theta=found.theta,
            lp=found.lp,
            seconds=spent["seconds"],
            compile_seconds=spent["compile_seconds"],
            density_evaluations=counted.values + found.density_evaluations,
            gradient_evaluations=counted.gradients + found.gradient_evaluations,
            info={
                **_info(found, target.density),
                "approximation": approximation,
                "approximation_gradients": counted.gradients,
                **({"representation": "stan"} if isinstance(target.density, StanDensity) else {}),
                "options": options_text(algorithm=made(self.algorithm), options=self.options),
            },
        )

    def _approximate(
        self, density: CountedDensity, start: Array, seed: int
    ) -> tuple[Posterior | None, str]:
        """q, if it can serve as coordinates, and what to call it."""
        from pymc_ext.variational.core.algorithm import run_algorithm
        from pymc_ext.variational.core.monitor import Monitor

        algorithm = made(self.algorithm)
        try:
            with Monitor.silent() as monitor:
                q = run_algorithm(
                    algorithm, density, start, self.n, random_seed=seed, monitor=monitor
                ).q
        except expected_failures() as error:
            return None, f"{algorithm.name} failed: {error}"
        if as_transport(q) is None:
            return None, f"{algorithm.name} gives no coordinates: its q has no pullback"
        return q, algorithm.name


def _target(problem: Problem) -> tuple[Target, Array]:
    """The density that chains run on, and where its approximation starts: Stan's where it can be
    compiled, as no Python stands between its sampler and its gradients."""
    if problem.has_program:
        try:
            target = problem.stan_target
        except (ToolchainError, ImportError):  # no compiler here, or no cmdstanpy
            return problem.target, problem.start
        assert isinstance(target.density, StanDensity)
        return target, stan_start(target.density)
    return problem.target, problem.start


def _info(found: Sampled, density: Density) -> dict[str, object]:
    """The verdict, for the record."""
    on = f"PyMC {version('pymc')}"
    if isinstance(density, StanDensity):
        on = f"Stan {density.program.toolchain.stan_version}"
    return {
        "engine": f"{found.sampler} on {on}",
        "trusted": found.trusted,
        "verdict": found.verdict,
        "converged": found.trusted,
        "stop_reason": found.stop_reason,
        "divergences": found.diagnostics.divergences,
        "energy_fmi": found.diagnostics.energy_fmi,
        "ess_tail": found.diagnostics.ess_tail,
        "in_map": found.in_map,
        "warm_up_gradients": found.warm_up_gradients,
        "draws_per_chain": int(found.theta.shape[1]),
        "mean_steps": float(np.mean(found.statistics["n_steps"])),
        "fit_notes": "; ".join(found.notes) or None,
    }


# Steps of a flow whose coordinates NUTS takes, of 10 draws each. After 1,000 one of two runs on
# gp_pois_regr was trusted, by 215,000 gradients in all, after 3,000 both, by 159,000 and 249,000.
FLOW_STEPS = 3_000
FLOW_NUTS = Method(
    "flow-nuts",
    "chains in the coordinates of a short flow on the hierarchical map",
    "pymc",
    WarmNUTS(Made(FLOW, {"base": "hierarchical", "polish": None}), n=FLOW_STEPS),
    default=False,
    sampler=True,
)
WARM_NUTS = Method(
    "warm-nuts",
    "HMC, or NUTS, in an approximation's coordinates, until ESS 400",
    "pymc",
    WarmNUTS(),
    sampler=True,
)
