"""``px.fit``: a family by name, and draws of it as ArviZ data, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

import numpy as np
import pymc as pm
import xarray as xr

from pymc_ext.arviz_versions import add_group
from pymc_ext.keywords import refuse_keywords
from pymc_ext.models.context import context
from pymc_ext.options import require_count, require_flag, require_memory
from pymc_ext.variational.core.attributes import attributes_of
from pymc_ext.variational.core.posterior import Posterior
from pymc_ext.variational.gaussian.low_rank import LowRankGaussian
from pymc_ext.variational.gaussian.posteriors import DiagonalGaussian, Gaussian
from pymc_ext.variational.names import ELSEWHERE, class_name, family
from pymc_ext.variational.plugin.approximation import VectorisedApproximation
from pymc_ext.variational.plugin.inference import AlgorithmVI
from pymc_ext.variational.plugin.traces import check_log_groups

if TYPE_CHECKING:
    from pymc_ext.arviz_versions import ArvizData

__all__ = ["fit"]

INSTEAD = {  # of keywords that users of other functions bring
    **dict.fromkeys(
        ("chains", "tune", "cores", "target_accept", "nuts_sampler"), ELSEWHERE["nuts"]
    ),
    "seed": "give random_seed=",
    "samples": "give draws=",
}
CHAINS = 4  # of the draws, for summaries and plots
MOST_COVARIANCE = 2_000  # coordinates up to which a covariance is written out: 32 MB of numbers


def fit(
    method: str | AlgorithmVI = "hierarchical",
    *,
    model: pm.Model | None = None,
    n: int | None = None,
    draws: int = 1_000,
    log_likelihood: bool = False,
    log_prior: bool = False,
    prior: bool = False,
    random_seed: int | None = None,
    progressbar: bool = True,
    **unknown: Never,
) -> ArvizData:
    r"""Fit a family to a PyMC model and hand back draws of q as ArviZ data.

    What ``pm.fit(method=px.LaplaceVI()).sample(1000)`` gives, with q's numbers beside its draws, in
    the groups that fits of pymc-extras return. The draws are q's and no draws of the posterior;
    where ``posterior.attrs["usable"]`` is 1 importance weights make them such (never where they are
    known to miss a tail, as ``verdict`` then says). `bridge.fit`
    does that, and looks for what q misses; `px.diagnose` says how far one of ``pm.fit`` is off.

    Parameters
    ----------
    method
        Name of a family: that of its class in small letters, as ``"laplace"``, ``"batch-match"``,
        ``"hierarchical"`` or ``"bernstein"``, or of a variant, as ``"mixed-eig"``. Or an instance,
        for options: ``px.LaplaceVI(search=...)``, which has a model and a seed of its own.
    model
        None: the model of an instance, else of the ``with`` context.
    n
        Iterations at most; None: the family's default.
    draws
        Independent draws of q in all, in four chains for summaries and plots that want several (R̂
        is then 1 whatever q is), in one where four does not divide them.
    log_likelihood, log_prior, prior
        Whether the data are to have the group of that name, too: log densities of observed rows
        for ``az.loo_approximate_posterior``, of variables for power scaling; as many draws of the
        prior.
    random_seed
        Seeds the fit and the draws; of an instance the draws alone.
    progressbar
        Whether to show one.

    Returns
    -------
    InferenceData (PyMC 6: DataTree)
        ``posterior`` has the draws with the model's coords and dims, ``sample_stats`` log p̃ and
        log q of each (``lp``, ``lq``) and log importance weights (``log_weight``, normalised and
        Pareto-smoothed; only ``lq`` with ``pm.Minibatch`` data), ``observed_data`` and
        ``constant_data`` what the model holds. ``fit``, where q is Gaussian, has its
        ``mean_vector`` (rows,) and ``covariance_matrix`` (rows, columns), unconstrained, each
        coordinate by name, as ``sigma_log__`` or ``beta[north]``; beyond 2,000 coordinates
        ``sd_vector`` (rows,) in place of the covariance. ``fit_stats`` has the ``loss``
        (iteration,) of each iteration, where there were several paths that of the one which won.
        The attributes of ``posterior``, ``fit`` and ``fit_stats`` are ``method``, ``khat``,
        ``verdict``, ``elbo``, ``random_seed``, ``options``, versions, ``gradient_evaluations`` and
        ``seconds``.

    Raises
    ------
    ValueError
        No family has the name (with the near ones); ``model`` is not that of the instance; a number
        is out of range, or so many draws do not fit in memory; the family does not take the model,
        which it says in a sentence; or there are no draws of its prior, where these are asked for.
    TypeError
        ``method`` is neither a name nor an instance of a family of this package, there is no
        model, a group is asked for by something else than a bool, or a keyword is unknown.

    Examples
    --------
    >>> with pm.Model():
    ...     x = pm.Normal("x", [1.0, 2.0], [1.0, 3.0])
    ...     idata = px.fit("laplace", random_seed=1, progressbar=False)
    >>> idata["fit"]["mean_vector"].values.round(3).tolist()
    [1.0, 2.0]
    >>> idata["fit"]["covariance_matrix"].sel(rows="x[1]", columns="x[1]").item()
    9.0...
    >>> idata["posterior"].attrs["verdict"]
    'exact wherever it draws: its log ratios to the posterior are constant there'
    """
    refuse_keywords(fit, "px.fit", unknown, INSTEAD, _where_options_go(method))
    require_count("draws", draws)
    require_flag("prior", prior)
    check_log_groups(log_likelihood, log_prior)
    inference = _inference(method, model, random_seed)
    approx = inference.approx
    require_memory("draws", draws, approx.group.ddim)
    with approx.model:
        inference.fit(n, progressbar=progressbar)
    chains = CHAINS if draws % CHAINS == 0 else 1
    idata = approx.sample(
        draws // chains, chains=chains, prior=prior, random_seed=random_seed,
        log_likelihood=log_likelihood,
        log_prior=log_prior,
    )  # fmt: skip
    found = {"fit": _numbers(approx), "fit_stats": xr.Dataset({"loss": ("iteration", approx.hist)})}
    for name, group in found.items():
        if group is not None:
            group.attrs.update(attributes_of(approx.result, approx.options))
            add_group(idata, name, group)
    return idata


def _where_options_go(method: object) -> str:
    """What to say of an option of a family."""
    name = class_name(method) if isinstance(method, str) else None
    return f"for options of the family give an instance: px.fit(px.{name or 'LaplaceVI'}(...))"


def _inference(
    method: str | AlgorithmVI, model: pm.Model | None, random_seed: int | None
) -> AlgorithmVI:
    if isinstance(method, str):
        return family(method, model=context(model), random_seed=random_seed)
    if not isinstance(method, AlgorithmVI):
        is_class = isinstance(method, type)
        what = f"the class {method.__name__}" if is_class else repr(method)
        then = "what PyMC has of its own goes to pm.fit"
        if is_class and issubclass(method, AlgorithmVI):
            then = f"write px.{method.__name__}()"
        raise TypeError(
            "method must be the name of a family, such as 'laplace', or an instance of one, such "
            f"as px.LaplaceVI(), got {what}: {then}"
        )
    if model is not None and model is not method.approx.model:
        raise ValueError(
            f"model must be the one that the {type(method).__name__} was made for: give model= to "
            "the family, or the family by its name"
        )
    return method


def _numbers(approx: VectorisedApproximation) -> xr.Dataset | None:
    """q's moments by the names of its coordinates, where it is Gaussian."""
    q: Posterior = approx.q
    if not isinstance(q, Gaussian | DiagonalGaussian | LowRankGaussian):
        return None
    names = approx.density.unconstrained_names
    found = {"mean_vector": ("rows", np.asarray(q.mean))}
    coords = {"rows": names}
    if len(names) > MOST_COVARIANCE:
        return xr.Dataset(found | {"sd_vector": ("rows", np.asarray(q.std))}, coords)
    covariance = (("rows", "columns"), np.asarray(q.cov))
    return xr.Dataset(found | {"covariance_matrix": covariance}, coords | {"columns": names})
