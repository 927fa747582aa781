"""Methods of BlackJAX: Gaussian VI, mean-field and full-rank, multi-path Pathfinder, and Stein's
method."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from bridge.methods.method import Fit, LogDensity, Problem
from bridge.methods.peers.shared import compiled, fit_of, imported, in_jax, peer, quiet, starts
from pymc_ext.density import CountedDensity
from pymc_ext.maths.types import Array

__all__ = ["BLACKJAX_METHODS", "GaussianVI", "Pathfinder", "SteinVI"]

PACKAGE = "blackjax"
UNKNOWN = {
    "trusted": False,
    "verdict": "not trusted: particles have no log q and are not independent; nothing tells what "
    "they miss",
    **dict.fromkeys(("ess", "ess_per_gradient")),  # of chains
}


@dataclass(frozen=True)
class GaussianVI:
    """Run of a method: ``blackjax.meanfield_vi`` or ``fullrank_vi``.

    Its own defaults: 100 draws a step, the ELBO, gradients that stick to the landing. It has none
    for optimiser and number of steps: here Adam with steps of 0.01, as in NumPyro's example
    ``neutra``, and as many steps as make 200,000 gradients, those of our flows.

    Parameters
    ----------
    family
        Which of the two.
    steps, samples, step_size
        Steps, draws of each, and Adam's step size.

    References
    ----------
    https://github.com/blackjax-devs/blackjax
    """

    family: Literal["meanfield_vi", "fullrank_vi"]
    steps: int = 2_000
    samples: int = 100
    step_size: float = 0.01

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Fit q and make ``draws`` draws of it.

        Raises
        ------
        ImportError
            BlackJAX is not installed.
        NoModelError
            There is no JAX function of log p̃.
        RuntimeError
            The fit ran away.
        """
        blackjax, optax = imported("blackjax", PACKAGE), imported("optax", PACKAGE)
        target, log_density = in_jax(problem)
        import jax

        algorithm = getattr(blackjax, self.family)(
            log_density, optax.adam(self.step_size), self.samples
        )

        def steps(keys: jax.Array) -> tuple[Any, jax.Array]:
            def one(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
                state, info = algorithm.step(key, state)
                return state, info.elbo  # the loss, −ELBO, whatever its name

            begin = algorithm.init(jax.numpy.zeros(target.dimension))
            return jax.lax.scan(one, begin, keys)

        fit_key, draw_key = jax.random.split(jax.random.key(seed))
        with quiet(PACKAGE):
            keys = jax.random.split(fit_key, self.steps)
            (state, losses), compile_seconds, seconds = compiled(steps, keys)
            theta = np.array(algorithm.sample(draw_key, state, draws), dtype=float)
            log_q = self._log_q(state)
            lq = log_q(theta)
        return fit_of(
            target,
            theta,
            lq,
            package=PACKAGE,
            seconds=seconds,
            compile_seconds=compile_seconds,
            options={**asdict(self), "optimizer": "adam"},
            log_q=log_q,
            gradients=self.steps * self.samples,
            losses=np.array(losses, dtype=float),
        )

    def _log_q(self, state: Any) -> LogDensity:
        import jax

        home = imported(f"blackjax.vi.{self.family}", PACKAGE)
        if self.family == "meanfield_vi":
            of_point = home.generate_meanfield_logdensity(state.mu, state.rho)
        else:
            of_point = home.generate_fullrank_logdensity(state.mu, state.chol_params)
        rows = jax.jit(jax.vmap(of_point))

        def log_q(theta: Array) -> Array:
            return np.array(rows(theta), dtype=float)

        return log_q


@dataclass(frozen=True)
class Pathfinder:
    """Run of a method: BlackJAX's multi-path Pathfinder.

    Its own defaults: 200 draws for each ELBO, L-BFGS of 30 iterations at most, 10 corrections. It
    has none for the paths: here four, uniformly from (−2, 2) unconstrained, as Stan's are. Draws
    are taken of every path's Gaussian, in equal parts, without its importance resampling, whose
    draws have no density; log q is that of the path, as in its weights. Gradients are not counted:
    it does not tell them.

    Parameters
    ----------
    paths
        How many; those without a finite ELBO are left out.

    References
    ----------
    Zhang, Carpenter, Gelman & Vehtari (2022), JMLR 23(306).
    https://github.com/blackjax-devs/blackjax
    """

    paths: int = 4

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Fit q and make ``draws`` draws of it.

        Raises
        ------
        ImportError
            BlackJAX is not installed.
        NoModelError
            There is no JAX function of log p̃.
        RuntimeError
            All paths failed.
        """
        imported("blackjax", PACKAGE)
        home = imported("blackjax.vi.multipathfinder", PACKAGE)
        target, log_density = in_jax(problem)
        import jax

        def run(key: jax.Array, begin: jax.Array) -> Any:
            return home.multi_approximate(key, log_density, begin)[0].path_states

        fit_key, draw_key = jax.random.split(jax.random.key(seed))
        with quiet(PACKAGE):
            begin = jax.numpy.asarray(starts(self.paths, target.dimension, seed))
            found, compile_seconds, seconds = compiled(run, fit_key, begin)
            good = np.flatnonzero(np.isfinite(np.asarray(found.elbo)))
            if not len(good):
                raise RuntimeError(
                    f"all {self.paths} paths of BlackJAX's Pathfinder failed: no ELBO is finite; "
                    "try another method"
                )
            each = -(-draws // len(good))
            parts = [
                home.sample(key, jax.tree.map(lambda x, i=i: x[i], found), each)
                for i, key in zip(good, jax.random.split(draw_key, len(good)), strict=True)
            ]
        theta, lq = (
            np.concatenate([np.array(x) for x in part]) for part in zip(*parts, strict=True)
        )
        # in random order, so that every batch that is judged has draws of all paths
        order = np.random.default_rng(seed).permutation(len(lq))[:draws]
        return fit_of(
            target,
            theta[order],
            lq[order],
            package=PACKAGE,
            seconds=seconds,
            compile_seconds=compile_seconds,
            options=asdict(self),
            info={"paths": len(good)},
        )


@dataclass(frozen=True)
class SteinVI:
    """Run of a method: ``blackjax.svgd``, Stein variational gradient descent.

    Its own default kernel, a Gaussian one as wide as the median distance says. It has none for
    particles, optimiser and steps: here as many of each as for :class:`GaussianVI`, uniformly from
    (−2, 2) unconstrained at first. The particles are all the draws that it gives. They have no
    log q and are not independent, so that nothing here can judge them: they are never trusted, and
    errors of moments say what they are worth. `bridge.calibrate` ranks among 199 draws: take
    ``particles=199`` for it.

    Parameters
    ----------
    particles, steps, step_size
        Draws, and Adam's steps with their size.

    References
    ----------
    Liu & Wang (2016), arXiv:1608.04471.
    https://github.com/blackjax-devs/blackjax
    """

    particles: int = 100
    steps: int = 2_000
    step_size: float = 0.01

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Move the particles; ``draws`` are of no meaning here.

        Raises
        ------
        ImportError
            BlackJAX is not installed.
        NoModelError
            There is no JAX function of log p̃.
        DensityError
            log p̃ is finite nearly nowhere where particles start.
        RuntimeError
            A particle ran away, or left the support.
        """
        blackjax, optax = imported("blackjax", PACKAGE), imported("optax", PACKAGE)
        target, log_density = in_jax(problem)
        import jax

        from pymc_ext.sampling.attempts import points_inside  # with SciPy, for no list of methods

        algorithm = blackjax.svgd(jax.grad(log_density), optax.adam(self.step_size))

        def steps(begin: jax.Array) -> jax.Array:
            state = algorithm.init(begin, {"length_scale": jax.numpy.ones(())})

            def one(state: Any, _: None) -> tuple[Any, None]:
                return algorithm.step(state), None

            return jax.lax.scan(one, state, None, length=self.steps)[0].particles

        with quiet(PACKAGE):
            rng, density = np.random.default_rng(seed), CountedDensity(target.density)
            begin = jax.numpy.asarray(points_inside(density, self.particles, rng))
            found, compile_seconds, seconds = compiled(steps, begin)
        return fit_of(
            target,
            np.array(found, dtype=float),
            None,
            package=PACKAGE,
            seconds=seconds,
            compile_seconds=compile_seconds,
            options={**asdict(self), "optimizer": "adam"},
            gradients=self.steps * self.particles,
            info=UNKNOWN,
        )


BLACKJAX_METHODS = (
    peer(
        "blackjax-meanfield",
        "mean-field VI of BlackJAX, 2,000 steps",
        PACKAGE,
        GaussianVI("meanfield_vi"),
    ),
    peer(
        "blackjax-fullrank",
        "full-rank VI of BlackJAX, 2,000 steps",
        PACKAGE,
        GaussianVI("fullrank_vi"),
    ),
    peer("blackjax-pathfinder", "Pathfinder of BlackJAX, 4 paths", PACKAGE, Pathfinder()),
    peer(
        "blackjax-svgd",
        "Stein's method of BlackJAX, 100 particles, 2,000 steps",
        PACKAGE,
        SteinVI(),
        sampler=True,
    ),
)
