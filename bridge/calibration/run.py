"""One simulation: data fitted, the truth ranked among the fit's draws, a record of both."""

from __future__ import annotations

import json
import logging
import pickle
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bridge.advice.fit import Advice, fit
from bridge.attempt import Demands, attempted
from bridge.calibration.study import Simulated, Study
from bridge.comparison.records import Record
from bridge.measures.limits import KHAT_USABLE
from bridge.methods.method import Method
from bridge.methods.named_draws import NamedDraws, systematic
from bridge.methods.problems import GivenProblem
from bridge.targets.target import Target
from bridge.trust import missed
from bridge.verdict import REFUSED, of_chains
from pymc_ext.maths.types import Array

__all__ = ["ANSWER", "KINDS", "LOG_LIK", "LP", "MOST", "Task", "run_one"]

_log = logging.getLogger(__name__)
_TURN = threading.Lock()  # one compiled model takes one set of data at a time

ANSWER = "answer"  # the method that is all of `bridge.fit`
# Draws among which a truth is ranked: 200 ranks can be split into the central half and the central
# 95 % exactly, and of as few out of 4,000 effective ones hardly any is taken twice.
MOST = 199
KINDS = ("plain", "psis")  # draws as a method gave them, and resampled by importance weights
# What weighted draws must be worth to be trusted, and what draws of a good fit are worth where that
# can be had: defaults of `bridge.fit`, whose verdict is the one tested.
ESS, WORTH = 400.0, 4_000
LOG_LIK, LP = "log_lik", "lp"


class _NoFit(Exception):
    """A method gave nothing; the message is its verdict."""


@dataclass(frozen=True)
class Task:
    """What all simulations of a calibration have in common.

    Parameters
    ----------
    study
        A pickled `Study`; it is made once in each process, which is when it compiles.
    method
        A pickled method; None within: all of `bridge.fit`.
    key
        Columns of each record that say whose it is.
    fresh_draws
        By which a fit is judged.
    random_seed
        Of fits, each with its number.
    """

    study: bytes
    method: bytes
    key: tuple[tuple[str, str], ...]
    fresh_draws: int
    random_seed: int


@dataclass(frozen=True)
class _Judged:
    """Draws that a truth is ranked among, unconstrained (L, D), and what was said of them."""

    target: Target
    draws: Mapping[str, Array | None]
    trusted: bool
    verdict: str
    khat: float = np.nan
    gradients: int | None = None


def run_one(task: Task, number: int, simulated: Simulated) -> Record:
    """Fit and rank; a failure becomes a record with its reason."""
    begin = time.perf_counter()
    record: Record = {**dict(task.key), "seed": number}
    logging.getLogger("pymc").setLevel(logging.WARNING)  # pm.fit announces the end of every run
    with _TURN:
        try:
            found = _ranked(task, number, simulated)
        except Exception as error:
            _log.debug("simulation %d failed", number, exc_info=True)
            said = str(error) if isinstance(error, _NoFit) else f"{type(error).__name__}: {error}"
            found = {"status": "failed", "reason": said, "trusted": False}
    return record | found | {"seconds": time.perf_counter() - begin}


def _ranked(task: Task, number: int, simulated: Simulated) -> Record:
    study, method = _loaded(task.study, task.method)
    problem = study.problem(simulated.data)
    rng = np.random.default_rng([task.random_seed, number])
    seed = int(rng.integers(2**31))
    if method is None:
        judged = _answer(problem, task.fresh_draws, seed)
    elif method.sampler:
        judged = _sampled(method, problem, task.fresh_draws, seed)
    else:
        judged = _approximated(method, problem, task.fresh_draws, seed, rng)
    target = judged.target
    names = target.parameter_names
    truth = target.unconstrain({name: np.asarray(simulated.parameters[name])[None]
                                for name in names})  # fmt: skip
    found: Record = {}
    for kind in KINDS:
        theta = judged.draws[kind]
        if theta is None:
            found[kind] = None
            continue
        values = quantities(study, problem, target, np.concatenate([truth, theta]), seed)
        found[kind] = json.dumps(_ranks(values, rng))
        found["shapes"] = json.dumps({name: x.shape[1:] for name, x in values.items()})
    return found | {
        "status": "ok",
        "trusted": judged.trusted,
        "verdict": judged.verdict,
        "khat": judged.khat,
        "gradients": judged.gradients,
    }


@lru_cache(maxsize=2)
def _loaded(study: bytes, method: bytes) -> tuple[Study, Method | None]:
    return pickle.loads(study), pickle.loads(method)


