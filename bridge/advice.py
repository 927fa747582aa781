"""The first approximation that can be trusted, from cheap to rich; NUTS where none can."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from bridge.khat import KHat, pareto_khat
from bridge.methods import METHODS, Fit, find_methods
from bridge.problem import gradient_seconds
from bridge.stan_to_pymc import stan_model
from bridge.target import Target, pymc_target, stan_target
from stan_models.inference_data import make_inference_data

_log = logging.getLogger(__name__)
LADDER = ("laplace", "mixed-eig", "bernstein-laplace", "bernstein")
REPETITIONS = 5


@dataclass(frozen=True)
class Attempt:
    """One method tried by :func:`fit`.

    Attributes
    ----------
    method
        Its name, as `python -m bridge list` has it.
    khat, khat_sd
        Median Pareto k̂ over five batches of draws and its spread; NaN where the method failed, or
        where the ratios are constant (``exact``).
    elbo
        E_q[log p̃ − log q] on draws the fit has not seen, nats.
    exact
        q is the posterior: the log ratios are constant.
    seconds
        Wall time, compilation included.
    verdict
        Why it was taken or not.
    """

    method: str
    khat: float
    khat_sd: float
    elbo: float
    exact: bool
    seconds: float
    verdict: str


@dataclass(frozen=True)
class Advice:
    """What :func:`fit` settled on.

    Attributes
    ----------
    method
        The method of the draws: one of `METHODS`, or ``"nuts"``.
    idata
        Draws on the constrained space with the model's coords and dims; ``sample_stats`` has
        ``lp``. PSIS-resampled where the method is an approximation.
    attempts
        Every method tried, in order.
    fit
        Draws of the chosen approximation before resampling, with ``log_q``; None for NUTS.
    """

    method: str
    idata: Any
    attempts: tuple[Attempt, ...]
    fit: Fit | None

    @property
    def reasons(self) -> str:
        """One line a method tried, and what was taken in the end."""
        lines = [f"{a.method}: {a.verdict} ({a.seconds:.1f} s)" for a in self.attempts]
        return "\n".join([*lines, f"taken: {self.method}"])


def fit(
    model: pm.Model | Any = None,
    data: Any = None,
    *,
    methods: Sequence[str] = LADDER,
    khat: float = 0.7,
    draws: int = 4_000,
    fresh_draws: int = 20_000,
    random_seed: int | None = None,
    progressbar: bool = True,
) -> Advice:
    """Fit methods from cheap to rich and return the first whose k̂ is good enough.

    Each is judged by Pareto k̂ on ``fresh_draws`` draws in five batches,

    .. math:: \\hat k(\\log \\tilde p - \\log q) < \\texttt{khat}\\ \\text{(median over batches)},

    and by the ELBO on the same draws. The draws returned are resampled with Pareto-smoothed
    importance weights. If no approximation is good enough, NUTS runs: Stan's for a Stan program,
    PyMC's for a model.

    Parameters
    ----------
    model
        A ``pm.Model`` (None: the one of the ``with`` context), a `stan_models.StanProgram`, Stan
        source, or the path of a ``.stan`` file.
    data
        Data of a Stan program: a mapping, the path of a JSON file, or None.
    methods
        Names from `python -m bridge list` of approximations, in the order to try them.
    khat
        The largest k̂ that is good enough, in (0, 1]; 0.7 is the limit of Vehtari et al. (2024).
    draws
        Draws returned.
    fresh_draws
        Draws each method is judged by, at least 1,000.
    random_seed
        Seeds the fits, the draws and the resampling.
    progressbar
        Whether NUTS shows its progress.

    Returns
    -------
    Advice
        ``idata``, ``method``, ``attempts`` and ``reasons``.

    Raises
    ------
    UnknownMethodError
        With the near names.
    StanCompileError, StanDataError, UndefinedDensityError
        Of a Stan program that no method can run on.
    ValueError
        A limit is out of range, a method is a sampler, or ``data`` is given with a PyMC model.

    Examples
    --------
    >>> with pm.Model():
    ...     pm.Normal("x", 0, 1, shape=3)
    ...     advice = bridge.fit(random_seed=1)
    >>> advice.method
    'laplace'

    References
    ----------
    Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work?: evaluating variational
    inference, ICML, arXiv:1802.02538.
    """
    chosen = _approximations(methods)
    _check(khat, draws, fresh_draws)
    seed = int(np.random.default_rng(random_seed).integers(2**31))
    problem = _problem(model, data)
    attempts: list[Attempt] = []
    for name in chosen:
        _log.info("trying %s", name)
        attempt, found, k = _try(name, problem, khat, fresh_draws, seed)
        attempts.append(attempt)
        if found is not None and k is not None:
            idata = _resampled(problem, found, k, draws, seed)
            return Advice(name, idata, tuple(attempts), found)
    _log.info("no approximation is good enough: running NUTS")
    idata = problem.nuts(draws, seed, progressbar)
    return Advice("nuts", idata, tuple(attempts), None)


def _check(khat: float, draws: int, fresh_draws: int) -> None:
    if not 0 < khat <= 1:
        raise ValueError(f"khat must be in (0, 1], got {khat}")
    if draws < 4 or fresh_draws < 200 * REPETITIONS:
        raise ValueError(
            f"need draws >= 4 and fresh_draws >= {200 * REPETITIONS}, got {draws}, {fresh_draws}"
        )


def _approximations(names: Sequence[str]) -> list[str]:
    found = [method.name for method in find_methods([names] if isinstance(names, str) else names)]
    samplers = [name for name in found if name == "stan-nuts"]
    if samplers or not found:
        raise ValueError(
            f"methods must name approximations, got {found}: NUTS runs by itself if all fail"
        )
    return found


@dataclass(frozen=True)
class _ModelProblem:
    """What a method needs of a posterior that is no case: a PyMC model."""

    model: pm.Model
    gradient_seconds = None  # of a Stan program only

    @cached_property
    def pymc_target(self) -> Target:
        return pymc_target(self.model)

    def nuts(self, draws: int, seed: int, progressbar: bool) -> Any:
        with self.model:
            return pm.sample(-(-draws // 4), chains=4, random_seed=seed, progressbar=progressbar)


@dataclass(frozen=True)
class _StanProblem:
    """A Stan program with data."""

    program: Any
    data: Any

    @property
    def case(self) -> Any:
        return self  # Stan's methods read `problem.case.data`

    @cached_property
    def model(self) -> pm.Model:
        return stan_model(self.program, self.data)

    @cached_property
    def gradient_seconds(self) -> float:
        return gradient_seconds(self.program.density(self.data), self.model)

    @cached_property
    def stan_target(self) -> Target:
        return stan_target(self.program.density(self.data))

    @property
    def pymc_target(self) -> Target:
        return self.stan_target

    def nuts(self, draws: int, seed: int, progressbar: bool) -> Any:
        from stan_models import nuts

        return nuts(self.program, self.data, draws=-(-draws // 4), chains=4, random_seed=seed)


def _problem(model: Any, data: Any) -> Any:
    if model is None or isinstance(model, pm.Model):
        if data is not None:
            raise ValueError(
                "data belong to a Stan program: a PyMC model already holds its own; use pm.set_data"
            )
        return _ModelProblem(pm.modelcontext(model))
    from stan_models import StanProgram

    program = model if isinstance(model, StanProgram) else StanProgram(model)
    problem = _StanProblem(program, data)
    _ = problem.model  # what is wrong with program or data is said at once, not by every method
    return problem


def _try(
    name: str, problem: Any, limit: float, draws: int, seed: int
) -> tuple[Attempt, Fit | None, KHat | None]:
    """The attempt, and the fit with its k̂ over all draws where it is good enough."""
    begin, nan = time.perf_counter(), float("nan")
    if METHODS[name].representation == "stan" and isinstance(problem, _ModelProblem):
        verdict = "not tried: it needs a Stan program"
        return Attempt(name, nan, nan, nan, False, 0.0, verdict), None, None
    try:
        found = METHODS[name].run(problem, draws, seed)
        assert found.lq is not None
        lp, lq = found.lp.ravel(), found.lq.ravel()
        size = lp.size // REPETITIONS
        batches = [x[: size * REPETITIONS].reshape(REPETITIONS, size) for x in (lp, lq)]
        k = pareto_khat(*batches)
    except Exception as error:
        _log.debug("%s failed", name, exc_info=True)
        verdict = f"failed: {type(error).__name__}: {error}"
        seconds = time.perf_counter() - begin
        return Attempt(name, nan, nan, nan, False, seconds, verdict), None, None
    good = k.exact or k.value < limit
    attempt = Attempt(
        method=name,
        khat=k.value,
        khat_sd=k.sd,
        elbo=float((lp - lq).mean()),
        exact=k.exact,
        seconds=time.perf_counter() - begin,
        verdict=_verdict(k, limit),
    )
    return attempt, found if good else None, pareto_khat(lp, lq) if good else None


def _verdict(k: KHat, limit: float) -> str:
    if k.exact:
        return "exact: its log ratios to the posterior are constant"
    if np.isnan(k.value):
        return f"refused: no k̂ ({k.reason})"
    sign, word = ("<", "good enough") if k.value < limit else (">=", "refused")
    return f"{word}: k̂ = {k.value:.2f} {sign} {limit:g}"


def _resampled(problem: Any, found: Fit, k: KHat, draws: int, seed: int) -> Any:
    """Draws with replacement, in proportion to the smoothed weights."""
    assert k.weights is not None
    rng = np.random.default_rng([seed, 1])
    rows = rng.choice(k.weights.size, draws, p=k.weights.ravel())
    theta = found.theta.reshape(-1, found.theta.shape[-1])[rows]
    values = found.target.constrain(theta)
    posterior = _dataset({name: value[None] for name, value in values.items()}, problem)
    stats = _dataset({"lp": found.lp.ravel()[rows][None]}, problem)
    return make_inference_data({"posterior": posterior, "sample_stats": stats})


def _dataset(values: dict[str, np.ndarray], problem: Any) -> xr.Dataset:
    """Arrays (chain, draw, *shape) with the dims and coords of a PyMC model."""
    model = problem.model if isinstance(problem, _ModelProblem) else None
    known = {} if model is None else model.named_vars_to_dims
    coords = {} if model is None else {k: v for k, v in model.coords.items() if v is not None}
    arrays = {}
    for name, value in values.items():
        named = known.get(name) or [None] * (value.ndim - 2)
        labels = [dim or f"{name}_dim_{i}" for i, dim in enumerate(named)]
        arrays[name] = (["chain", "draw", *labels], value)
    sizes = dict(zip(("chain", "draw"), next(iter(values.values())).shape[:2], strict=True))
    dataset = xr.Dataset(arrays, coords={dim: np.arange(size) for dim, size in sizes.items()})
    used = {dim: list(coords[dim]) for dim in dataset.dims if dim in coords}
    return dataset.assign_coords(used)
