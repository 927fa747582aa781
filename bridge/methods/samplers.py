"""NUTS as others run it, to be compared with: nutpie's and PyMC's own, at their defaults."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from bridge.methods.method import Fit, Method, Problem, engine_of
from bridge.methods.options import options_text
from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array
from pymc_ext.sampling.nutpie import NutpieNUTS
from pymc_ext.sampling.options import Sampling

if TYPE_CHECKING:
    import xarray as xr

    from pymc_ext.sampling.blocks import Chains

__all__ = ["SAMPLER_METHODS", "NutpieDefault", "PyMCNUTS"]

CHAINS, DRAWS = 4, 1000  # as `stan-nuts` makes them, so that ESS and gradients are compared


@dataclass(frozen=True)
class NutpieDefault:
    """Run of a method: nutpie with its own adaptation, on the density that families are given.

    Chains start as Stan's do, uniform on (−2, 2) unconstrained, warm up for nutpie's default of 400
    iterations and then make ``draws``. Every gradient is counted where it is taken.

    Parameters
    ----------
    chains
        How many; nutpie's own default is 6.
    draws
        Of each chain, after its warm-up.
    sampler
        nutpie and the length of its warm-up.

    Examples
    --------
    >>> run = NutpieDefault(draws=4000)
    >>> method = bridge.Method("nutpie-4000", "more draws", "pymc", run, sampler=True)
    >>> bridge.compare(["eight_schools"], methods=[method], seeds=[1], out="nutpie")
    """

    chains: int = CHAINS
    draws: int = DRAWS
    sampler: NutpieNUTS = field(default_factory=NutpieNUTS)

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """``draws`` does not matter, as for `stan-nuts`.

        Raises
        ------
        ImportError
            nutpie is not installed.
        DensityError
            log p̃ is finite nearly nowhere where chains start, or flat.
        KeyboardInterrupt
            It was interrupted: fewer draws are another sampler's.
        """
        from pymc_ext.variational.core.effort import Effort

        target = problem.target
        counted = CountedDensity(target.density)
        effort, options = Effort(counted), Sampling(chains=self.chains)
        found = self._drawn(counted, options, seed)
        if found.interrupted:
            raise KeyboardInterrupt("interrupted before nutpie had made all draws")
        spent = effort.spent()
        return Fit(
            target=target,
            theta=found.theta,
            lp=found.lp,
            seconds=spent["seconds"],
            compile_seconds=spent["compile_seconds"],
            density_evaluations=counted.values + found.gradients,
            gradient_evaluations=counted.gradients + found.gradients,
            statistics={name: found.statistics[name] for name in ("diverging", "energy")},
            info={
                **engine_of(f"nutpie {version('nutpie')}", target),
                "divergences": int(found.statistics["diverging"].sum()),
                "warm_up_gradients": found.warm_up_gradients,
                "options": options_text(
                    chains=self.chains,
                    draws=self.draws,
                    tune=self.sampler.tune,
                    target_accept=options.target_accept,
                    maxdepth=options.max_depth,
                ),
            },
        )

    def _drawn(self, counted: CountedDensity, options: Sampling, seed: int) -> Chains:
        from pymc_ext.sampling import attempts
        from pymc_ext.variational.core.threads import threads_for

        rng = np.random.default_rng(seed)
        run = attempts.SamplingRun(counted, self.sampler, options, None, rng)
        try:
            with threads_for(counted.dimension):
                chains = run.chains(attempts.random_starts(run, self.chains), options)
                chains.warm_up(np.inf)
                if not chains.interrupted:
                    chains.extend(self.draws)
                return chains
        finally:
            for made in run.made:
                made.close()


@dataclass(frozen=True)
class PyMCNUTS:
    """Run of a method: PyMC's own NUTS, as ``pm.sample`` has it by default, on the PyMC model.

    Chains run one after another in this process: to fork one that holds threads is not safe. Where
    there is one core for each, ``pm.sample`` takes that much less wall time, and the same CPU time.

    Gradients are the leapfrog steps that its statistics report, warm-up included, as those of
    `stan-nuts` are; neither counts the gradient at the start of each iteration.

    Parameters
    ----------
    chains
        How many.
    tune, draws
        Of each chain: iterations of its warm-up, and draws after that.

    Examples
    --------
    >>> run = PyMCNUTS(tune=2000)
    >>> method = bridge.Method("pymc-nuts-2000", "a longer warm-up", "pymc", run, sampler=True)
    >>> bridge.compare(["eight_schools"], methods=[method], seeds=[1], out="pymc")
    """

    chains: int = CHAINS
    tune: int = 1000
    draws: int = DRAWS

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """``draws`` does not matter, as for `stan-nuts`.

        Raises
        ------
        NoModelError
            The posterior has no PyMC model.
        KeyboardInterrupt
            It was interrupted, where ``pm.sample`` hands back the draws so far.
        """
        import pymc as pm

        model, target = problem.model, problem.target
        begin = time.perf_counter()
        with model:
            idata = pm.sample(
                self.draws, tune=self.tune, chains=self.chains, cores=1, random_seed=seed,
                nuts_sampler="pymc", discard_tuned_samples=False, compute_convergence_checks=False,
                progressbar=False, quiet=True, idata_kwargs={"include_transformed": True},
            )  # fmt: skip
        wall = time.perf_counter() - begin
        posterior, kept = idata["posterior"], idata["sample_stats"]
        theta = _unconstrained(posterior, [v.name for v in model.value_vars])
        if theta.shape[:2] != (self.chains, self.draws):
            raise KeyboardInterrupt("interrupted before PyMC had made all draws")
        seconds = float(posterior.attrs["sampling_time"])
        warm_up = int(idata["warmup_sample_stats"]["n_steps"].sum())
        gradients = warm_up + int(kept["n_steps"].sum())
        return Fit(
            target=target,
            theta=theta,
            lp=target.log_density(theta.reshape(-1, theta.shape[-1])).reshape(theta.shape[:2]),
            seconds=seconds,
            compile_seconds=max(wall - seconds, 0.0),
            density_evaluations=gradients,
            gradient_evaluations=gradients,
            statistics={name: kept[name].values for name in ("diverging", "energy")},
            info={
                "engine": f"PyMC {version('pymc')}",
                "divergences": int(kept["diverging"].sum()),
                "warm_up_gradients": warm_up,
                "options": options_text(
                    chains=self.chains, draws=self.draws, tune=self.tune, nuts_sampler="pymc"
                ),
            },
        )


def _unconstrained(posterior: xr.Dataset, names: list[str]) -> Array:
    """Draws of the value variables, raveled in their order: θ (chains, draws, D)."""
    values = [np.asarray(posterior[name].values, dtype=float) for name in names]
    return np.concatenate([x.reshape(*x.shape[:2], -1) for x in values], axis=2)


SAMPLER_METHODS = (
    Method(
        "nutpie",
        "nutpie's own NUTS, 4 x (400 + 1000); needs nutpie",
        "pymc",
        NutpieDefault(),
        default=False,
        general=False,
        sampler=True,
    ),
    Method(
        "pymc-nuts",
        "PyMC's own NUTS, 4 x (1000 + 1000)",
        "pymc",
        PyMCNUTS(),
        default=False,
        general=False,
        sampler=True,
    ),
)
