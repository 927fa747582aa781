"""How far one fit is from the truth, and whether it would be trusted without knowing that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import arviz as az
import numpy as np
from numpy.typing import NDArray

from bridge.attempt import is_expected
from bridge.comparison.problem import CaseProblem
from bridge.comparison.records import Record
from bridge.errors import IncompleteReferenceError
from bridge.measures.divergence import kl_from_q, kl_to_q
from bridge.measures.limits import ESS_TRUSTED, KHAT_USABLE
from bridge.measures.moments import moment_errors, worst
from bridge.methods.method import Fit
from bridge.trust import missed, missed_by_chains
from bridge.verdict import REFUSED, Judgement, by_weights, of_chains
from pymc_ext.density.protocol import value_names
from pymc_ext.maths.types import Array
from pymc_ext.variational.missed.missed_mass import MissedMass


def judge(problem: CaseProblem, fit: Fit, *, repetitions: int, seed: int = 1) -> Record:
    """Judge a fit against the case's reference draws.

    Parameters
    ----------
    problem
        The case; its reference draws are the truth.
    fit
        What the method returned.
    repetitions
        The draws of an approximation are cut into this many independent batches; k̂ is the median
        over batches and ``khat_sd`` its Monte Carlo spread.
    seed
        Of the search for missed mass.

    Returns
    -------
    dict
        One flat record. ``elbo`` is E_q[log p̃ − log q]; ``log_marginal_is`` the importance
        sampling estimate of log Z; k̂, it, ``ess`` and what ends in ``_psis`` are of the proposal
        where ``khat_of`` says so, all else is of q; ``kl_qp`` = KL(q‖p) and ``kl_pq`` = KL(p‖q) use
        ``log_evidence``, the bridge-sampling log Z of the same target; errors of moments are in
        posterior standard deviations, ``*_mcse`` in Monte Carlo standard errors of the reference;
        ``sd_ratio`` is the sd over the reference's farthest from 1.
        ``ess_per_gradient`` is of chains alone, warm-up and the approximation in whose coordinates
        they run included: draws of an approximation take none. What does not apply is None, with
        the reason in ``notes``.

        ``trusted`` and ``verdict`` are what `bridge.fit` would say of it, which knows no reference
        (`bridge.verdict`): where weights make draws of the posterior of it, and where chains pass
        all checks, mass outside is looked for, ``missed`` being a lower bound of log(mass of the
        heaviest mode outside / mass that it covers), None where none that matters was found;
        ``search_gradients`` were spent on that, and are not among ``gradient_evaluations``.
    """
    notes: list[str] = []
    record: Record = {
        "dimension": fit.target.dimension,
        "draws": int(fit.lp.size),
        "seconds": fit.seconds,
        "compile_seconds": fit.compile_seconds,
        "density_evaluations": fit.density_evaluations,
        "gradient_evaluations": fit.gradient_evaluations,
        **fit.info,
    }
    weights = None
    if fit.lq is None:
        record = _sampler_diagnostics(fit) | record  # what a sampler says of itself holds
        good, verdict = of_chains(fit, ESS_TRUSTED)
        search = partial(missed_by_chains, fit, seed)
    else:
        judgement = _judgement(fit, repetitions)
        record |= _importance(fit, judgement, notes)
        weights, good, verdict = judgement.of_all.weights, judgement.good, judgement.verdict
        search = partial(missed, fit, judgement.of_all.log_marginal_is, seed)
    record |= _trust(good, verdict, search)
    record |= _moments(problem, fit, weights)
    record |= _divergences(problem, fit, notes)
    record["notes"] = "; ".join(notes) or None
    return record


def _sampler_diagnostics(fit: Fit) -> Record:
    theta = az.convert_to_dataset({"theta": fit.theta})
    ess = float(az.ess(theta, method="bulk")["theta"].min())
    spent = fit.gradient_evaluations
    return {
        "ess": ess,
        "rhat": float(az.rhat(theta)["theta"].max()) if len(fit.theta) > 1 else None,
        "ess_per_gradient": ess / spent if spent else None,
    }


def _judgement(fit: Fit, repetitions: int) -> Judgement:
    """Of its weights, or those of its proposal."""
    assert fit.weighted is not None
    names = value_names(fit.target.density)
    return by_weights(fit.weighted, names, KHAT_USABLE, ESS_TRUSTED, repetitions)


def _trust(good: bool, verdict: str, search: Callable[[], MissedMass]) -> Record:
    """Whether it is trusted, after a search for what neither weights nor chains can see."""
    record: Record = {"trusted": False, "verdict": verdict, "missed": None}
    if not good:
        return record | {"search_gradients": 0}
    try:
        outside = search()
    except TimeoutError:  # the limit of the run
        raise
    except Exception as error:
        if not is_expected(error):
            raise
        text = f"{REFUSED}no search for missed mass: {type(error).__name__}: {error}"
        return record | {"verdict": text}
    record["search_gradients"] = outside.gradients
    if outside.matters:
        return record | {
            "verdict": f"{REFUSED}{outside.sentence}",
            "missed": outside.heaviest.log_ratio,
        }
    return record | {"trusted": True}


def _importance(fit: Fit, judgement: Judgement, notes: list[str]) -> Record:
    """k̂, ELBO and importance-sampling evidence."""
    assert fit.lq is not None
    k, whole = judgement.k, judgement.of_all
    if k.reason:
        notes.append(k.reason)
    ratios = fit.lp - fit.lq
    return {
        "khat": None if k.exact else k.value,
        "khat_sd": None if k.exact else k.sd,
        "khat_exact": k.exact,
        "khat_of": "q" if fit.proposal is None else "proposal",
        "elbo": float(ratios.mean()),
        "elbo_se": float(ratios.std(ddof=1) / np.sqrt(ratios.size)),
        "log_marginal_is": whole.log_marginal_is,
        "log_marginal_is_se": whole.log_marginal_is_se,
        "ess": whole.ess,
    }


def _moments(problem: CaseProblem, fit: Fit, weights: Array | None) -> dict[str, float]:
    """Errors of the worst parameter, of q's plain draws and of PSIS-weighted ones."""
    plain = _constrained(fit, fit.theta)
    record = _worst(problem, plain, None, "")
    if weights is not None:
        weighted = plain
        if fit.proposal is not None:
            # a draw far out without weight need not have constrained values
            used = weights.ravel() > 0
            theta, weights = fit.proposal.theta, weights.ravel()[used]
            weighted = _constrained(fit, theta.reshape(-1, theta.shape[-1])[used])
        record |= _worst(problem, weighted, weights, "_psis")
    return record


