r"""Bernstein flow variational inference: ``pm.fit(20_000, method=BernsteinVI())``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pymc as pm
from numpy.typing import NDArray

from pymc_ext.variational.bernstein.algorithm import Bernstein, FittedFlow
from pymc_ext.variational.bernstein.approximation import BernsteinApproximation
from pymc_ext.variational.bernstein.group import BernsteinGroup
from pymc_ext.variational.bernstein.polish.weighted import Polish, PolishOption
from pymc_ext.variational.bernstein.shape import FlowShape, one_of
from pymc_ext.variational.bernstein.whitening import Base
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.approximation import VectorisedApproximation
from pymc_ext.variational.core.options import refuse_unknown, settings_from
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.core.stochastic_vi import StochasticVI
from pymc_ext.variational.core.types import Start

Array = NDArray[np.floating]
BACKENDS = ("pytensor", "jax")


class BernsteinVI(StochasticVI):
    r"""Bernstein flow variational inference as a PyMC inference.

    .. math:: \theta_j = \mu + L y,\quad y_j = \vartheta^j_0 + \sum_{k=1}^M
        \mathrm{softplus}(\vartheta'^j_k) P(\mathrm{Bin}(M, \sigma(x_j)) \ge k) + \text{tails},
        \quad x = \alpha v + \beta

    with coefficients :math:`\vartheta^j` from a masked network of the components before j. Trained
    on the ELBO of the **unconstrained** posterior (with the log-Jacobian) by Adam at full rate
    until the ELBO on fresh draws levels off, then with a cosine decay; the average of the last
    iterates is kept. ``n`` of ``pm.fit`` bounds the steps; ``obj_n_mc`` (10) is the number of
    draws in each.

    Parameters
    ----------
    order
        M, 1..1000. More never hurts the fit, only the speed.
    hidden
        Widths of the hidden layers; None: two of 2 D units, at least 10 and at most 32. Layers
        narrower than D − 1 condition in groups: each output then sees the first variables singly
        and the later ones coarsely, besides a linear term in all of them
        (``conditioning="latent"``), so that cost grows as D² at most.
    base
        Coordinates the flow works in, θ = μ + L y: ``"identity"`` (μ the initial point, L = I),
        ``"laplace"`` (the identity, with a warning, where there is no mode), ``"gaussian"`` (a
        full-rank Gaussian fitted by :class:`MixedVI`), ``"auto"`` (the one of these with the
        highest ELBO on fresh draws), or ``(mean, cov)`` on the unconstrained space in the model's
        order.
    polish
        A second phase that lowers k̂ at the price of a few hundredths of a nat of ELBO:
        ``"auto"`` runs it after a fit of at least 3000 steps, unless k̂ < 0.3 or the relative
        ESS > 0.999 already. It first tries longer tails of single latent variables, fitted to
        the importance weights, and latent variables a little wider than the ELBO makes them;
        then, where k̂ is still 0.4 or more, it trains on the importance-weighted bound with
        default settings, from the longest tails tried; what is best on fresh draws is kept.
        ``"widening"`` leaves out the training, which takes 768,000 gradients.
        :class:`ImportanceWeighted` settings run always, None never; a :class:`Polish` says each
        of these. Nothing is kept that makes q worse, in its ELBO or an sd, than the base.
    model, start, random_seed
        As :class:`LaplaceVI`; ``pm.fit`` ignores its own seed and start with an instance, and needs
        ``model=`` of its own outside ``with model:`` (``BernsteinVI(model=model).fit()`` does not).
    settings
        ``shape``, a :class:`FlowShape`, or singly its other fields ``input_map``, ``latent``,
        ``tails``, ``conditioning``, ``ordering``; ``optimizer``, ``learning_rate`` and ``backend``:
        see Other parameters.

    Other Parameters
    ----------------
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
    optimizer, learning_rate
        ``"adam"`` or ``"rmsprop"``; full rate. ``pm.fit(obj_optimizer=...)`` replaces both.
    backend
        ``"pytensor"``, or ``"jax"``: whole blocks of steps in one compiled loop (callbacks are
        then called once a block of 100 steps), up to twice as fast where JAX can trace the
        model. Up to
        some ten parameters JAX's threads cost more than they bring: set ``NPROC=1`` in the
        environment before Python starts.

    Raises
    ------
    ValueError
        An option is out of range; the model has no free, or a discrete, variable; log p̃ is not
        finite at the start.

    Notes
    -----
    Like every fit that minimises KL(q‖p), it may settle in one of several well separated modes,
    which neither the ELBO nor k̂ of its own draws can show: compare seeds, starts or
    :class:`MixtureVI` where there may be several. ``approx.stages`` tells ELBO, k̂ and effective
    sample size after each phase (fits of fewer than 3000 steps have none), and a callback gets the
    approximation, all losses so far, and the number of steps.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(20_000, method=px.BernsteinVI(base="laplace", random_seed=1))
    >>> approx.result.converged, approx.result.elbo

    References
    ----------
    Dürr et al. (2024), Bernstein Flows for Flexible Posteriors in Variational Bayes,
    arXiv:2202.05650.
    """

    algorithm: Bernstein

    def __init__(
        self,
        order: int = 50,
        hidden: Sequence[int] | None = None,
        *,
        base: Base = "identity",
        polish: PolishOption = "auto",
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
        **settings: object,
    ) -> None:
        given = settings_from(FlowShape(), settings, "shape")
        shape = replace(given, order=order, hidden=hidden) if order != 50 or hidden else given
        self.backend = settings.pop("backend", "pytensor")
        one_of("backend", self.backend, BACKENDS)
        step = step_from(settings)
        refuse_unknown(type(self), settings)
        algorithm = Bernstein(shape, base=base, polish=polish, step=step)
        super().__init__(
            algorithm,
            BernsteinGroup,
            model=model,
            start=start,
            random_seed=random_seed,
            approximation=BernsteinApproximation,
            shape=shape,
            whitened=not (isinstance(base, str) and base == "identity"),
        )

        if self.backend == "jax":
            from pymc_ext.variational.bernstein.training.jax_loop import JaxLoop

            self.algorithm = replace(algorithm, make_loop=partial(JaxLoop, self.approx))

    def refine(self, n: int, progressbar: bool = True, progressbar_theme: object = None) -> None:
        """Continue the ELBO training from the present parameters for at most ``n`` steps."""
        if self.state is None:
            raise TypeError("call fit before refine")
        super().refine(n, progressbar, progressbar_theme)

    def _run(self, n: int, score: bool, progressbar: bool) -> VectorisedApproximation:
        polish = self.algorithm.polish
        if isinstance(polish, Polish) and polish.always:
            self.approx.require_exact_logp()
        return super()._run(n, score, progressbar)

    def keep(self, fitted: Fitted[Posterior]) -> None:
        if isinstance(fitted, FittedFlow):
            self.approx.stages = fitted.stages


def step_from(settings: dict[str, object]) -> StepOptions:
    """Optimiser and learning rate of a step, taken out of ``settings``."""
    default = StepOptions()
    rate = settings.pop("learning_rate", default.learning_rate)
    if not (isinstance(rate, int | float | np.number) and 0 < rate < np.inf):
        raise ValueError(f"learning_rate must be > 0, got {rate!r}")
    optimizer = settings.pop("optimizer", default.optimizer)
    return StepOptions(optimizer=str(optimizer), learning_rate=float(rate))
