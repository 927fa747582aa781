"""``px.sample``: chains in the coordinates of what ``pm.fit`` gave, as ``pm.sample`` gives them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm

from pymc_ext.arviz_versions import ArvizData
from pymc_ext.density import TransportMap
from pymc_ext.density.coordinates import as_transport
from pymc_ext.interrupts import Interrupts, interrupt_says
from pymc_ext.maths.types import Array
from pymc_ext.options import require_flag
from pymc_ext.sampling.images import images_among
from pymc_ext.sampling.installed import installed_sampler
from pymc_ext.sampling.modes import modes_outside, through_modes
from pymc_ext.sampling.named import OfApproximation
from pymc_ext.sampling.options import BUDGET, Sampling
from pymc_ext.sampling.prediction import chain_gradients
from pymc_ext.sampling.progress import at_work, now
from pymc_ext.sampling.protocol import Sampler
from pymc_ext.sampling.result import Sampled
from pymc_ext.sampling.run import NOTHING_DRAWN, require_sampler
from pymc_ext.sampling.run import sample as sample_density
from pymc_ext.sampling.starts import MOST_IN_MODES
from pymc_ext.sampling.tails import with_tails
from pymc_ext.seeds import check_seed
from pymc_ext.variational.core.posterior import Posterior, moment
from pymc_ext.variational.core.saved.posterior import TO_ITS_MODEL, SavedPosterior
from pymc_ext.variational.gaussian.posteriors import Gaussian
from pymc_ext.variational.missed.missed_mass import MissedMass
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.traces import check_conversion, check_log_names

logger = logging.getLogger(__name__)

UNSEARCHED = "modes outside the approximation were not looked for (search=False)"


def sample(
    approx: VectorisedApproximation,
    *,
    ess: float = 400,
    budget: int = BUDGET,
    chains: int | None = None,
    target_accept: float = 0.8,
    extra_starts: Array | None = None,
    search: bool = True,
    sampler: Sampler | None = None,
    random_seed: int | None = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> ArvizData:
    r"""Exact draws from the posterior of a model, by chains in an approximation's coordinates.

    Chains start at weighted draws of q and draw in blocks until bulk and tail ESS of every
    variable and of log p̃ reach ``ess``; see `pymc_ext.sampling.run.sample`. They are of Hamiltonian
    Monte Carlo, eight in step, and where that does not serve of NUTS. A q that does not serve
    as coordinates lends its mean and covariance: mixtures, and flows with bounded tails or a
    Student-t latent law. Chains from one q agree on the mode that q has, whatever lies elsewhere:
    paths from 34 points search for more, and a chain starts in each mode that they find. Where
    these are images of q's, as the orders of a mixture's labels are, chains run in that one, and
    each draw is put into one of the orders at random.

    Parameters
    ----------
    approx
        What ``pm.fit`` returned with a method of this package.
    ess
        Effective draws wanted of every variable; at most ``budget``.
    budget
        Gradients after which no further block begins.
    chains
        How many start from q; by default eight of HMC, four of a sampler.
    target_accept
        Acceptance rate that step sizes are adapted to.
    extra_starts
        (M, D), or one (D,), unconstrained: more chains from there, such as other basins.
    search
        Whether to look for modes outside q first, for some hundred to some thousand gradients.
    sampler
        What makes the chains, in place of HMC. By default that is tried first, then nutpie, and
        where nutpie is not installed PyMC's own NUTS, some times as slow.
    random_seed
        Of everything: None or an integer from 0 to 2³² − 1.
    progressbar
        Whether a line says how far it is.
    kwargs
        Go to ``pm.to_inference_data`` (``include_transformed=True``, ``log_likelihood=True``, ...).

    Returns
    -------
    InferenceData (PyMC 6: DataTree)
        As ``pm.sample`` gives it; ``sample_stats`` has lp, acceptance_rate, step_size, n_steps,
        diverging, energy, and of NUTS tree_depth. The attributes of ``posterior`` say whether it is
        ``trusted``, the ``reasons`` if not, and what was spent: ``gradient_evaluations``, and apart
        from these ``approximation_gradients`` and ``search_gradients``, with these
        ``all_gradients``; and ``seconds`` of the chains, ``compile_seconds``; and beside that what
        four chains of 1,000 draws and as many to adapt take at least, as ``pm.sample`` makes them,
        on a posterior of independent variables: ``pm_sample_gradients_at_least``. ``random_seed``
        and ``options`` (as JSON) are what was asked for.

    Raises
    ------
    TypeError
        ``approx`` is not of this package, ``random_seed`` no integer, or a keyword is unknown or
        something else than it should be.
    ValueError
        The model has ``pm.Minibatch`` data, a number is out of range, or a name that is asked for
        is none of the model's.

    Examples
    --------
    >>> with model:
    ...     approx = pm.fit(method=px.LaplaceVI(random_seed=1))
    >>> idata = px.sample(approx, random_seed=1)
    """
    _check(approx, random_seed, search, sampler, kwargs)
    options = Sampling(ess=ess, budget=budget, chains=chains, target_accept=target_accept)
    options.require_reachable(approx.density.dimension)
    seed = (
        random_seed
        if random_seed is not None
        else int(np.random.SeedSequence().generate_state(1)[0])
    )
    with at_work(progressbar), interrupt_says(NOTHING_DRAWN):
        now("looking for modes outside the approximation")
        with Interrupts() as interrupts:
            modes = modes_outside(approx.density, approx.q, random_seed) if search else None
        if interrupts.seen:  # the search took it as its own end
            raise KeyboardInterrupt(NOTHING_DRAWN)
        outside = modes
        transport, images = coordinates_of(approx.q), None
        if outside is not None and outside.matters:
            images = images_among(outside, OfApproximation(approx), transport, seed)
            outside = outside if images is None else images.others
        found = sample_density(
            approx.density, transport, sampler or installed_sampler(), options,
            seed=random_seed, constrain=approx.constrain,
            extra_starts=_with_modes(extra_starts, outside, approx.density.dimension),
            fold=None if images is None else images.symmetry.one_order,
            in_step=sampler is None,
        )  # fmt: skip
    found = with_tails(
        through_modes(found, outside, random_seed, approx.q), approx.density, as_transport(approx.q)
    )
    found = found if images is None else images.of_all(found, seed)
    if not search:
        found = replace(found, notes=(*found.notes, UNSEARCHED))
    if not found.trusted:
        logger.warning("%s", found.verdict)
    trace = approx.trace_of(found.theta, {"lp": found.lp, **found.statistics})
    idata = pm.to_inference_data(trace, model=approx.model, **{"log_likelihood": False, **kwargs})
    asked = {
        "ess": ess, "budget": budget, "chains": chains, "target_accept": target_accept,
        "extra_starts": 0 if extra_starts is None else len(np.atleast_2d(np.asarray(extra_starts))),
        "search": search, "sampler": None if sampler is None else found.sampler,
    }  # fmt: skip
    attributes = _attributes(found, approx, modes, ess)
    attributes["options"] = json.dumps(asked, default=lambda number: number.item())
    if random_seed is not None:
        attributes["random_seed"] = random_seed
    idata["posterior"].attrs.update(attributes)
    return idata


def _check(
    approx: object,
    random_seed: int | None,
    search: bool,
    sampler: Sampler | None,
    kwargs: Mapping[str, Any],
) -> None:
    if not isinstance(approx, VectorisedApproximation):
        what = "fit with method=px.BatchMatchVI() or px.HierarchicalVI()"
        if isinstance(approx, SavedPosterior):
            what = TO_ITS_MODEL
        raise TypeError(
            "px.sample takes what pm.fit gave with a method of this package, got "
            f"{type(approx).__name__}: {what}"
        )
    check_seed(random_seed)
    approx.require_exact_logp()
    check_conversion("px.sample", kwargs, "ess=400 says how much is drawn", sample)
    asked = (kwargs.get(group, False) for group in ("log_likelihood", "log_prior"))
    check_log_names(approx.model, *asked)
    require_flag("search", search)
    if sampler is not None:
        require_sampler(sampler)


def coordinates_of(q: Posterior) -> TransportMap:
    """q where it has a pullback, else the Gaussian of its moments."""
    transport = as_transport(q)
    if transport is not None:
        return transport
    mean, cov = moment(q, "mean"), moment(q, "cov")
    sd = np.sqrt(np.diag(cov))  # scaled first: sds may differ by many orders of magnitude
    return Gaussian(mean, sd[:, None] * np.linalg.cholesky(cov / np.outer(sd, sd)))


def _with_modes(extra: Array | None, modes: MissedMass | None, dimension: int) -> Array | None:
    """The user's starts, and one in each mode."""
    if modes is None or not modes.matters:
        return extra
    own = np.empty((0, dimension)) if extra is None else np.atleast_2d(np.asarray(extra))
    return np.concatenate([own, modes.places[:MOST_IN_MODES]])


def _attributes(
    found: Sampled, approx: VectorisedApproximation, modes: MissedMass | None, ess: float
) -> dict[str, int | float | str]:
    """What NetCDF can hold of the verdict and of the cost."""
    by_fit = 0 if approx.result is None else approx.result.gradient_evaluations
    by_search = 0 if modes is None else modes.gradients
    return {
        "sampler": found.sampler,
        "trusted": int(found.trusted),
        "reasons": "\n".join(found.reasons),
        "notes": json.dumps(found.notes, ensure_ascii=False),
        "in_approximations_coordinates": int(found.in_map),
        "stop_reason": found.stop_reason,
        "gradient_evaluations": found.gradient_evaluations,
        "warm_up_gradients": found.warm_up_gradients,
        "approximation_gradients": by_fit,
        "search_gradients": by_search,
        "all_gradients": found.gradient_evaluations + by_fit + by_search,
        "pm_sample_gradients_at_least": chain_gradients(approx.density.dimension, ess, None),
        "seconds": found.seconds,
        "compile_seconds": found.compile_seconds,
    }