def _constrained(fit: Fit, theta: Array) -> Mapping[str, NDArray]:
    return fit.target.constrain(theta.reshape(-1, theta.shape[-1]))


def _worst(
    problem: CaseProblem,
    draws: Mapping[str, NDArray],
    weights: Array | None,
    suffix: str,
) -> dict[str, float]:
    largest = worst(moment_errors(draws, problem.reference_moments, weights=weights))
    return {
        f"mean_error{suffix}": largest.mean,
        f"sd_error{suffix}": largest.sd,
        f"sd_ratio{suffix}": largest.sd_ratio,
        f"quantile_error{suffix}": largest.quantile,
        f"mean_error_mcse{suffix}": largest.mean_mcse,
    }


def _divergences(problem: CaseProblem, fit: Fit, notes: list[str]) -> Record:
    try:
        evidence = problem.log_evidence(fit.target)
    except IncompleteReferenceError as error:
        notes.append(f"log evidence and KL not available: {error}")
        return {}
    record: Record = {"log_evidence": evidence.value, "log_evidence_se": evidence.se}
    if not evidence.reliable:
        notes.append(f"log evidence unreliable: {evidence.reason}")
    if fit.lq is not None:
        kl = kl_from_q(fit.lp.ravel(), fit.lq.ravel(), evidence)
        record |= {"kl_qp": kl.value, "kl_qp_se": kl.se, "kl_qp_reliable": kl.reliable}
        if not kl.reliable:
            notes.append(f"KL(q‖p) unreliable: {kl.reason}")
    if fit.log_q is not None:
        theta = problem.reference_theta(fit.target)
        flat = theta.reshape(-1, theta.shape[-1])
        lp, lq = (f(flat).reshape(theta.shape[:2]) for f in (fit.target.log_density, fit.log_q))
        kl = kl_to_q(lp, lq, evidence)
        record |= {"kl_pq": kl.value, "kl_pq_se": kl.se, "kl_pq_reliable": kl.reliable}
        if not kl.reliable:
            notes.append(f"KL(p‖q) unreliable: {kl.reason}")
    elif fit.lq is not None:
        notes.append("KL(p‖q) not available: the method does not give log q at other points")
    return record