def quantities(
    study: Study, problem: GivenProblem, target: Target, theta: Array, seed: int
) -> dict[str, Array]:
    """Every parameter, log p(y|θ) where the model has it, and log p̃, of each point (N, D).

    The last two depend on the data, without which a posterior that ignores them would pass: Modrák
    et al. (2023), doi:10.1214/23-BA1404.
    """
    values = target.constrain(theta)
    found = {name: np.asarray(values[name]) for name in target.parameter_names}
    log_lik = study.log_likelihood(problem, theta, seed)
    if log_lik is not None:
        found[LOG_LIK] = log_lik
    with np.errstate(all="ignore"):  # a draw where log p̃ overflows is below all others
        return found | {LP: target.log_density(theta)}


def _ranks(values: Mapping[str, Array], rng: np.random.Generator) -> list[int]:
    """How many draws are below the first row, entry by entry; among equal ones at random."""
    flat = np.concatenate([x.reshape(len(x), -1) for x in values.values()], axis=1)
    if np.isnan(flat).any():
        bad = [name for name, x in values.items() if np.isnan(x).any()]
        raise ArithmeticError(f"{', '.join(bad)} of a draw is NaN, so that nothing can be ranked")
    below = np.sum(flat[1:] < flat[0], axis=0)
    return (below + rng.integers(0, np.sum(flat[1:] == flat[0], axis=0) + 1)).tolist()


# ---- draws and verdicts ------------------------------------------------------------------------


def _approximated(
    method: Method, problem: GivenProblem, fresh: int, seed: int, rng: np.random.Generator
) -> _Judged:
    """Judged as `bridge.fit` does: by its weights, and by a search for missed mass."""
    attempt, found, k = attempted(method, problem, Demands(KHAT_USABLE, ESS, fresh, WORTH), seed)
    if found is None or k is None:
        raise _NoFit(attempt.verdict)
    trusted, verdict = attempt.good and k.weights is not None, attempt.verdict
    if trusted:
        outside = missed(found, k.log_marginal_is, seed)
        if outside.matters:
            trusted, verdict = False, f"{REFUSED}{outside.sentence}"
    weighted = None
    if k.weights is not None and found.weighted is not None:
        rows = found.weighted.theta.reshape(-1, found.theta.shape[-1])
        weighted = rows[systematic(k.weights.ravel(), MOST, rng)]
    draws = {"plain": _some(found.theta), "psis": weighted}
    return _Judged(found.target, draws, trusted, verdict, attempt.khat, attempt.gradients)


def _sampled(method: Method, problem: GivenProblem, fresh: int, seed: int) -> _Judged:
    """Chains have no weights: their draws are both."""
    found = method.run(problem, fresh, seed)
    trusted, verdict = of_chains(found, ESS)
    draws = dict.fromkeys(KINDS, _some(found.theta))
    return _Judged(found.target, draws, trusted, verdict, gradients=found.gradient_evaluations)


def _answer(problem: GivenProblem, fresh: int, seed: int) -> _Judged:
    """All of `bridge.fit`; before weighting: its approximation, or the chains themselves."""
    advice = fit(problem, fresh_draws=fresh, random_seed=seed, progressbar=False)
    target = problem.target
    answer = target.unconstrain(dict(_named(advice, target)))
    plain = answer if advice.fit is None else _some(advice.fit.theta)
    last = advice.attempts[-1]
    verdict = "; ".join(advice.doubts) or last.verdict
    return _Judged(target, {"plain": plain, "psis": answer}, advice.trusted,
                   f"{advice.method}: {verdict}", last.khat, advice.gradients)  # fmt: skip


def _named(advice: Advice, target: Target) -> Iterator[tuple[str, Array]]:
    """Some draws of the parameters, (L, *shape) each."""
    posterior = advice.draws.values if isinstance(advice.draws, NamedDraws) else None
    for name in target.parameter_names:
        x = np.asarray(advice.idata["posterior"][name] if posterior is None else posterior[name])
        yield name, _thinned(x.reshape(-1, *x.shape[2:]))


def _some(theta: Array) -> Array:
    """Of (chains, draws, D) as many as a truth is ranked among."""
    return _thinned(theta.reshape(-1, theta.shape[-1]))


def _thinned(rows: Array) -> Array:
    if len(rows) < MOST:
        raise ValueError(f"a truth is ranked among {MOST} draws, the method gave {len(rows)}")
    return rows[np.linspace(0, len(rows) - 1, MOST).astype(int)]
