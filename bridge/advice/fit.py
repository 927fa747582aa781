"""The first approximation that can be trusted, from cheap to rich; NUTS where none can."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Never

import numpy as np

from bridge.advice.answer import Advice, NoAnswerError
from bridge.advice.keywords import INSTEAD
from bridge.advice.rungs import NOTHING_YET, answered
from bridge.advice.search import Search
from bridge.attempt import EXPECTED_FAILURES, Attempt, Demands
from bridge.measures.limits import KHAT_FEWEST_DRAWS, KHAT_USABLE
from bridge.methods.families import EARLY
from bridge.methods.method import Method
from bridge.methods.named_groups import finish_of, in_turn
from bridge.methods.options import options_text
from bridge.methods.problems import GivenProblem, ModelProblem, as_problem
from bridge.methods.requested_groups import Requested, requests_of
from bridge.methods.table import METHODS, find_approximations
from bridge.verdict import REPETITIONS
from pymc_ext.interrupts import interrupt_says
from pymc_ext.keywords import refuse_keywords
from pymc_ext.options import require_integer, require_memory, require_number
from pymc_ext.sampling.options import Sampling
from pymc_ext.seeds import check_seed

if TYPE_CHECKING:
    import bambi
    import pymc as pm

    from pymc_ext.density import Density
    from stan_models import StanProgram
    from stan_models.density import Data

__all__ = ["EXPECTED_FAILURES", "LADDER", "Advice", "Attempt", "NoAnswerError", "fit"]

# Then chains, as a flow takes up to 200,000 gradients where the map does not serve: NUTS was
# predicted to take less in each of 200 runs on 40 posteriors with reference draws. The map is the
# Gaussian where no more is needed, and its paths and batches take fewer gradients than a search for
# modes with its Hessians: a median of 2,200 instead of 7,400 on 34 of these posteriors.
LADDER = ("hierarchical",)


def fit(
    model: pm.Model
    | bambi.Model
    | StanProgram
    | Density
    | GivenProblem
    | str
    | os.PathLike[str]
    | None = None,
    data: Data = None,
    *,
    methods: Sequence[str | Method] | str | Method = LADDER,
    khat: float = KHAT_USABLE,
    draws: int = 4_000,
    fresh_draws: int = 20_000,
    ess: float = 400,
    effort: float | None = None,
    want: Literal["draws", "density"] = "draws",
    posterior_predictive: Mapping[str, str] | Sequence[str] | str = (),
    observed_data: Sequence[str] | str = (),
    log_likelihood: bool = False,
    log_prior: bool = False,
    prior: bool | Mapping[str, str] = False,
    random_seed: int | None = None,
    progressbar: bool = True,
    **unknown: Never,
) -> Advice:
    """Draws of a posterior that can be trusted, for as little as they can be had.

    Each method is judged by Pareto k̂ of up to ``fresh_draws`` draws in five batches,

    .. math:: \\hat k(\\log \\tilde p - \\log q) < \\texttt{khat}\\ \\text{(median over batches)},

    or by weights that hardly differ (98 % of the draws are effective), where k̂ says nothing;
    all of them must be worth ``ess`` draws, and every mean and sd known to ``1/√ess`` sds, with
    a k̂ of its own. Before one is trusted, paths from 34 points, and short chains from its edge
    where weights differ, search for mass outside it,
    which k̂ cannot see; where they find more than 1 %, or less that is so far away that it
    makes an sd 10 % larger, a mixture of all basins is tried, or, where they are orders of
    labels of one, or its signs, the fit of one is taken for all; of what lies in no basin draws
    are weighted beside the fit's own. The draws returned are resampled
    with Pareto-smoothed importance weights. If no approximation is good enough, chains run in
    the coordinates of the best one: of Hamiltonian Monte Carlo, and where trajectories of one
    length do not serve of NUTS, Stan's own for a Stan program, nutpie for all else (without it the
    model's own sampler, PyMC's for a density); they are judged by R̂, ESS, E-FMI and divergences,
    and ``Advice.doubts`` says why they are not to be trusted. Then they run once more in
    the coordinates of a short flow on that approximation, which are the answer if they pass. Where
    chains keep to modes of their own the mixture of all basins is handed back, with these
    doubts, as it weighs them. Ctrl-C ends it: what chains have drawn is handed back, not trusted;
    before that weighted draws of the best approximation so far, and where there is none it is a
    KeyboardInterrupt.

    Parameters
    ----------
    model
        A ``pm.Model`` (None: the one of the ``with`` context), a ``bambi.Model``, a
        `stan_models.StanProgram`, Stan source, the path of a ``.stan`` file, or any density
        (``px.CallableDensity``, say). What
        :func:`bridge.methods.problems.as_problem` makes of one keeps its compiled functions from
        one call to the next.
    data
        Data of a Stan program: a mapping, the path of a JSON file, or None.
    methods
        Approximations in the order to try them: names from `python -m bridge list`, or methods of
        your own (:class:`bridge.Method`).
    khat
        The largest k̂ that is good enough, in (0, 1]; 0.7 is the limit of Vehtari et al. (2024).
    draws
        Draws returned of an approximation; of chains all that they took to reach ``ess``.
    fresh_draws
        Draws each method is judged by at most, at least 1,000. Where k̂ < 0.5 and they are worth
        ``draws`` fewer will do, as where k̂ > 1, which no number of draws mends.
    ess
        What the fresh draws of an approximation must be worth; bulk and tail ESS of every quantity,
        and of log p̃, at which chains end. Where short chains found mass on a shoulder they go
        on until 8 effective draws are to be there, or to 1,000.
    effort
        Gradients that approximations may take in vain, as a multiple of what chains are predicted
        to take at least; none but the first begins where it would go beyond, but for the map that
        chains run in and a flow where a density is wanted. None: no bound, so that all ``methods``
        that you name are tried, and a map of every mode that a search finds, which chains that keep
        to one each would not weigh.
    want
        ``"draws"``, or ``"density"``: a normalised q, for the evidence or to be evaluated and kept
        (``Advice.density``), for which a flow is tried before NUTS, whatever it takes.
    posterior_predictive
        Generated quantities of a Stan program that are predictions of its data, such as
        ``["y_rep"]``: they go to the group ``posterior_predictive``, as in
        ``az.from_cmdstanpy``. By the names of the data, as ``{"y": "y_rep"}``, they are called as
        these are there, and the data are ``observed_data``, which is what ``az.plot_ppc`` and
        ``az.plot_ppc_dist`` pair. Which ones these are is not guessed from their names.
    observed_data
        Data of a Stan program that are observed, such as ``["y"]``: they go to the group
        ``observed_data``, and the others to ``constant_data``. Nor is this guessed; without it
        there are no such groups.
    log_likelihood, log_prior
        Whether ``idata`` and ``unresampled`` are to have the group of that name, for ``az.loo`` and
        power scaling: of a PyMC model by ``pm.compute_log_likelihood`` and
        ``pm.compute_log_prior``; of a Stan program its generated quantities ``log_lik`` (which is
        that group without being asked for) and ``lprior``.
    prior
        Whether they are to have ``draws`` draws of a PyMC model's prior, in the group ``prior``; of
        a Stan program the generated quantities that are such, as ``{"mu": "mu_prior"}``. Draws of
        the prior are made before the fit, the two others when ``idata`` is first asked for.
    random_seed
        Seeds the fits, the draws and the resampling: None or an integer from 0 to 2³² − 1.
    progressbar
        Whether a line says what is done, on a terminal or in a notebook, and ``pm.sample``, where
        it has to run, as for discrete variables, shows its progress and what it logs.

    Returns
    -------
    Advice
        ``idata``, ``method``, ``attempts`` and ``reasons``; ``unresampled``, the weighted draws.

    Raises
    ------
    UnknownMethodError
        With the near names.
    StanCompileError, StanDataError, UndefinedDensityError
        Of a Stan program that no method can run on.
    DensityError
        The density lacks a member, or is not finite at the origin; that of a PyMC model is finite
        nowhere near its initial point: the message names the variable, and the data.
    NoAnswerError
        The posterior is improper, as log p̃ does not fall in some direction; or no approximation
        served and NUTS gave no draws. It names what was tried, and has the ``attempts``.
    TypeError
        A keyword is unknown, which says what to write in place of those of ``pm.sample``; there is
        no model, given or of a ``with`` context; ``random_seed``, ``draws`` or
        ``fresh_draws`` is no integer; ``posterior_predictive`` or ``observed_data`` are no names;
        ``methods`` are neither names nor methods; a group is asked for by no bool.
    ValueError
        A limit is out of range, so many draws do not fit in memory, ``ess`` is more than
        ``fresh_draws`` and than the gradients that NUTS may take, a method is a sampler, ``data``
        is given with a PyMC model, ``posterior_predictive`` names what no Stan program generates,
        or by the name of data what has another shape than these, ``observed_data`` what is none of
        its data, or a group is asked for that the model cannot have.
    Exception
        Of a method that fails with anything but `EXPECTED_FAILURES`: an error in its code.

    Examples
    --------
    >>> with pm.Model():
    ...     pm.Normal("x", 0, 1, shape=3)
    ...     advice = bridge.fit(random_seed=1)
    >>> advice.method
    'hierarchical'

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?: evaluating variational
    inference, ICML, arXiv:1802.02538.
    """
    refuse_keywords(fit, "bridge.fit", unknown, INSTEAD)
    check_seed(random_seed)
    chosen = find_approximations(methods)
    _check(khat, draws, fresh_draws, effort, want)
    if want == "draws":
        chosen = [EARLY if method is METHODS[EARLY.name] else method for method in chosen]
    options = Sampling(ess=ess)
    by_chains = ess > fresh_draws  # which weights of so many draws cannot give
    if by_chains:
        options.require_reachable()
    given = options_text(
        methods=[method.name for method in chosen], khat=khat, draws=draws, fresh_draws=fresh_draws,
        ess=ess, effort=effort, want=want,
    )  # fmt: skip
    seed = int(np.random.default_rng(random_seed).integers(2**31))
    with interrupt_says(NOTHING_YET):
        problem = as_problem(model, data)
        search = Search(problem, Demands(khat, ess, fresh_draws, draws), effort, seed)
        for name, count in (("draws", draws), ("fresh_draws", fresh_draws)):
            require_memory(name, count, search.dimension or 1)
        if by_chains:
            options.require_reachable(search.dimension)
        finish = in_turn(
            finish_of(problem, posterior_predictive, observed_data),
            requests_of(problem, Requested(log_likelihood, log_prior, prior), draws, seed),
        )
        as_it_was = problem.as_it_is() if isinstance(problem, ModelProblem) else nullcontext
        answer = answered(search, chosen, options, want == "density", progressbar)
    return replace(
        answer, random_seed=random_seed, options=given, _finish=finish, _as_it_was=as_it_was
    )


def _check(khat: float, draws: int, fresh_draws: int, effort: float | None, want: str) -> None:
    if want not in ("draws", "density"):
        raise ValueError(f"want must be 'draws' or 'density', got {want!r}")
    require_number("khat", khat)
    if not 0 < khat <= 1:
        raise ValueError(f"khat must be in (0, 1], got {khat}")
    if effort is not None:
        require_number("effort", effort)
    if effort is not None and not effort > 0:
        raise ValueError(f"effort must be a positive number, got {effort!r}")
    for name, count in (("draws", draws), ("fresh_draws", fresh_draws)):
        require_integer(name, count)
    if draws < 4:
        raise ValueError(f"draws must be at least 4, got {draws}")
    if fresh_draws < (fewest := KHAT_FEWEST_DRAWS * REPETITIONS):
        raise ValueError(f"fresh_draws must be at least {fewest}, got {fresh_draws}")
