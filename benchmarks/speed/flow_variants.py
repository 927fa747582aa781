"""Other ways to train a flow on its map, beside the way that was kept.

    python -m benchmarks.speed.flow_variants [--targets NAME ...] [--variants NAME ...] [--seeds 2]
        [--databases PATH ... --posteriors NAME ...] [--out FILE]

``kept`` is the product's. ``masked`` conditions only on what third-order moments E[r_i v_j v_k] of
the base show, r the score of log p̃(T(v)) + log|det ∂T| with v's own taken off: a pair (i, j) stays
where one of them is beyond four standard errors of 2,000 scores. ``growing`` takes the decay of
each block on twice the draws in half as many steps, ``controlled`` with the flow at its beginning
as a control variate (a second score of each draw, so half as many steps too): the same gradients.
``mirrored`` draws normals in pairs z, −z. All train on the same map, and are judged by the same
20,000 draws; differences of ELBOs have the standard error of paired draws. Each run is kept as it
ends. Run it with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.record import Runs
from benchmarks.speed.flows import found
from posteriordb_cases.zoo import ZOO
from pymc_ext.density import CountedDensity, Density
from pymc_ext.maths.types import Array
from pymc_ext.variational.bernstein.algorithm import Bernstein
from pymc_ext.variational.bernstein.flow import BernsteinFlow
from pymc_ext.variational.bernstein.training.loops import DensityLoop, LoopMaker
from pymc_ext.variational.bernstein.whitening import HIERARCHICAL
from pymc_ext.variational.core.algorithm import run_algorithm
from pymc_ext.variational.core.monitor import Monitor
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.gaussian.numbers import antithetic

RESULTS = Path(__file__).parent / "results" / "flow_variants.json"
TARGETS = ("banana-2", "banana-10", "product-0", "funnel-10", "horseshoe", "horseshoe-centred")
STEPS = 2_000
SCORES, SIGNIFICANT = 2_000, 4.0
FORGET, BATCHES = 0.95, 16  # of the control variate: of its coefficient, and batches of its mean
DRAWS, JUDGE = 20_000, 7
Numbers = dict[str, float | int | str]


# ---- variants --------------------------------------------------------------------------------


def masked(
    flow: BernsteinFlow, density: CountedDensity, options: StepOptions, rng: np.random.Generator
) -> DensityLoop:
    """Steps of a flow that conditions on the pairs alone that third-order moments show."""
    mask(flow, pairs(flow, density, rng))
    return DensityLoop(flow, density, options, rng)


class WithDecay(DensityLoop, ABC):
    """Steps that know when a block's decay begins, of which they take half as many."""

    resets = 0  # of the average in this block: at its beginning, and where the decay begins

    @property
    def average(self) -> Array:
        return super().average

    @average.setter
    def average(self, value: Array) -> None:
        self.resets += 1
        if self.resets == 2:
            self.begin_decay()
        DensityLoop.average.fset(self, value)  # type: ignore[attr-defined]

    @property
    def vector(self) -> Array:
        return super().vector

    @vector.setter
    def vector(self, value: Array) -> None:
        self.resets = 0  # a block ends where its average is put in place
        DensityLoop.vector.fset(self, value)  # type: ignore[attr-defined]

    def begin_decay(self) -> None:
        """What has to be known for it."""

    def run(self, steps: int, rate: float, weight: float) -> Array:
        if self.resets < 2:
            return super().run(steps, rate, weight)
        losses = self.decay((steps + 1) // 2, rate, weight)
        return np.repeat(losses, 2)[:steps]

    @abstractmethod
    def decay(self, steps: int, rate: float, weight: float) -> Array:
        """Steps for the gradients of twice as many."""


class Growing(WithDecay):
    """The decay on twice the draws."""

    def decay(self, steps: int, rate: float, weight: float) -> Array:
        draws, self.draws = self.draws, 2 * self.draws
        try:
            return DensityLoop.run(self, steps, rate, weight)
        finally:
            self.draws = draws


class Controlled(WithDecay):
    """The decay with the flow at its beginning as a control variate, its mean by some batches."""

    def begin_decay(self) -> None:
        self._anchor, self._top, self._below = self.average.copy(), 0.0, 0.0
        batches = self.rng.standard_normal((BATCHES, self.draws, self.flow.latent_dimension))
        self._mean = np.mean([self._at_anchor(z) for z in batches], axis=0)

    def _at_anchor(self, z: Array) -> Array:
        """The gradient there, (P,)."""
        here = self.flow.x.copy()
        self.flow.set(self._anchor)
        try:
            return DensityLoop.loss_and_gradient(self, z)[1].copy()
        finally:
            self.flow.set(here)

    def loss_and_gradient(self, z: Array) -> tuple[float, Array]:
        if self.resets < 2:
            return super().loss_and_gradient(z)
        known = self._at_anchor(z) - self._mean
        loss, gradient = super().loss_and_gradient(z)
        coefficient = np.clip(self._top / self._below, 0, 1) if self._below > 0 else 0.0
        self._top = FORGET * self._top + gradient @ known  # of batches before this one
        self._below = FORGET * self._below + known @ known
        return loss, gradient - coefficient * known

    def decay(self, steps: int, rate: float, weight: float) -> Array:
        return DensityLoop.run(self, steps, rate, weight)


class Mirrored(DensityLoop):
    """Steps on pairs of normals."""

    def _normals(self, steps: int) -> Array:
        size = (steps, self.draws // 2, self.flow.latent_dimension)
        z = self.rng.standard_normal(size)
        return np.concatenate([z, -z], axis=1)


VARIANTS: dict[str, LoopMaker] = {
    "kept": DensityLoop,
    "masked": masked,
    "growing": Growing,
    "controlled": Controlled,
    "mirrored": Mirrored,
}


def pairs(flow: BernsteinFlow, density: CountedDensity, rng: np.random.Generator) -> Array:
    """Whether component i depends on j < i in another way than the base says, (D, D) bool."""
    D = flow.dimension
    v = antithetic(rng, SCORES, D)
    theta, _, pullback = flow.base.forward_with_pullback(v)
    residual = pullback(density.log_density_gradient(theta)[1]) + v
    first, second = np.split(residual, 2)  # of v and −v: their mean is even in v
    usable = np.isfinite(first).all(axis=1) & np.isfinite(second).all(axis=1)
    even, v = (0.5 * (first + second))[usable], v[: SCORES // 2][usable]
    size = np.linalg.norm(even, axis=1)  # far out in a tail a score may be beyond all others
    even *= np.minimum(1, 10 * np.median(size) / np.maximum(size, np.finfo(float).tiny))[:, None]
    significant = np.zeros((D, D), bool)
    for i in range(D):
        before, r = v[:, : i + 1], even[:, i, None]
        mean, square = (r * before).T @ before, ((r * before) ** 2).T @ before**2
        own = r * (before**2 - 1)  # of E[r_i v_j²]: less what a mean of r_i alone makes
        np.fill_diagonal(mean, own.sum(axis=0))
        np.fill_diagonal(square, (own**2).sum(axis=0))
        error = np.sqrt(square - mean**2 / len(r))
        significant[i, :i] = (np.abs(mean) > SIGNIFICANT * error)[:i].any(axis=1)
    return significant


def mask(flow: BernsteinFlow, kept: Array) -> None:
    """Leave the flow's conditioning on ``kept`` (D, D) alone."""
    masks = flow.layout.masks(flow.values)
    for k, network in enumerate(flow.layout.networks):
        own = kept[network.first : network.inputs, : network.inputs].T
        for name in (f"skip_{k}", f"skip_scale_{k}"):
            if name in masks:
                masks[name] = masks[name] * own
        if f"W0_{k}" in masks:
            masks[f"W0_{k}"] = masks[f"W0_{k}"] * own.any(axis=1)[:, None]
            for head, width in network.heads.items():
                governed = np.repeat(own.any(axis=0), width)
                masks[f"W_{head}_{k}"] = masks[f"W_{head}_{k}"] * governed[None, :]
    flow.mask = np.concatenate([masks[name].ravel() for name, *_ in flow._spans])
    flow.set(flow.x.copy())


# ---- runs ------------------------------------------------------------------------------------


def made(density: Density, variants: Sequence[str], seed: int, steps: int) -> dict[str, Numbers]:
    """Of each variant on one map what it took, and its ELBO less that of the first."""
    start = np.zeros(density.dimension)
    with Monitor.silent() as monitor:
        q = run_algorithm(
            HIERARCHICAL.algorithm, CountedDensity(density), start,
            random_seed=seed, monitor=monitor,
        ).q  # fmt: skip
    runs, first = dict[str, Numbers](), None
    for variant in variants:
        begin = time.process_time()
        algorithm = Bernstein(base=q, polish=None, make_loop=VARIANTS[variant])
        with Monitor.silent() as monitor:
            fit = run_algorithm(
                algorithm, CountedDensity(density), start, steps, random_seed=seed, monitor=monitor
            )
        runs[variant] = numbers = {
            "dimension": density.dimension,
            "cpu_s": round(time.process_time() - begin, 2),
            "gradients": fit.result.gradient_evaluations,
            "steps": fit.result.iterations,
        }
        if variant == "masked":
            full = BernsteinFlow.of_parts(fit.q.to_parts()).mask.sum()
            numbers["weights_left"] = round(float(fit.q.mask.sum() / full), 3)
        ratios = log_ratios(density, fit.q)
        first = ratios if first is None else first
        inside = np.isfinite(ratios) & np.isfinite(first)
        gain = (ratios - first)[inside]
        numbers |= {
            "elbo": float(ratios[inside].mean()),
            "gain": float(gain.mean()),
            "gain_error": float(gain.std() / np.sqrt(len(gain))),
            "outside": int((~np.isfinite(ratios)).sum()),
        }
        weights = np.exp(ratios[inside] - ratios[inside].max())
        numbers["relative_ess"] = float(weights.sum() ** 2 / (weights**2).sum() / len(ratios))
    return runs


def log_ratios(density: Density, q: Posterior) -> Array:
    """Of the judging draws, (N,)."""
    z = np.random.default_rng(JUDGE).standard_normal((DRAWS, q.latent_dimension))
    theta, log_q = q.forward(z)
    with np.errstate(all="ignore"):
        return density.log_density(theta) - log_q


def report(runs: Mapping[str, Mapping[str, Numbers]]) -> None:
    """A line a target and seed: the first's ELBO, gains of the others in milli-nats."""
    for key, by_variant in runs.items():
        first, *others = by_variant.items()
        numbers = first[1]
        name, seed, *_ = key.split("/")
        line = f"{name:44.44} {seed} D {numbers['dimension']:4} {first[0]} {numbers['elbo']:11.3f}"
        line += f" {numbers['gradients']:7,} {numbers['cpu_s']:5.1f} s"
        for variant, n in others:
            gain = f"{1e3 * float(n['gain']):+.1f} ± {1e3 * float(n['gain_error']):.1f}"
            line += f" | {variant} {gain:>13} {n['gradients']:7,} {n['cpu_s']:5.1f} s"
        print(line)


def main() -> None:
    """Make what is missing, then print the table: gains in thousandths of a nat."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", nargs="*", default=list(TARGETS), choices=list(ZOO))
    parser.add_argument("--posteriors", nargs="*", default=[])
    parser.add_argument("--databases", nargs="*", type=Path, default=[])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    logging.getLogger("pymc_ext").setLevel(logging.ERROR)  # short budgets do not converge
    runs = Runs(arguments.out, "runs")
    asked = f"{arguments.steps}/{'+'.join(arguments.variants)}"
    for name in (*arguments.targets, *arguments.posteriors):
        density = ZOO[name].make() if name in ZOO else None
        if density is None:
            problem = found(name, arguments.databases)
            if problem is None:
                parser.error(f"no database of --databases has a Stan program of {name}")
            density = problem.stan_target.density
        for seed in range(1, arguments.seeds + 1):
            runs(f"{name}/{seed}/{asked}", made, density, arguments.variants, seed, arguments.steps)
    report(runs.made)


if __name__ == "__main__":
    main()
