"""Calibration of a method on a model, resumable, under joblib."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import cloudpickle
import numpy as np
import pandas as pd
from joblib import delayed

from bridge.advice.fit import fit
from bridge.calibration.on_record import FILE, key_of, opened, seed_of
from bridge.calibration.result import Calibration
from bridge.calibration.run import ANSWER, Task, run_one
from bridge.calibration.study import Prior, Simulated, Simulator, Study, Values
from bridge.comparison.cluster import finished, within
from bridge.comparison.records import Record, Records
from bridge.measures.limits import KHAT_FEWEST_DRAWS
from bridge.methods.families import FittedBy
from bridge.methods.method import Method
from bridge.methods.named_draws import NamedDraws
from bridge.methods.table import find_methods
from bridge.verdict import REPETITIONS
from pymc_ext.seeds import check_seed
from pymc_ext.variational.core.algorithm import Algorithm
from stan_models import StanProgram

if TYPE_CHECKING:
    import bambi
    import pymc as pm

    from pymc_ext.variational.plugin.inference import AlgorithmVI

__all__ = ["calibrate"]

_log = logging.getLogger(__name__)


def calibrate(
    model: pm.Model | bambi.Model | StanProgram | str | os.PathLike[str] | None = None,
    method: str | Method | Algorithm | AlgorithmVI | None = None,
    simulations: int = 1_000,
    *,
    data: Values | None = None,
    prior: Prior | None = None,
    simulator: Simulator | None = None,
    out: str | os.PathLike[str] | None = None,
    fresh_draws: int = 20_000,
    random_seed: int | None = None,
    retry_failed: bool = False,
    budget: float | None = None,
    on_record: Callable[[Record, int, int], None] | None = None,
) -> Calibration:
    """Simulation-based calibration: does a method find what its data were made with?

    For each simulation θ* ~ p(θ), y ~ p(y|θ*) the method is fitted to y, and θ* ranked among 199 of
    its draws. Were they draws of the posterior, every rank would be uniform on 0 … 199: of each
    parameter, and of log p(y|θ) and log p̃, which see a posterior that ignores the data. The model
    is compiled once, whatever the number of simulations.

    Parameters
    ----------
    model
        A ``pm.Model`` (None: the one of the ``with`` context) whose observed variables PyMC can
        draw; a ``bambi.Model``; a `stan_models.StanProgram`, Stan source, or the path of a
        ``.stan`` file.
    method
        A name from `python -m bridge list`, a :class:`bridge.Method`, or an instance of a family of
        `pymc_ext` that works on densities (``px.LaplaceVI()``), of which the options count. None or
        ``"answer"``: all of :func:`bridge.fit`.
    simulations
        How many; with more of them than before, those on record in ``out`` are not made again.
    data
        Real data, for posterior calibration: θ* is drawn from their posterior, found by
        :func:`bridge.fit`, and the fits are to them and the simulated data together. Of a PyMC
        model a mapping of its observed variables, of a Stan program its data.
    prior
        ``prior(rng)`` -> constrained values of all parameters by name, in place of PyMC's own
        draws; a Stan program has none.
    simulator
        ``simulator(parameters, rng)`` -> values of the observed variables, or the whole data block
        of a Stan program; with ``data`` the block that holds both.
    out
        Folder of the results, for one model and one method: each simulation is committed as it
        ends, an interrupted calibration goes on where it stopped. None: nothing is kept.
    fresh_draws
        By which each fit is judged, as in :func:`bridge.fit`.
    random_seed
        Of everything; None: any, or that of the runs in ``out``.
    retry_failed
        Make those again that failed.
    budget
        Seconds after which no further simulation is started.
    on_record
        Called as ``on_record(record, done, total)`` after each, for progress.

    Returns
    -------
    Calibration
        Ranks and verdicts; ``summary()``, ``quantities``, ``inference_data()``, ``plot()``.

    Raises
    ------
    UnknownMethodError
        With the near names.
    RecordsError
        ``out`` holds the runs of another model, method or seed.
    ValueError
        A prior is improper, data cannot be simulated, the posterior of ``data`` cannot be trusted,
        or a number is out of range.

    Examples
    --------
    >>> with pm.Model():
    ...     mu = pm.Normal("mu", 0, 1)
    ...     pm.Normal("y", mu, 1, observed=[0.0, 0.0])
    ...     found = bridge.calibrate(method="laplace", simulations=50, random_seed=1)
    >>> found.calibrated()  # the posterior is Gaussian
    True

    References
    ----------
    Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms
    with simulation-based calibration, arXiv:1804.06788. Modrák et al. (2023), Simulation-based
    calibration checking for Bayesian computation: the choice of test quantities shapes sensitivity,
    Bayesian Analysis, doi:10.1214/23-BA1404. Säilynoja, Schmitt, Bürkner and Vehtari (2025),
    Posterior SBC, arXiv:2502.03279.
    """
    check_seed(random_seed)
    _check(simulations, fresh_draws, budget)
    chosen = _method(method)
    study = _study(model, chosen)
    with nullcontext(out) if out is not None else tempfile.TemporaryDirectory() as folder:
        assert folder is not None
        path = Path(folder) / FILE
        seed = seed_of(path, random_seed)
        pairs, study = _pairs(study, simulations, data, prior, simulator, seed)
        key = key_of(study, chosen, fresh_draws, seed, data is not None)
        task = Task(cloudpickle.dumps(study), cloudpickle.dumps(chosen), key, fresh_draws, seed)
        records = opened(path, key)
        frame = _filled(records, task, pairs, retry_failed, budget, on_record)
    return Calibration.of_records(frame, simulations, posterior=data is not None)


def _filled(
    records: Records,
    task: Task,
    pairs: list[Simulated],
    retry_failed: bool,
    budget: float | None,
    on_record: Callable[[Record, int, int], None] | None,
) -> pd.DataFrame:
    """Make the runs that are missing; the records of all."""
    done = {key[2] for key in records.by_key(status="ok" if retry_failed else None)}
    pending = [number for number in range(1, len(pairs) + 1) if number not in done]
    if len(pending) < len(pairs):
        _log.info("%d of %d simulations are on record", len(pairs) - len(pending), len(pairs))
    tasks = (delayed(run_one)(task, n, pairs[n - 1]) for n in within(pending, budget))
    for number, record in enumerate(finished(tasks), start=len(pairs) - len(pending) + 1):
        records.add(record)
        if on_record is not None:
            on_record(record, number, len(pairs))
    frame = records.frame()
    if frame.empty:
        raise ValueError("no simulation was started within the budget: give more seconds")
    return frame[frame["seed"] <= len(pairs)].sort_values("seed", ignore_index=True)


def _check(simulations: int, fresh_draws: int, budget: float | None) -> None:
    if isinstance(simulations, bool) or not isinstance(simulations, int) or simulations < 1:
        raise ValueError(f"simulations must be an integer >= 1, got {simulations!r}")
    fewest = KHAT_FEWEST_DRAWS * REPETITIONS
    if fresh_draws < fewest:
        raise ValueError(f"fresh_draws must be at least {fewest}, got {fresh_draws}")
    if budget is not None and not budget > 0:
        raise ValueError(f"budget must be a positive number of seconds, got {budget!r}")


def _method(method: str | Method | Algorithm | AlgorithmVI | None) -> Method | None:
    """What fits; None: all of `bridge.fit`."""
    if method is None or method == ANSWER:
        return None
    algorithm = getattr(method, "algorithm", method)
    if isinstance(algorithm, Algorithm):
        return Method(algorithm.name, "an algorithm given", "pymc", FittedBy(algorithm))
    if not isinstance(method, str | Method):
        raise TypeError(
            "method must be a name, a bridge.Method or a family of pymc_ext that works on "
            f"densities, got {type(method).__name__}: families that read a model's graph are "
            "calibrated by name, such as 'viper-full'"
        )
    (found,) = find_methods(method)
    return found


def _study(
    model: pm.Model | bambi.Model | StanProgram | str | os.PathLike[str] | None,
    method: Method | None,
) -> Study:
    if isinstance(model, StanProgram | str | os.PathLike):
        from bridge.calibration.of_stan import StanStudy

        return StanStudy(model if isinstance(model, StanProgram) else StanProgram(model))
    import pymc as pm

    from bridge.calibration.of_pymc import PyMCStudy
    from bridge.targets.bambi import built_model, is_bambi
    from pymc_ext.models.context import context

    if method is not None and method.representation == "stan":
        raise ValueError(
            f"method {method.name!r} needs a Stan program, got a PyMC model: choose one that does "
            "not start with stan-"
        )
    if is_bambi(model):
        model = built_model(model)
    if model is not None and not isinstance(model, pm.Model):
        raise TypeError(
            f"model must be a pm.Model or a Stan program, got {type(model).__name__}: a density "
            "has no data to be simulated"
        )
    return PyMCStudy(context(model, "give a pm.Model or a Stan program"))


def _pairs(
    study: Study,
    simulations: int,
    data: Values | None,
    prior: Prior | None,
    simulator: Simulator | None,
    seed: int,
) -> tuple[list[Simulated], Study]:
    """Parameters with their data, and the model that these condition."""
    if data is None:
        return study.simulate(simulations, prior, simulator, seed), study
    if prior is not None:
        raise ValueError("with data= parameters are drawn from their posterior: leave prior= out")
    advice = fit(
        study.problem(data), draws=max(simulations, 4), random_seed=seed, progressbar=False
    )
    if not advice.trusted:
        raise ValueError(
            "parameters cannot be drawn from the posterior of data=, as no answer to it is "
            f"trusted: {'; '.join(advice.doubts)}"
        )
    named = advice.draws.values if isinstance(advice.draws, NamedDraws) else None
    posterior = {
        name: np.asarray(advice.idata["posterior"][name] if named is None else named[name])
        for name in study.problem(data).target.parameter_names
    }
    flat = {name: x.reshape(-1, *x.shape[2:]) for name, x in posterior.items()}
    rows = np.linspace(0, len(next(iter(flat.values()))) - 1, simulations).astype(int)
    drawn = [{name: x[row] for name, x in flat.items()} for row in rows]
    return study.simulate_again(drawn, simulator, seed), study.conditioned(data)
