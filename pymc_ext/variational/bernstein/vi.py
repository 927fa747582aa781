r"""Bernstein flow variational inference: ``pm.fit(20_000, method=BernsteinVI())``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import pymc as pm

from pymc_ext.maths.autoregressive import check_hidden
from pymc_ext.maths.bernstein_basis import check_order
from pymc_ext.variational.bernstein.approximation import BernsteinApproximation
from pymc_ext.variational.bernstein.group import CONDITIONING, INPUT_MAPS, TAILS
from pymc_ext.variational.bernstein.inference import FlowInference
from pymc_ext.variational.bernstein.latents import Latent, Normal, resolve_latent
from pymc_ext.variational.bernstein.polish.weighted import ImportanceWeighted
from pymc_ext.variational.bernstein.training.loops import LOOPS
from pymc_ext.variational.bernstein.training.trainer import OPTIMIZERS
from pymc_ext.variational.bernstein.whitening import check_base
from pymc_ext.variational.core.base import require_double_precision


class BernsteinVI(FlowInference):
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
        Widths of the hidden layers. Layers narrower than D − 1 condition in groups: each output
        then sees the first variables singly and the later ones coarsely, besides a linear term
        in all of them (``conditioning="latent"``), so that cost grows as D² at most.
    input_map
        ``"f1"``: σ(αv + β); ``"f2"``: σ(v); ``"f3"``: v itself, normal(0.5, 0.15) truncated to
        [1e-4, 1 − 1e-4].
    base
        Coordinates the flow works in, θ = μ + L y: ``"identity"`` (μ the initial point, L = I),
        ``"laplace"`` (the identity, with a warning, where there is no mode), ``"gaussian"`` (a
        full-rank Gaussian fitted by :class:`MixedVI`), ``"auto"`` (the one of these with the
        highest ELBO on fresh draws), or ``(mean, cov)`` on the unconstrained space in the model's
        order.
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
    polish
        A second phase that lowers k̂ at the price of a few hundredths of a nat of ELBO:
        ``"auto"`` runs it after a fit of at least 3000 steps, unless k̂ < 0.3 or the relative
        ESS > 0.999 already. It first tries longer tails of single latent variables, fitted to
        the importance weights, and latent variables a little wider than the ELBO makes them;
        then, where k̂ is still 0.4 or more, it trains on the importance-weighted bound with
        default settings, from the longest tails tried; what is best on fresh draws is kept.
        ``"widening"`` leaves out the training, which takes 768,000 gradients.
        :class:`ImportanceWeighted` settings run always, None never.
    optimizer, learning_rate
        ``"adam"`` or ``"rmsprop"``; full rate. ``pm.fit(obj_optimizer=...)`` replaces both.
    backend
        ``"pytensor"``, or ``"jax"``: whole blocks of steps in one compiled loop (callbacks are
        then called once a block of 100 steps), two to three times as fast and, on a machine whose
        PyTensor has not compiled such a flow before, ready in seconds instead of a minute. Up to
        some ten parameters JAX's threads cost more than they bring: set ``NPROC=1`` in the
        environment before Python starts.
    model, start, random_seed
        As :class:`LaplaceVI`; ``pm.fit`` ignores its own seed and start with an instance, and needs
        ``model=`` of its own outside ``with model:`` (``BernsteinVI(model=model).fit()`` does not).

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

    name = "bernstein"

    def __init__(
        self,
        order: int = 50,
        hidden: Sequence[int] = (10, 10),
        *,
        input_map: str = "f1",
        base: Any = "identity",
        latent: str | Latent = "normal",
        tails: str | None = None,
        conditioning: str = "hierarchical",
        ordering: Sequence[str] | None = None,
        polish: ImportanceWeighted | str | None = "auto",
        optimizer: str = "adam",
        learning_rate: float = 0.005,
        backend: str = "pytensor",
        model: pm.Model | None = None,
        start: Mapping[str, Any] | None = None,
        random_seed: int | None = None,
    ) -> None:
        require_double_precision(self)
        _one_of("input_map", input_map, INPUT_MAPS)
        latent = resolve_latent(latent)
        if tails is None:
            unbounded = "quadratic" if isinstance(latent, Normal) else "linear"
            tails = "bounded" if input_map == "f3" else unbounded
        _one_of("tails", tails, tuple(TAILS))
        _one_of("conditioning", conditioning, CONDITIONING)
        _one_of("optimizer", optimizer, OPTIMIZERS)
        _one_of("backend", backend, tuple(LOOPS))
        check_base(base)
        if not isinstance(polish, ImportanceWeighted):
            _one_of("polish", polish, ("auto", "widening", None))
        if not (isinstance(learning_rate, Real) and 0 < learning_rate < np.inf):
            raise ValueError(f"learning_rate must be > 0, got {learning_rate!r}")
        if isinstance(ordering, str):
            raise ValueError(f"ordering must be a sequence of names, got the text {ordering!r}")
        approx = BernsteinApproximation(
            model=model,
            start=start,
            random_seed=random_seed,
            order=check_order(order),
            hidden=check_hidden(hidden),
            input_map=input_map,
            latent=latent,
            tails=tails,
            conditioning=conditioning,
            ordering=ordering,
            whitened=not (isinstance(base, str) and base == "identity"),
        )
        super().__init__(
            approx,
            base=base,
            polish=polish,
            optimizer=optimizer,
            learning_rate=learning_rate,
            backend=backend,
            start=start,
            random_seed=random_seed,
        )
        if isinstance(base, str) and base != "identity":
            self.name = f"bernstein-{base}"


def _one_of(label: str, value: Any, allowed: Sequence[Any]) -> None:
    if value not in allowed:
        raise ValueError(f"{label} must be one of {tuple(allowed)}, got {value!r}")
