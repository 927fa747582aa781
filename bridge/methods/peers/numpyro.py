"""Methods of NumPyro: its automatic guides, fitted by stochastic VI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bridge.methods.method import Fit, LogDensity, Problem
from bridge.methods.peers.shared import (
    DRAWS_TOGETHER,
    compiled,
    fit_of,
    imported,
    in_jax,
    peer,
    quiet,
)
from pymc_ext.maths.types import Array

if TYPE_CHECKING:
    import jax

    from pymc_ext.density.in_jax import JaxLogDensity

__all__ = ["NUMPYRO_METHODS", "Guide"]

PACKAGE = "numpyro"


@dataclass(frozen=True)
class Guide:
    """Run of a method: a guide of ``numpyro.infer.autoguide``, at the defaults of its class.

    These are: a start uniform on (−2, 2) with sds of 0.1 (both flows: near the identity);
    AutoLowRankMultivariateNormal of rank √D; AutoIAFNormal of 3 flows with two hidden layers of D;
    AutoBNAFNormal of one flow with hidden factors 8, 8; AutoDAIS with 4 steps and a diagonal base.
    The loss is NumPyro's own Trace_ELBO of one draw. It has no default of optimiser and steps: here
    Adam with steps of 0.01 and 20,000 of them, as in its example ``neutra``, and as many as PyMC's
    ADVI takes here.

    log q of a draw is what that ELBO takes, of AutoDAIS hence of all its auxiliary variables
    together: its weights are proper and its ELBO is a bound, but KL(q‖p) is one from above. log q
    at other points is given by those guides that have it: not by AutoBNAFNormal and AutoDAIS.

    Parameters
    ----------
    guide
        Name of its class.
    steps, step_size
        Of Adam.
    gradients_a_step, gradients_a_draw
        Gradients of log p̃ in a step, and in a draw from q: of AutoDAIS the 4 of its transitions,
        and in a step that of its end. That a step differentiates the 4 again is not counted.

    References
    ----------
    https://num.pyro.ai/en/stable/autoguide.html
    """

    guide: str
    steps: int = 20_000
    step_size: float = 0.01
    gradients_a_step: int = 1
    gradients_a_draw: int = 0

    def __call__(self, problem: Problem, draws: int, seed: int) -> Fit:
        """Fit q and make ``draws`` draws of it.

        Raises
        ------
        ImportError
            NumPyro is not installed.
        NoModelError
            There is no JAX function of log p̃.
        ValueError
            The guide is not for so few parameters.
        RuntimeError
            log p̃ is finite nowhere where it starts, or the fit ran away.
        """
        numpyro, infer = imported("numpyro", PACKAGE), imported("numpyro.infer", PACKAGE)
        target, log_density = in_jax(problem)
        import jax

        model = _model(log_density, target.dimension)
        guide = getattr(infer.autoguide, self.guide)(model)
        adam = numpyro.optim.Adam(self.step_size)
        svi = infer.SVI(model, guide, adam, infer.Trace_ELBO())

        def steps(state: Any) -> Any:
            return jax.lax.scan(lambda s, _: svi.update(s), state, None, length=self.steps)

        fit_key, draw_key = jax.random.split(jax.random.key(seed))
        with quiet(PACKAGE):
            (state, losses), compile_seconds, seconds = compiled(steps, svi.init(fit_key))
            params = svi.get_params(state)
            theta, lq = _drawn(guide, params, draw_key, draws)
            log_q = _log_q(guide, params)
        return fit_of(
            target,
            theta,
            lq,
            package=PACKAGE,
            seconds=seconds,
            compile_seconds=compile_seconds,
            options={**asdict(self), "optimizer": "adam"},
            log_q=log_q,
            gradients=self.steps * self.gradients_a_step + draws * self.gradients_a_draw,
            losses=np.array(losses, dtype=float),
        )


def _model(log_density: JaxLogDensity, dimension: int) -> Callable[[], None]:
    """NumPyro's model of a density on R^D: flat, with log p̃ as a factor."""
    import numpyro
    from numpyro import distributions as dist

    def model() -> None:
        flat = dist.ImproperUniform(dist.constraints.real_vector, (), (dimension,))
        numpyro.factor("log_p", log_density(numpyro.sample("theta", flat)))

    return model


def _drawn(guide: Any, params: Any, key: jax.Array, draws: int) -> tuple[Array, Array]:
    """θ (N, D) and log q (N,), as the guide's own trace has them."""
    import jax
    from numpyro.handlers import seed
    from numpyro.infer.util import log_density

    def one(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        log_q, trace = log_density(seed(guide, key), (), {}, params)
        return trace["theta"]["value"], log_q

    keys = jax.random.split(key, draws)
    theta, log_q = jax.jit(lambda k: jax.lax.map(one, k, batch_size=DRAWS_TOGETHER))(keys)
    return np.array(theta, dtype=float), np.array(log_q, dtype=float)


def _log_q(guide: Any, params: Any) -> LogDensity | None:
    """log q at any point, where the guide has it."""
    import jax
    from numpyro import distributions as dist

    if type(guide).__name__ == "AutoNormal":  # which has no get_posterior
        law = dist.Normal(params["theta_auto_loc"], params["theta_auto_scale"]).to_event(1)
    else:
        try:
            law = guide.get_posterior(params)
            law.log_prob(jax.numpy.zeros(guide.latent_dim))
        except NotImplementedError:
            return None
    rows = jax.jit(jax.vmap(law.log_prob))

    def log_q(theta: Array) -> Array:
        return np.array(rows(theta), dtype=float)

    return log_q


def _guide(name: str, guide: str, **counts: int) -> tuple[str, str, str, Guide]:
    return name, f"{guide} of NumPyro, 20,000 steps", PACKAGE, Guide(guide, **counts)


NUMPYRO_METHODS = tuple(
    peer(*described)
    for described in (
        _guide("numpyro-normal", "AutoNormal"),
        _guide("numpyro-mvn", "AutoMultivariateNormal"),
        _guide("numpyro-lowrank", "AutoLowRankMultivariateNormal"),
        _guide("numpyro-iaf", "AutoIAFNormal"),
        _guide("numpyro-bnaf", "AutoBNAFNormal"),
        _guide("numpyro-dais", "AutoDAIS", gradients_a_step=5, gradients_a_draw=4),
    )
)
