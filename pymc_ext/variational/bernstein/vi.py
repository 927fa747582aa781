r"""Bernstein flow variational inference: ``pm.fit(20_000, method=BernsteinVI())``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

import pymc as pm

from pymc_ext.density.model import PyMCDensity
from pymc_ext.variational.bernstein.algorithm import Bernstein, FittedFlow
from pymc_ext.variational.bernstein.approximation import BernsteinApproximation, BernsteinGroup
from pymc_ext.variational.bernstein.polish.weighted import Polish, PolishOption
from pymc_ext.variational.bernstein.shape import FlowShape, one_of
from pymc_ext.variational.bernstein.whitening import BaseOption, Identity, base_of
from pymc_ext.variational.core.algorithm import Fitted
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.core.steps import StepOptions
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.stochastic_vi import StochasticVI
from pymc_ext.variational.plugin.types import Start

BACKENDS = ("pytensor", "jax")


def _of_graph(base: BaseOption | None) -> BaseOption:
    """The base that JAX takes; ValueError where it would have no graph of it."""
    if base is None:
        return "identity"
    if base_of(base).may_be_map:
        shown = base if isinstance(base, str) else type(base).__name__
        raise ValueError(
            f"base={shown!r} may be a hierarchical map, of which there is no graph for JAX: use "
            "base='match', or backend='pytensor'"
        )
    return base


def _refuse_callbacks(model: pm.Model) -> None:
    """ValueError where a prior of the model calls back to Python, which JAX cannot trace."""
    from pymc_ext.variational.prior import carried_by, is_linear  # not a file of every fit's

    for name, carried in carried_by(model).items():
        if not is_linear(carried):
            raise ValueError(
                f"the prior behind {name!r} is a {type(carried.q).__name__}, whose map JAX cannot "
                "trace: leave out backend='jax', or make the prior of a fit by px.BatchMatchVI()"
            )


class BernsteinVI(StochasticVI):
    r"""Bernstein flow variational inference as a PyMC inference.

    .. math:: \theta = B(y),\quad y_j = \vartheta^j_0 + \sum_{k=1}^M
        \mathrm{softplus}(\vartheta'^j_k) P(\mathrm{Bin}(M, \sigma(x_j)) \ge k) + \text{tails},
        \quad x = \alpha v + \beta

    with coefficients :math:`\vartheta^j` from a masked network of the components before j. Trained
    on the ELBO of the **unconstrained** posterior (with the log-Jacobian) by Adam. On a fitted
    base: no step where that leaves less than .002 nats to gain, else 250 steps and then as many
    again as were taken, half at full rate, half with a cosine decay whose average is kept, until
    such a block gains less than .002 nats or its error on the same unseen draws (two in a row,
    where more than .02 are left). From the identity, full rate until the ELBO levels off, then the
    decay; on ``pm.Minibatch`` data all ``n`` steps, .7 of them at full rate, as the losses of
    batches do not tell when it is level. ``n`` of ``pm.fit`` bounds the steps;
    ``obj_n_mc`` (10) is the number of draws in each. Gradients are path gradients (Roeder et al.
    2017, arXiv:1703.09194), whose noise vanishes as q comes close; their triangular solve costs
    some D times a hidden layer's products, and makes a step 1.1 to 1.6 times as long.
    ``StepOptions(gradient="total")`` is the usual estimator, which fixed draws take.

    Parameters
    ----------
    shape
        What the flow is made of: order, network, latent law, tails, conditioning.
    base
        Coordinates the flow works in, θ = B(y): ``"hierarchical"`` (the map of
        :class:`HierarchicalVI`, whose order of conditioning the flow takes), ``"match"``
        (θ = μ + L y, the Gaussian of :class:`BatchMatchVI`), ``"laplace"`` (``"match"``, with a
        warning, where there is no mode), ``"identity"`` (the initial point plus y), ``"auto"`` (the
        one of these with the highest ELBO on fresh draws: the bases are compared, not the flows on
        them, of which another may end higher), ``(mean, cov)`` on the unconstrained
        space in the model's order, or a q fitted to this model (``approx.q`` of
        :class:`BatchMatchVI` or :class:`HierarchicalVI`). None is ``"hierarchical"``, and
        ``"identity"`` where there is no map: with ``pm.Minibatch``, ``more_obj_params``, an
        ``ordering`` or JAX, or where it failed, which the notes say. Where training ran away or
        leaves the ELBO below the base's by more than Monte Carlo error, q is the base, and the
        notes say so.
    polish
        Whether a second phase makes a *proposal* beside q, for importance weights and nothing
        else (``approx.proposal``, ``approx.weighted_draws``): its k̂ is lower, its ELBO too by a
        few hundredths of a nat; draws, moments and ELBO stay q's. After blocks on a fitted base
        ``"auto"`` takes the mixture with heavier tails of :class:`HierarchicalVI`, without a
        gradient, unless q's own draws are worth .98 of their number: half the mixture is wider than
        q, and its draws are worth .9 where q is exact. Where q's own weights serve and hardly
        differ and the proposal's do not serve, ``approx.result`` and :func:`pymc_ext.diagnose`
        judge q by its own.
        Else it runs after a fit of at least 3000 steps, unless k̂ < 0.3 or the relative
        ESS > 0.999 already: it tries longer tails of single latent variables, fitted to the
        importance weights, and latent variables a little wider than the ELBO makes them, for
        values of log p̃ alone; what is best on fresh draws is the proposal. ``"widening"`` does
        this on any base. ``"weighted"`` goes on where k̂ is still 0.4 or more and trains on the
        importance-weighted bound with default settings, for 768,000 gradients, from the longest
        tails tried. :class:`ImportanceWeighted` settings run always, None never; a
        :class:`Polish` says each of these.
    step
        Optimiser and full learning rate, which ``pm.fit(obj_optimizer=...)`` replaces, and draws
        of a step, which ``obj_n_mc`` does. On a fitted base of D > 10 coordinates the rate is 10/D
        of the full one.
    backend
        ``"pytensor"``, or ``"jax"``: whole blocks of steps in one compiled loop (callbacks are
        then called after up to 100 steps), up to twice as fast where JAX can trace the
        model. It starts from the identity unless ``base="match"`` or another Gaussian is given, and
        wants thousands of steps then. Up to some ten parameters JAX's threads cost more than they
        bring: set ``NPROC=1`` in the environment before Python starts.
    model, start, random_seed
        As :class:`LaplaceVI`; ``pm.fit`` ignores its own seed and start with an instance, and needs
        ``model=`` of its own outside ``with model:`` (``BernsteinVI(model=model).fit()`` does not).

    Raises
    ------
    ValueError
        An option is out of range; JAX cannot trace a prior of the model; the model has no free, or
        a discrete, variable; log p̃ is not finite at the start.

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
    ...     approx = pm.fit(20_000, method=px.BernsteinVI(random_seed=1))
    >>> approx.result.converged, approx.result.elbo

    References
    ----------
    Dürr et al. (2024), Bernstein Flows for Flexible Posteriors in Variational Bayes,
    arXiv:2202.05650.
    """

    parts: ClassVar[Mapping[str, type]] = {"shape": FlowShape, "step": StepOptions}
    algorithm: Bernstein

    def __init__(
        self,
        shape: FlowShape | None = None,
        *,
        base: BaseOption | None = None,
        polish: PolishOption = "auto",
        step: StepOptions | None = None,
        backend: str = "pytensor",
        model: pm.Model | None = None,
        start: Start | None = None,
        random_seed: int | None = None,
    ) -> None:
        one_of("backend", backend, BACKENDS)
        self.backend = backend
        shape = FlowShape() if shape is None else shape
        step = StepOptions() if step is None else step
        if backend == "jax":
            base = _of_graph(base)
        algorithm = Bernstein(shape, base=base, polish=polish, step=step)
        super().__init__(
            algorithm,
            BernsteinGroup,
            model=model,
            start=start,
            random_seed=random_seed,
            approximation=BernsteinApproximation,
            shape=shape,
        )
        if backend == "jax":
            _refuse_callbacks(self.approx.model)
        # thousands of steps from the identity, few on a fitted map
        if isinstance(algorithm.base_asked_for, Identity):
            self.approx.use_density(partial(PyMCDensity, interpreted=False))
        if backend == "jax":
            from pymc_ext.variational.bernstein.training.jax_loop import JaxLoop

            self.algorithm = replace(algorithm, make_loop=JaxLoop)

    def refine(self, n: int, progressbar: bool = True, progressbar_theme: object = None) -> None:
        """Continue the ELBO training from the present parameters for at most ``n`` steps.

        Raises
        ------
        TypeError
            There has been no fit.
        """
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
